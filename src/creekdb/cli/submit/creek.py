"""The `creek` command as a script: `spark-submit [options of Spark] creek.py pipeline run ...`."""

import sys

from creekdb.cli import main

if __name__ == "__main__":
    sys.exit(main())
