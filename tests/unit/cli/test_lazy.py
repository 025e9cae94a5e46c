"""Commands are imported when they are asked for, and told all the same."""

import subprocess
import sys

import click
import pytest

from creek.cli import main
from creek.cli.app import command


def test_a_command_brings_nothing_that_it_does_not_need() -> None:
    code = "import sys; from creek.cli import main; main(['call', '--help']); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = ran.stdout.splitlines()[-1].split()
    assert "creek.cli.call" in modules
    assert not {"creek.cli.up", "creek.simulation", "creek.checkers", "creek.tpcc"} & {*modules}


def test_every_command_is_there_under_its_name() -> None:
    def check(group: click.Group) -> None:
        context = click.Context(group)
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            assert found is not None
            assert found.name == name
            if isinstance(found, click.Group):
                check(found)

    check(command)


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["stauts"], "status"), (["liverun"], "live-run"), (["pipeline", "mesure"], "measure")],
)
def test_who_mistypes_a_command_is_told_which_was_meant(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err
