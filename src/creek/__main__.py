"""`python -m creek` is the `creek` command."""

import sys

from creek.cli import main

if __name__ == "__main__":
    sys.exit(main())
