"""Every example of the pages is run, or read by what would read it."""

import configparser
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from creekdb.cli.app import command as creek_command
from creekdb.load.local_cluster import free_port
from creekdb.server.runtime.config import read_config
from tests.cluster.ports import free_ports
from tests.docs.pages import DOCS, Block, blocks, commands, files
from tests.docs.reader import Reader

NUMBERS = re.compile(r"\d{16,}")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    somebody = Reader(tmp_path, free_ports())
    yield somebody
    somebody.end()


def test_operations_that_are_not_deterministic_are_found(reader: Reader) -> None:
    page = "deterministic-operations.md"
    reader.environment["PYTHONHASHSEED"] = "0"
    for name, text in files(page).items():
        reader.save(name, text)
    for block in blocks(page):
        for command in commands(block.text) if block.language == "console" else ():
            shown = reader.run(command.line)
            assert NUMBERS.sub("N", shown) == NUMBERS.sub("N", command.shown)


@pytest.mark.parametrize(
    ("page", "datatype"), [("index.md", "shop:shop"), ("weak-or-strong.md", "bank")]
)
def test_the_programs_of_a_page_run_on_a_cluster(page: str, datatype: str, reader: Reader) -> None:
    for name, text in files(page).items():
        reader.save(name, text)
    up = f"creek up --datatype {datatype}"
    assert up in (DOCS / page).read_text()
    reader.start("cluster", f"{up} --port {reader.port}").until("leads")
    ran = 0
    for block in blocks(page):
        for command in commands(block.text) if block.language == "console" else ():
            if command.line != up:
                reader.does(command)
                ran += 1
    assert ran


def test_a_web_application_keeps_a_connection(reader: Reader) -> None:
    page = "live-cluster.md"
    shop, *_ = (each.text for each in blocks(page) if each.language == "python")
    reader.save("shop.py", shop)
    here = f":{free_port()}"
    reader.save("web.py", files(page)["web.py"].replace(":8080", here).replace("8080", here[1:]))
    reader.start("cluster", f"creek up --datatype shop:shop --port {reader.port}").until("leads")
    reader.start("web", "python web.py")
    (asked,) = (each.text for each in blocks(page) if each.language == "console")
    for command in commands(asked):
        line = command.line.replace(":8080", here).replace(
            "-s", "-s --retry-connrefused --retry 20"
        )
        assert reader.run(line) == command.shown.strip()


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_code_is_sound_commands_exist_and_configuration_is_read(page: Path, tmp_path: Path) -> None:
    for block in blocks(page.name):
        match block:
            case Block("python", title, text):
                compile(text, title or page.name, "exec")
            case Block("toml", _, text) if "members" in tomllib.loads(text):
                (tmp_path / "replica.toml").write_text(text)
                assert read_config(tmp_path / "replica.toml", {}, {}).members
            case Block("ini", _, text):
                unit = configparser.ConfigParser(strict=False)
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
    """Its options are some that it has."""
    found: click.Command = creek_command
    for word in words:
        if isinstance(found, click.Group):
            inner = found.get_command(click.Context(found), word)
            assert inner is not None, word
            found = inner
    known = {name for option in found.params for name in (*option.opts, *option.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known
