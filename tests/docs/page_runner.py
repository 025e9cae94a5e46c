"""Runner for the commands of a page, in several terminals.

Only ports differ from the page.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from creekdb.load.local_cluster import HTTP_PORT_OFFSET, PEER_PORT_OFFSET
from tests.docs.pages import Command

TIMEOUT_S = 60.0
FIRST_PORT = 7100
"""Client port of replica 0 on the pages."""


class Terminal:
    """Command that runs in the background, with its output so far."""

    def __init__(self, line: str, directory: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            shlex.split(line),
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.output = ""
        self._output_changed = threading.Condition()
        self._thread = threading.Thread(target=self._read_output)
        self._thread.start()

    def wait_for(self, text: str, count: int = 1) -> None:
        """Wait until the output contains `text` `count` times."""
        with self._output_changed:
            is_found = self._output_changed.wait_for(
                lambda: self.output.count(text) >= count, TIMEOUT_S
            )
        assert is_found, f"'{text}' is missing in the output: {self.output}"

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(TIMEOUT_S)
        finally:
            self.process.kill()
            self.process.wait()
            self._thread.join()
            assert self.process.stdout is not None
            self.process.stdout.close()

    def _read_output(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._output_changed:
                self.output += line
                self._output_changed.notify_all()


class PageRunner:
    """Runner for one page. `port` replaces 7100, the client port of replica 0."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
        self.terminals: dict[str, Terminal] = {}
        programs = directory / "programs"
        programs.mkdir(parents=True)
        for name, arguments in {"python": "", "creek": " -m creekdb"}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{arguments} "$@"\n')
            (programs / name).chmod(0o755)
        path = os.pathsep.join((str(programs), os.environ.get("PATH", os.defpath)))
        self.environment = {**os.environ, "PATH": path, "COLUMNS": "110", "PYTHONUNBUFFERED": "1"}

    def adapt(self, text: str) -> str:
        """Replace the ports of the page by the actual ones."""
        for replica in range(4):
            for first in (FIRST_PORT, FIRST_PORT + PEER_PORT_OFFSET, FIRST_PORT + HTTP_PORT_OFFSET):
                actual = f":{self.port + first - FIRST_PORT + replica}"
                text = re.sub(rf"(?<=[\w.\]]):{first + replica}\b", actual, text)
        return text

    def save(self, name: str, text: str) -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.adapt(text))

    def start(self, terminal: str, line: str) -> Terminal:
        assert shutil.which(shlex.split(line)[0], path=self.environment["PATH"])
        self.terminals[terminal] = Terminal(self.adapt(line), self.directory, self.environment)
        return self.terminals[terminal]

    def run(self, line: str) -> str:
        """Run a command and return its output."""
        line = self.adapt(line)
        if (
            line.startswith(("creek call", "creek sql", "creek status", "creek member"))
            and "--at" not in line
        ):
            line += f" --at 127.0.0.1:{self.port}"
        if line.startswith(("creek cut", "creek heal", "creek kill")):
            line += f" --port {self.port}"
        return subprocess.run(
            line,
            shell=True,
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        ).stdout

    def check(self, command: Command) -> None:
        """Run a command and compare its output with the page."""
        assert self.run(command.line) == self.adapt(command.output), command.line

    def statuses(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("creek status --json").splitlines()]

    def stop(self) -> None:
        """Stop all terminals, the last one first."""
        for terminal in reversed(self.terminals.values()):
            terminal.stop()
