# SPDX-License-Identifier: Apache-2.0
"""Training of the ternary language model that hwgen ships.

`text` reads public-domain text and makes tokens, `ternary` trains, `export` writes a GGUF file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from hwgen.errors import HwgenError


def command(main: Callable[[], None]) -> None:
    """Run a command; a user's error becomes a message and its exit status."""
    try:
        main()
    except HwgenError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_status)
    except OSError as error:
        sys.stderr.write(f"error: {error.filename}: {error.strerror}\n")
        sys.exit(2)
