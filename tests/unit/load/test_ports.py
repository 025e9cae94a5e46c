"""Ports of which no two processes get the same."""

import socket
import subprocess
import sys

from creekdb.load.local_cluster import PORTS, free_port, is_free, reserve_block


def test_no_two_blocks_share_a_port() -> None:
    first, second = reserve_block(), reserve_block()
    assert not set(first) & set(second)
    assert {*first, *second} <= set(PORTS)


def test_a_port_is_not_given_again_soon_nor_while_somebody_listens() -> None:
    given = [free_port() for _ in range(20)]
    assert len(set(given)) == 20
    with socket.create_server(("127.0.0.1", given[0])):
        assert not is_free(given[0])
    assert is_free(given[0])


def test_another_process_has_other_ports_as_long_as_this_one_lives() -> None:
    ours = reserve_block()
    code = "from creekdb.load import ports; print(*[ports.reserve()[0] for _ in range(5)])"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not set(map(int, said.stdout.split())) & set(ours)
