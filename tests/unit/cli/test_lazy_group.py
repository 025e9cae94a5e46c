"""Commands are imported on use only, and the help lists all of them."""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from creekdb.cli import main
from creekdb.cli.app import command


def test_a_command_does_not_import_the_modules_of_others() -> None:
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


def all_commands(group: click.Group, path: str = "creek") -> Iterator[tuple[str, click.Command]]:
    """Yield all commands and groups with their paths."""
    context = click.Context(group)
    for name in group.list_commands(context):
        subcommand = group.get_command(context, name)
        assert subcommand is not None
        yield f"{path} {name}", subcommand
        if isinstance(subcommand, click.Group):
            yield from all_commands(subcommand, f"{path} {name}")


def test_every_command_has_the_name_of_its_path() -> None:
    for path, subcommand in all_commands(command):
        assert subcommand.name == path.split()[-1]


def test_help_has_examples_and_fits_into_80_columns() -> None:
    for path, subcommand in [("creek", command), *all_commands(command)]:
        shown = subcommand.get_help(click.Context(subcommand, info_name=path, terminal_width=80))
        assert "Example" in shown, path
        assert max(map(len, shown.splitlines())) <= 80, path


def test_the_help_lists_every_command_with_the_basic_ones_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--help"])
    shown = capsys.readouterr().out.partition("Live cluster:")[2]
    listed = [line.split()[0] for line in shown.splitlines() if line.startswith("  ")]
    assert sorted(listed) == command.list_commands(click.Context(command))
    assert listed[:3] == ["up", "call", "status"]


@pytest.mark.parametrize("name", ["bench", "member", "pipeline"])
def test_a_group_without_a_command_prints_its_help_to_stderr(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"Usage: creek {name} ")
    assert "\nCommands:\n" in shown.err


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [(["stauts"], "status"), (["liverun"], "live-run"), (["pipeline", "mesure"], "measure")],
)
def test_a_mistyped_command_suggests_a_similar_one(
    arguments: list[str], suggestion: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert f"Did you mean '{suggestion}'?" in capsys.readouterr().err
