"""Every command exits with 2 for a mistake of its user: a wrong value, file or address."""

from collections.abc import Iterator

import click
import pytest

from creekdb.cli import main
from creekdb.cli.app import command as root
from tests.cluster.ports import free_ports

NUMBERS = (click.types.IntParamType, click.types.FloatParamType)


def leaves(
    group: click.Group = root, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield all commands without subcommands, with the words that call them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(leaves())
WRONG_OPTIONS = [
    (path, option.opts[-1])
    for path, command in COMMANDS.items()
    for option in command.params
    if isinstance(option, click.Option) and isinstance(option.type, (*NUMBERS, click.Choice))
]
"""Options whose type excludes the word `wrong`."""
REQUIRING = [
    path for path, command in COMMANDS.items() if any(each.required for each in command.params)
]
OTHER_MISTAKES = {
    "backup new/shop.backup --at 127.0.0.1:1": "cannot write new/shop.backup: No such file",
    "bench kv --at nowhere": "'nowhere' is not an address",
    "bench kv --at 127.0.0.1:1 --authority nowhere.pem": "authority nowhere.pem: No such file",
    "call get lamp --at nowhere": "'nowhere' is not an address",
    "call get lamp --authority nowhere.pem": "authority nowhere.pem: No such file",
    "certs /dev/null/trial --hosts a": "/dev/null/trial: Not a directory",
    "changes --at nowhere": "'nowhere' is not an address",
    "changes --start soon": "'soon'",
    "check nowhere": "nowhere does not exist",
    "cut": "LINKS is missing",
    "cut 0-1 --port 1025": "no cluster of 'creek up' runs at port 1025",
    "explore nowhere": "unknown scope 'nowhere'",
    "export nowhere --out new": "cannot read nowhere: No such file",
    "gather nowhere --out new": "Directory 'nowhere' does not exist",
    "heal --port 1025": "no cluster of 'creek up' runs at port 1025",
    "kill 2 --port 1025": "no cluster of 'creek up' runs at port 1025",
    "live-run --out .": "--out is '.'",
    "live-run --out new --fault noon": "unknown fault 'noon'",
    "load nowhere": "cannot load nowhere: no such directory",
    "member add nowhere --data new --at nowhere": "'nowhere' is not an address",
    "member list --at nowhere": "'nowhere' is not an address",
    "member list --authority nowhere.pem": "authority nowhere.pem: No such file",
    "member remove 1 --at nowhere": "'nowhere' is not an address",
    "pipeline check nowhere --model kv": "nowhere",
    "pipeline measure nowhere": "cannot read nowhere",
    "pipeline report nowhere": "cannot read nowhere",
    "pipeline run --grid nowhere": "unknown grid 'nowhere'",
    "pipeline verify nowhere": "cannot read nowhere",
    "restore nowhere --data new --members 3": "cannot read nowhere: No such file",
    "serve --config nowhere.toml": "File 'nowhere.toml' does not exist",
    "serve --member 0=nowhere": "'nowhere' is not an address",
    "serve --member 0=127.0.0.1:1 --data /dev/null/data": "Not a directory",
    "serve --join nowhere --listen 127.0.0.1:1": "'nowhere' is not an address",
    "simulate --out /dev/null/run --duration 10ms": "cannot write the run directory",
    "sql -c SELECT --at nowhere": "'nowhere' is not an address",
    "sql --strong --final": "exclude each other",
    "status --at nowhere": "'nowhere' is not an address",
    "status --authority nowhere.pem": "authority nowhere.pem: No such file",
    "torture kv --workload nowhere:draw": "there is no module 'nowhere'",
    "up --datatype nowhere:shop": "there is no module 'nowhere'",
}


@pytest.fixture(autouse=True)
def _empty_directory(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))


def mistake(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must fail with exit code 2 and one line; return the line."""
    assert main(words) == 2, words
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("creek: ")
    assert shown.err.count("\n") == 1, shown.err
    return shown.err


def test_every_command_rejects_unknown_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(COMMANDS) > 25
    for path in COMMANDS:
        assert "No such option '--nowhere'" in mistake([*path, "--nowhere"], capsys)


@pytest.mark.parametrize(("path", "option"), WRONG_OPTIONS, ids=str)
def test_every_option_rejects_a_value_of_another_type(
    path: tuple[str, ...], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"'{option}" in mistake([*path, option, "wrong"], capsys)


@pytest.mark.parametrize("line", OTHER_MISTAKES)
def test_wrong_files_addresses_and_names_are_mistakes(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert OTHER_MISTAKES[line] in mistake(line.split(), capsys)


def test_a_data_path_of_up_that_is_no_directory_is_a_mistake(
    capsys: pytest.CaptureFixture[str],
) -> None:
    port = str(free_ports())
    assert "Not a directory" in mistake(["up", "--port", port, "--data", "/dev/null/data"], capsys)


@pytest.mark.parametrize("path", REQUIRING, ids=str)
def test_every_command_names_a_missing_parameter(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Missing " in mistake(list(path), capsys)
