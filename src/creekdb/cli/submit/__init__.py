"""Script for `spark-submit`, in a directory of its own.

Python puts the directory of a script first on its path, where another module of this package would
hide one of the standard library.
"""

from pathlib import Path
from typing import Final

SCRIPT: Final = Path(__file__).with_name("creek.py")
"""Path of the script, for the command line of `spark-submit`."""
