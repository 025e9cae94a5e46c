"""`python -m creekdb` is the `creek` command."""

import sys

from creekdb.cli import main

if __name__ == "__main__":
    sys.exit(main())
