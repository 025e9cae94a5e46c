"""The signature of a function declares the parameters of its command."""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import click
from click.testing import CliRunner

from creekdb.cli.declaration import argument, declared, option, option_settings


class Credentials(NamedTuple):
    token: str = option("Token.", "", show_default=False)


class Target(NamedTuple):
    addresses: tuple[str, ...] = option("Client address.", flag="--at")
    credentials: Credentials = Credentials()


def run(command: Any, *arguments: str) -> Any:
    """Return the values that the command receives."""
    return CliRunner().invoke(command, arguments, standalone_mode=False).return_value


def test_positional_parameters_are_arguments_and_keyword_parameters_options() -> None:
    @click.command()
    @declared
    def copy(source: Path, rest: tuple[int, ...], *, name: str = option("Name.")) -> Any:
        return source, rest, name

    assert run(copy, "a.txt", "1", "2", "--name", "b") == (Path("a.txt"), (1, 2), "b")


def test_annotations_give_the_types_of_options() -> None:
    @click.command()
    @declared
    def typed(
        *,
        flag: bool = option("Flag."),
        choice: Literal["one", "two"] = option("Choice.", "one"),
        numbers: tuple[int, ...] = option("Numbers.", flag="--number"),
        ratio: float | None = option("Ratio."),
        switch: bool | None = option("Switch.", flag="--on/--off"),
    ) -> Any:
        return flag, choice, numbers, ratio, switch

    assert run(typed) == (False, "one", (), None, None)
    arguments = ("--flag", "--choice", "two", "--number", "1", "--number", "2", "--off")
    assert run(typed, *arguments, "--ratio", "0.5") == (True, "two", (1, 2), 0.5, False)
    rejected = CliRunner().invoke(typed, ["--choice", "three"])
    assert rejected.exit_code == 2
    assert "'three' is not one of 'one', 'two'" in rejected.output


def test_a_named_tuple_is_a_group_of_options_and_may_contain_others() -> None:
    @click.command()
    @declared
    def call(operation: str = argument(metavar="NAME"), *, target: Target) -> Any:
        return operation, target

    expected = Target(("a:1", "b:2"), Credentials("secret"))
    arguments = ("get", "--at", "a:1", "--at", "b:2", "--token", "secret")
    assert run(call, *arguments) == ("get", expected)
    help_text = CliRunner().invoke(call, ["--help"]).output
    assert "NAME" in help_text.splitlines()[0]
    assert help_text.index("--at") < help_text.index("--token")


def test_the_help_shows_defaults_and_keeps_the_order_of_the_signature() -> None:
    @click.command()
    @declared
    def ordered(
        *,
        second: int = option("Second.", 2),
        first: str = option("First.", "x"),
        hidden: str = option("Third.", "y", show_default=False),
    ) -> int:
        return 0

    help_text = CliRunner().invoke(ordered, ["--help"]).output
    assert help_text.index("--second") < help_text.index("--first") < help_text.index("--hidden")
    assert "Second.  [default: 2]" in help_text
    assert "First.  [default: x]" in help_text
    assert "[default: y]" not in help_text


def test_options_that_are_added_otherwise_are_passed_on() -> None:
    @click.command()
    @declared
    @click.option("--level", **option_settings(int | None))
    def mixed(*, name: str = option("Name.", "a"), **others: Any) -> Any:
        return name, others

    assert run(mixed, "--level", "3") == ("a", {"level": 3})
    assert run(mixed, "--name", "b") == ("b", {"level": None})
