"""Port reservation: no two processes share a port."""

import socket
import subprocess
import sys

from creekdb.load.local_cluster import PORTS, bind_error, free_port, reserve_block


def test_no_two_blocks_share_a_port() -> None:
    first, second = reserve_block(), reserve_block()
    assert not set(first) & set(second)
    assert {*first, *second} <= set(PORTS)


def test_a_port_is_not_assigned_again_soon_or_while_in_use() -> None:
    ports = [free_port() for _ in range(20)]
    assert len(set(ports)) == 20
    with socket.create_server(("127.0.0.1", ports[0])):
        assert bind_error(ports[0]) is not None
    assert bind_error(ports[0]) is None


def test_another_process_reserves_other_blocks() -> None:
    own_block = reserve_block()
    code = (
        "from creekdb.load.local_cluster import reserve_block; "
        "print(*[reserve_block()[0] for _ in range(5)])"
    )
    other = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not set(map(int, other.stdout.split())) & set(own_block)
