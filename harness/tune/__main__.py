"""python -m harness.tune

A module of its own: worker processes import once more what was started, unless it is a `__main__`.
"""

import sys

from harness.tune import main

sys.exit(main())
