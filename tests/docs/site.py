"""Build of the documentation site."""

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT


def build_site(directory: Path) -> None:
    """Build the site into `directory`. A warning is an error."""
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--quiet",
            "--strict",
            "--site-dir",
            str(directory),
        ],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stdout) == (0, "")
