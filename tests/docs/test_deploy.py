"""Three machines with TLS, as the page has them, on this one: only hosts, ports and paths differ.

A replica loses its disk, as on the next page.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.ports import free_ports
from tests.docs.pages import Command, commands_of, files
from tests.docs.reader import Reader

PAGE = "deploy.md"
REPLICAS = (0, 1, 2)
TOKEN = "-l-M9u0IwEBc8VpUd1kMj6_XOO_jjSa4"
FOLDER = "shop-cluster"


class Machines(Reader):
    """Where the page says 10.0.0.1 to 10.0.0.3, it is this machine."""

    token = TOKEN

    def adapted(self, text: str) -> str:
        text = re.sub(r"\b10\.0\.0\.[123]\b", "127.0.0.1", text)
        return super().adapted(text).replace(TOKEN, self.token)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    somebody = Machines(tmp_path, free_ports())
    yield somebody
    somebody.end()


def test_three_machines_are_deployed_and_one_loses_its_disk(machines: Machines) -> None:
    certs, *calls = commands_of(PAGE)
    for name, text in {**files("tutorial.md"), **files(PAGE)}.items():
        machines.save(name, text)
    check_certificates(machines, certs)
    for replica in REPLICAS:
        start(machines, replica)
    for replica in REPLICAS:
        machines.terminals[str(replica)].until("clients at")
    for call in calls:
        machines.does(call)
    assert [each["members"] for each in machines.statuses()] == [list(REPLICAS)] * 3

    stop, move, begin, ask = commands_of("lost-disk.md")
    assert (stop.line, begin.line) == ("systemctl stop creek", "systemctl start creek")
    machines.terminals.pop("1").end()
    machines.run(move.line.replace("/var/lib/creek", f"{machines.folder}/{FOLDER}"))
    assert not (machines.folder / FOLDER / "data-1").exists()
    start(machines, 1)
    machines.terminals["1"].until("clients at")
    machines.does(ask)
    assert (machines.folder / FOLDER / "lost-1").is_dir()
    assert (machines.folder / FOLDER / "data-1").is_dir()


def check_certificates(machines: Machines, certs: Command) -> None:
    """What is shown is said, and the configuration is that of the page."""
    said = machines.run(certs.line)
    found = re.search(r"^  till  (\S+)$", said, re.MULTILINE)
    assert found is not None
    machines.token = found[1]
    default_ports = certs.shown.replace("10.0.0.1:7100", "127.0.0.1:7100")
    for number in REPLICAS:
        default_ports = default_ports.replace(f"10.0.0.{number + 1}", "127.0.0.1")
    assert said == default_ports.replace(TOKEN, found[1])
    folder = machines.folder / FOLDER
    machines.environment["CREEK_TOKEN"] = found[1]
    machines.environment["CREEK_AUTHORITY"] = str(folder / "authority.pem")
    made = tomllib.loads((folder / "replica-0.toml").read_text())
    written = tomllib.loads(files(PAGE)["replica-0.toml"])
    assert without_places(made, machines.token) == without_places(written, TOKEN)
    for replica in REPLICAS:
        path = folder / f"replica-{replica}.toml"
        path.write_text(machines.adapted(path.read_text()))


def without_places(config: dict[str, Any], token: str) -> str:
    """As a text, without folders and hosts."""
    text = str(config).replace(token, "TOKEN")
    return re.sub(r"(10\.0\.0\.\d|127\.0\.0\.1)(?=:)|'/[^']*/", "", text)


def start(machines: Machines, replica: int) -> None:
    machines.start(str(replica), f"creek serve --config {FOLDER}/replica-{replica}.toml")
