"""PySyncObj: three processes that replicate a dict.

It has no clients, so each process calls itself. It writes a journal but does not sync it, so it
guarantees less durability than the others.
"""

import importlib
import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from creekdb.load.local_cluster import free_port


def is_installed() -> bool:
    return importlib.util.find_spec("pysyncobj") is not None


def puts_per_second(directory: Path, seconds: float, value_bytes: int, outstanding: int) -> float:
    """Return the puts per second of all three processes, with `outstanding` puts in each."""
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    shared = [str(seconds), str(value_bytes), str(outstanding), str(directory)]
    nodes = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.competitors.pysyncobj",
                str(each),
                *shared,
                *addresses,
            ],
            stdout=subprocess.PIPE,
        )
        for each in range(3)
    ]
    outputs = [node.communicate()[0] for node in nodes]
    return sum(float(each or 0) for each in outputs)


def _node(
    index: int, seconds: float, size: int, outstanding: int, directory: str, *addresses: str
) -> float:
    others = [each for number, each in enumerate(addresses) if number != index]
    library: Any = importlib.import_module("pysyncobj")
    replicated: Any = importlib.import_module("pysyncobj.batteries").ReplDict()
    conf = library.SyncObjConf(
        journalFile=f"{directory}/journal-{index}", commandsQueueSize=100_000
    )
    node = library.SyncObj(addresses[index], others, conf=conf, consumers=[replicated])
    node.waitReady()
    value, completed, stopped, number = b"x" * size, 0, False, 0

    def put() -> None:
        nonlocal number
        number += 1
        replicated.set(f"key{number % 10_000:08}", value, callback=on_put)

    def on_put(_: object, error: object) -> None:
        nonlocal completed
        completed += error is None or not error
        if not stopped:
            put()

    for _ in range(outstanding):
        put()
    time.sleep(seconds / 4)
    started_s, completed_before = time.monotonic(), completed
    time.sleep(seconds)
    rate = (completed - completed_before) / (time.monotonic() - started_s)
    stopped = True
    node.destroy()
    return rate


if __name__ == "__main__":
    index, seconds, size, outstanding, directory, *addresses = sys.argv[1:]
    sys.stdout.write(
        str(_node(int(index), float(seconds), int(size), int(outstanding), directory, *addresses))
    )
