"""The deployment page and the page on lost disks run as written, on this machine.

Only hosts, ports and paths differ.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.ports import free_ports
from tests.docs.page_runner import PageRunner
from tests.docs.pages import Command, commands_of, files

PAGE = "deploy.md"
REPLICAS = (0, 1, 2)
TOKEN = "-l-M9u0IwEBc8VpUd1kMj6_XOO_jjSa4"
"""Token on the page."""
CLUSTER_DIR = "shop-cluster"


class DeploymentRunner(PageRunner):
    """Runner that uses this machine in place of 10.0.0.1 to 10.0.0.3."""

    token = TOKEN

    def adapt(self, text: str) -> str:
        text = re.sub(r"\b10\.0\.0\.[123]\b", "127.0.0.1", text)
        return super().adapt(text).replace(TOKEN, self.token)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[DeploymentRunner]:
    runner = DeploymentRunner(tmp_path, free_ports())
    yield runner
    runner.stop()


def test_three_machines_are_deployed_and_one_loses_its_disk(runner: DeploymentRunner) -> None:
    certs, *calls = commands_of(PAGE)
    for name, text in {**files("tutorial.md"), **files(PAGE)}.items():
        runner.save(name, text)
    check_certificates(runner, certs)
    for replica in REPLICAS:
        start(runner, replica)
    for replica in REPLICAS:
        runner.terminals[str(replica)].wait_for("clients at")
    for call in calls:
        runner.check(call)
    assert [status["members"] for status in runner.statuses()] == [list(REPLICAS)] * 3

    stop, move, restart, call = commands_of("lost-disk.md")
    unit = "creek@replica-1"
    assert (stop.line, restart.line) == (f"systemctl stop {unit}", f"systemctl start {unit}")
    runner.terminals.pop("1").stop()
    runner.run(move.line.replace("/var/lib/creek", f"{runner.directory}/{CLUSTER_DIR}"))
    assert not (runner.directory / CLUSTER_DIR / "data-1").exists()
    start(runner, 1)
    runner.terminals["1"].wait_for("clients at")
    runner.check(call)
    assert (runner.directory / CLUSTER_DIR / "lost-1").is_dir()
    assert (runner.directory / CLUSTER_DIR / "data-1").is_dir()


def check_certificates(runner: DeploymentRunner, certs: Command) -> None:
    """Compare the output and the configuration of `creek certs` with the page."""
    output = runner.run(certs.line)
    match = re.search(r"^  till  (\S+)$", output, re.MULTILINE)
    assert match is not None
    runner.token = match[1]
    expected = certs.output.replace("10.0.0.1:7100", "127.0.0.1:7100")  # the ports stay
    for number in REPLICAS:
        expected = expected.replace(f"10.0.0.{number + 1}", "127.0.0.1")
    assert output == expected.replace(TOKEN, runner.token)
    directory = runner.directory / CLUSTER_DIR
    runner.environment["CREEK_TOKEN"] = runner.token
    runner.environment["CREEK_AUTHORITY"] = str(directory / "authority.pem")
    created = tomllib.loads((directory / "replica-0.toml").read_text())
    shown = tomllib.loads(files(PAGE)["replica-0.toml"])
    assert without_locations(created, runner.token) == without_locations(shown, TOKEN)
    for replica in REPLICAS:
        path = directory / f"replica-{replica}.toml"
        path.write_text(runner.adapt(path.read_text()))


def without_locations(config: dict[str, Any], token: str) -> str:
    """Return a configuration as text, without directories, hosts and the token."""
    text = str(config).replace(token, "TOKEN")
    return re.sub(r"(10\.0\.0\.\d|127\.0\.0\.1)(?=:)|'/[^']*/", "", text)


def start(runner: DeploymentRunner, replica: int) -> None:
    runner.start(str(replica), f"creek serve --config {CLUSTER_DIR}/replica-{replica}.toml")
