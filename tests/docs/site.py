"""The site, built from what is there."""

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT


def build(folder: Path) -> None:
    """Without a warning."""
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stdout) == (0, "")
