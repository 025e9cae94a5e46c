"""Notifications to systemd, received by a socket of the test."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from creekdb.server.runtime.service_manager import READY, ServiceManager


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "notify"))
        server.settimeout(10)
        yield server


def test_states_are_sent_to_the_socket(systemd: socket.socket) -> None:
    ServiceManager({"NOTIFY_SOCKET": systemd.getsockname()}).notify(READY)

    assert systemd.recv(100) == b"READY=1"


def test_an_abstract_socket_is_reached_by_its_name_with_an_at_sign() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind("")  # Linux chooses an abstract name
        server.settimeout(10)
        name: bytes = server.getsockname()
        ServiceManager({"NOTIFY_SOCKET": f"@{name[1:].decode()}"}).notify(READY)

        assert server.recv(100) == b"READY=1"


def test_nothing_is_sent_without_systemd_or_to_a_missing_socket(tmp_path: Path) -> None:
    ServiceManager({}).notify(READY)
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "missing")}).notify(READY)


async def test_the_watchdog_is_notified_twice_per_timeout(systemd: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "20000"}
    manager = ServiceManager(environment)
    task = asyncio.create_task(manager.keep_watchdog_quiet())
    received = [await asyncio.to_thread(systemd.recv, 100) for _ in range(3)]
    task.cancel()

    assert manager.watchdog_interval_s == 0.01
    assert received == [b"WATCHDOG=1"] * 3


def test_the_watchdog_of_another_process_is_left_alone() -> None:
    environment = {"WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"}

    assert ServiceManager(environment).watchdog_interval_s == 0
