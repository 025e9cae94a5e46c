"""`creek` with a clock that is wrong: `faults_clock.py MICROSECONDS serve …`."""

import sys

from creekdb.cli import main
from creekdb.server.runtime import driver


def run(ahead_us: int, arguments: list[str]) -> int:
    right_us = driver.wall_clock_us
    driver.wall_clock_us = lambda: right_us() + ahead_us
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), sys.argv[2:]))
