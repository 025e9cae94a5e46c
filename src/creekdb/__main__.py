"""Entry point of `python -m creekdb`, which runs the `creek` command."""

import sys

from creekdb.cli import main

if __name__ == "__main__":
    sys.exit(main())
