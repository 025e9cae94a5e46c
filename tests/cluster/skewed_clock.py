"""`creek` with a skewed clock. Usage: `skewed_clock.py MICROSECONDS serve …`."""

import sys
import time

from creekdb.cli import main


def run(skew_us: int, arguments: list[str]) -> int:
    time_ns = time.time_ns
    time.time_ns = lambda: time_ns() + 1000 * skew_us
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), sys.argv[2:]))
