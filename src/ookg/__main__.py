"""`python -m ookg` is the command `ookg`."""

import sys

from ookg.cli import main

if __name__ == "__main__":
    sys.exit(main())
