"""python -m harness.discover"""

import sys

from harness.discover import main

sys.exit(main())
