"""Commands are imported when they are asked for, and told all the same."""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from creekdb.cli import main
from creekdb.cli.app import command


def test_a_command_brings_nothing_that_it_does_not_need() -> None:
    code = "import sys; from creekdb.cli import main; main(['call', '--help']); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = ran.stdout.splitlines()[-1].split()
    assert "creekdb.cli.commands.call" in modules
    assert not {
        "creekdb.cli.commands.up",
        "creekdb.simulation",
        "creekdb.checkers",
        "creekdb.tpcc",
    } & {*modules}


def everything(group: click.Group, path: str = "creek") -> Iterator[tuple[str, click.Command]]:
    """All commands, and groups of them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        yield f"{path} {name}", found
        if isinstance(found, click.Group):
            yield from everything(found, f"{path} {name}")


def test_every_command_is_there_under_its_name() -> None:
    for path, found in everything(command):
        assert found.name == path.split()[-1]


def test_help_has_examples_and_fits_into_80_columns() -> None:
    for path, found in [("creek", command), *everything(command)]:
        shown = found.get_help(click.Context(found, info_name=path, terminal_width=80))
        assert "Example" in shown, path
        assert max(map(len, shown.splitlines())) <= 80, path


def test_the_help_shows_every_command_and_what_is_needed_first_goes_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--help"])
    shown = capsys.readouterr().out.partition("A live cluster:")[2]
    listed = [line.split()[0] for line in shown.splitlines() if line.startswith("  ")]
    assert sorted(listed) == command.list_commands(click.Context(command))
    assert listed[:3] == ["up", "call", "status"]


@pytest.mark.parametrize("name", ["bench", "member", "pipeline"])
def test_who_names_a_group_alone_gets_its_help_line_by_line(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"Usage: creek {name} ")
    assert "\nCommands:\n" in shown.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["stauts"], "status"), (["liverun"], "live-run"), (["pipeline", "mesure"], "measure")],
)
def test_who_mistypes_a_command_is_told_which_was_meant(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err
