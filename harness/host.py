"""Import this in a host module: the steps that `launches(arguments, config)` may yield."""

from harness.measure.host_module import Launch as Launch
from harness.measure.host_module import Read as Read
