# SPDX-License-Identifier: Apache-2.0
"""``python -m hwgen``: the same as the console script."""

import sys

from hwgen.cli import main

if __name__ == "__main__":
    sys.exit(main())
