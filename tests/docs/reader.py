"""Somebody who follows a page word for word, at several terminals.

Only ports and the numbers of processes are others than on the page.
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

PATIENCE_S = 60.0
FIRST_PORT = 7100


class Terminal:
    """A command that goes on while others are typed elsewhere."""

    def __init__(self, line: str, folder: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            shlex.split(line),
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.shown = ""
        self._more = threading.Condition()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def until(self, what: str, often: int = 1) -> None:
        """Until that is shown, so many times."""
        with self._more:
            came = self._more.wait_for(lambda: self.shown.count(what) >= often, PATIENCE_S)
        assert came, f"'{what}' was never shown, but: {self.shown}"

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self.process.wait()
            self._thread.join()
            assert self.process.stdout is not None
            self.process.stdout.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._more:
                self.shown += line
                self._more.notify_all()


class Reader:
    """`port`: where clients find replica 0, in place of 7100."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self._processes: dict[str, int] = {}
        self.terminals: dict[str, Terminal] = {}
        programs = folder / "programs"
        programs.mkdir(parents=True)
        for name, words in {"python": "", "creek": " -m creekdb"}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{words} "$@"\n')
            (programs / name).chmod(0o755)
        path = os.pathsep.join((str(programs), os.environ.get("PATH", os.defpath)))
        self.environment = {**os.environ, "PATH": path, "COLUMNS": "110", "PYTHONUNBUFFERED": "1"}

    def adapted(self, text: str) -> str:
        """With ports that are free here, and processes that are there."""
        for replica in range(4):
            for first in (FIRST_PORT, FIRST_PORT + PEER_PORT_OFFSET, FIRST_PORT + HTTP_PORT_OFFSET):
                there = f":{self.port + first - FIRST_PORT + replica}"
                text = re.sub(rf"(?<=[\w.\]]):{first + replica}\b", there, text)
        for written, process in self._processes.items():
            text = re.sub(rf"\b{written}\b", str(process), text)
        return text

    def save(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.adapted(text))

    def start(self, terminal: str, line: str) -> Terminal:
        assert shutil.which(shlex.split(line)[0], path=self.environment["PATH"])
        self.terminals[terminal] = Terminal(self.adapted(line), self.folder, self.environment)
        return self.terminals[terminal]

    def run(self, line: str) -> str:
        """What a command shows."""
        line = self.adapted(line)
        asking = ("creek call", "creek status", "creek member")
        if line.startswith(asking) and "--at" not in line:
            line += f" --at 127.0.0.1:{self.port}"
        return subprocess.run(
            line,
            shell=True,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        ).stdout

    def does(self, command: Command) -> None:
        """And sees what the page shows."""
        assert self.run(command.line) == self.adapted(command.shown), command.line

    def statuses(self) -> list[dict[str, Any]]:
        return [json.loads(each) for each in self.run("creek status --json").splitlines()]

    def look_up_processes(self, table: str) -> None:
        """Which process of the page's table is which here, by replica."""
        there = {str(each["replica"]): each["process"] for each in self.statuses()}
        for line in table.splitlines()[1:]:
            replica, _, process, *_ = line.split()
            self._processes[process] = there[replica]

    def end(self) -> None:
        for process in self._processes.values():
            try:
                os.kill(process, signal.SIGCONT)
            except ProcessLookupError:
                continue
        for terminal in reversed(self.terminals.values()):
            terminal.end()
