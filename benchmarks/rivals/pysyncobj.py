"""PySyncObj: three processes that replicate a dict, each asked by itself, for it has no clients.

It keeps a journal, but does not sync it: what it does here, it does with less to lose.
"""

import importlib
import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from creekdb.load.local_cluster import free_port


def is_there() -> bool:
    return importlib.util.find_spec("pysyncobj") is not None


def puts_per_second(folder: Path, seconds: float, value_bytes: int, outstanding: int) -> float:
    """Of all three, each with as many puts under way."""
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    shared = [str(seconds), str(value_bytes), str(outstanding), str(folder)]
    nodes = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.rivals.pysyncobj", str(each), *shared, *addresses],
            stdout=subprocess.PIPE,
        )
        for each in range(3)
    ]
    told = [node.communicate()[0] for node in nodes]
    return sum(float(each or 0) for each in told)


def _node(place: int, seconds: float, size: int, outstanding: int, folder: str, *at: str) -> float:
    others = [each for number, each in enumerate(at) if number != place]
    library: Any = importlib.import_module("pysyncobj")
    replicated: Any = importlib.import_module("pysyncobj.batteries").ReplDict()
    conf = library.SyncObjConf(journalFile=f"{folder}/journal-{place}", commandsQueueSize=100_000)
    node = library.SyncObj(at[place], others, conf=conf, consumers=[replicated])
    node.waitReady()
    value, done, over, number = b"x" * size, 0, False, 0

    def put() -> None:
        nonlocal number
        number += 1
        replicated.set(f"key{number % 10_000:08}", value, callback=came)

    def came(_: object, error: object) -> None:
        nonlocal done
        done += error is None or not error
        if not over:
            put()

    for _ in range(outstanding):
        put()
    time.sleep(seconds / 4)
    begun, before = time.monotonic(), done
    time.sleep(seconds)
    rate = (done - before) / (time.monotonic() - begun)
    over = True
    node.destroy()
    return rate


if __name__ == "__main__":
    place, seconds, size, outstanding, folder, *at = sys.argv[1:]
    sys.stdout.write(
        str(_node(int(place), float(seconds), int(size), int(outstanding), folder, *at))
    )
