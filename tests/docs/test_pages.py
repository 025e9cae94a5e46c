"""Every example of the pages runs, or is at least parsed."""

import configparser
import re
import runpy
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import creekdb
from creekdb.cli.app import command as creek_command
from creekdb.load.local_cluster import free_port
from creekdb.server.runtime.config import read_config
from tests.cluster.ports import free_ports
from tests.docs.page_runner import PageRunner
from tests.docs.pages import DOCS, Block, blocks, commands, commands_of, files

NUMBERS = re.compile(r"\d{16,}")


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[PageRunner]:
    runner = PageRunner(tmp_path, free_ports())
    yield runner
    runner.stop()


def test_nondeterministic_operations_are_detected(runner: PageRunner) -> None:
    page = "deterministic-operations.md"
    runner.environment["PYTHONHASHSEED"] = "0"
    for name, text in files(page).items():
        runner.save(name, text)
    for command in commands_of(page):
        output = runner.run(command.line)
        assert NUMBERS.sub("N", output) == NUMBERS.sub("N", command.output)


@pytest.mark.parametrize(
    ("page", "datatype"), [("index.md", "shop:shop"), ("weak-or-strong.md", "bank")]
)
def test_programs_of_a_page_run_on_a_cluster(page: str, datatype: str, runner: PageRunner) -> None:
    for name, text in files(page).items():
        runner.save(name, text)
    up = f"creek up --datatype {datatype}"
    assert up in (DOCS / page).read_text()
    runner.start("cluster", f"{up} --port {runner.port}").wait_for("is the leader")
    others = [command for command in commands_of(page) if command.line != up]
    assert others
    for command in others:
        runner.check(command)


def test_the_data_types_of_a_page_execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in files("write-a-data-type.md").items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    shop = runpy.run_path(str(tmp_path / "shop.py"))["shop"].sequential()
    assert [shop.call("buy", "lamp") for _ in range(3)] == [2, 1, 0]
    with pytest.raises(creekdb.OperationRaised, match="no lamp left"):
        shop.call("buy", "lamp")
    theatre = runpy.run_path(str(tmp_path / "theatre.py"))["theatre"].sequential()
    assert theatre.call("reserve", 7, "ann") == 20


def test_the_web_application_serves_requests(runner: PageRunner) -> None:
    page = "live-cluster.md"
    shop, *_ = (block.text for block in blocks(page) if block.language == "python")
    runner.save("shop.py", shop)
    port = str(free_port())
    runner.save("web.py", files(page)["web.py"].replace("8080", port))
    cluster = runner.start("cluster", f"creek up --datatype shop:shop --port {runner.port}")
    cluster.wait_for("is the leader")
    runner.start("web", "python web.py")
    for command in commands_of(page):
        line = command.line.replace(":8080", f":{port}").replace(
            "-s", "-s --retry-connrefused --retry 20"
        )
        assert runner.run(line) == command.output.strip()


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_code_compiles_commands_exist_and_configurations_are_valid(
    page: Path, tmp_path: Path
) -> None:
    for block in blocks(page.name):
        match block:
            case Block("python", title, text):
                compile(text, title or page.name, "exec")
            case Block("toml", _, text) if "members" in tomllib.loads(text):
                (tmp_path / "replica.toml").write_text(text)
                assert read_config(tmp_path / "replica.toml", {}, {}).members
            case Block("ini", _, text):
                unit = configparser.ConfigParser(strict=False, interpolation=None)
                unit.read_string(text)
                program, *words = shlex.split(unit["Service"]["ExecStart"])
                assert Path(program).name == "creek"
                check_command(words)
            case Block("console", _, text):
                for command in commands(text):
                    words = shlex.split(command.line.partition("|")[0])
                    if words[:1] == ["creek"]:
                        check_command(words[1:])
            case Block("sh", _, text):
                subprocess.run(["sh", "-n", "-c", text], check=True)
            case _:
                continue


def check_command(words: list[str]) -> None:
    """Check that the command exists and has these options."""
    command: click.Command = creek_command
    for word in words:
        if isinstance(command, click.Group):
            subcommand = command.get_command(click.Context(command), word)
            assert subcommand is not None, word
            command = subcommand
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known
