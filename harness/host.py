"""Import this in a host module: the steps that `launches(arguments, config)` may yield."""

from harness.core.program import Read as Read
from harness.measure.device.host_module import Launch as Launch
