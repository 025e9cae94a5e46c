"""Sell tickets at two box offices, during a partition and after it."""

import os
import subprocess
import sys

from theatre import buy, owners

import creekdb

PORT = int(os.environ.get("CREEK_PORT", "7100"))


def creek(*arguments: str) -> None:
    """Run a command of Creek on the cluster."""
    command = [sys.executable, "-m", "creekdb", *arguments, "--port", str(PORT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


with (
    creekdb.connect(f"127.0.0.1:{PORT}") as north,
    creekdb.connect(f"127.0.0.1:{PORT + 2}") as south,
):
    sold = [office.strong(owners) for office in (north, south)]  # both replicas are up
    seat = f"A{len(sold[0]) + 1}"
    creek("cut", "2")
    print("The network is down: the offices cannot reach each other.")
    try:
        sales = [north.weak.begin(buy, seat, "ann"), south.weak.begin(buy, seat, "bob")]
        for sale in sales:
            print("sold:", sale.tentative)
    finally:
        creek("heal")
    print("The network is up again.")
    for sale in sales:
        try:
            print("final:", sale.final.value)
        except creekdb.OperationFailed as error:
            assert error.changed  # the customer has heard of a success
            print("apology:", error.message)
    print("sold seats:", len(north.strong(owners)))
