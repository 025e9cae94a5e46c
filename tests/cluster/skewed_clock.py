"""`creek` with a skewed clock. Usage: `skewed_clock.py MICROSECONDS serve …`."""

import sys

from creekdb.cli import main
from creekdb.server.runtime import driver


def run(skew_us: int, arguments: list[str]) -> int:
    wall_clock_us = driver.wall_clock_us
    driver.wall_clock_us = lambda: wall_clock_us() + skew_us
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), sys.argv[2:]))
