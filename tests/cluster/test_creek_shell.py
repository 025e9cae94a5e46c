"""`creek shell`: calls from a prompt."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from creekdb import connect
from creekdb.cli import main
from creekdb.cli.operation_shell import OperationShell
from tests.cluster.in_process_cluster import running_cluster


def typed(lines: Iterable[str], before_line: Callable[[], None]) -> Callable[[str], str]:
    """Return a function that reads these lines, then the end of the input."""
    remaining = iter(lines)

    def read_line(prompt: str) -> str:
        before_line()
        print(prompt, end="")
        for line in remaining:
            return line
        raise EOFError

    return read_line


async def test_calls_are_made_and_their_final_responses_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_cluster(tmp_path / "data") as cluster:

        def run() -> None:
            with connect(cluster.addresses()) as db:
                shell = OperationShell(db, tmp_path / "state" / "history")

                def settle() -> None:
                    for _, call in shell.pending:
                        assert call.final.value is None

                lines = ("put lamp 'two lamps'", "strong get lamp", ".strong", "increment lamp")
                shell.run(typed((*lines, "quit"), settle))
                assert shell.complete("pu", 0) == "put"
                assert shell.complete("pu", 1) == "put_if_absent"
                assert shell.complete("incr", 0) == "increment "  # the only match ends a word
                assert shell.complete(".st", 0) == ".strong "
                assert shell.complete("nothing", 0) is None

        await asyncio.to_thread(run)
    assert (tmp_path / "state" / "history").exists()
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "weak> null  (tentative), executed put('lamp', 'two lamps')"
    assert "put('lamp', 'two lamps'): final" in lines
    assert 'weak> "two lamps"  (stable)' in lines
    assert lines[-2].endswith("'lamp' holds a str  (stable)")


async def test_a_changed_result_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = asyncio.get_running_loop()
    async with running_cluster(tmp_path) as cluster:
        links = [pair for other in (0, 1) for pair in ((2, other), (other, 2))]
        restore = [cluster.drop_messages(*link) for link in links]

        async def book_for_bob() -> None:
            async with cluster.client(0) as other:
                await other.strong.put_if_absent("seat", "bob")
            for restore_link in reversed(restore):
                restore_link()
            await cluster.until_quiescent()

        def run() -> None:
            with connect(cluster.addresses(2)) as db:
                shell = OperationShell(db, None)
                shell.run(typed(["put_if_absent seat ann"], lambda: None))
                asyncio.run_coroutine_threadsafe(book_for_bob(), loop).result()
                assert [call.final.value for _, call in shell.pending] == [False]
                shell.run(typed([], lambda: None))

        await asyncio.to_thread(run)
    assert capsys.readouterr().out.splitlines() == [
        "weak> true  (tentative), executed put_if_absent('seat', 'ann')",
        "weak> ",
        "put_if_absent('seat', 'ann'): changed, finally false",
        "weak> ",
    ]


async def test_mistakes_are_one_line_and_do_not_end_the_shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_cluster(tmp_path, replicas=1) as cluster:

        def run() -> None:
            with connect(cluster.addresses()) as db:
                lines = ("putt lamp 3", "put lamp", "put 'lamp", ".week", "", "help")
                OperationShell(db, None).run(typed(lines, lambda: None))

        await asyncio.to_thread(run)
    output = capsys.readouterr()
    errors = output.err.splitlines()
    assert len(errors) == 4
    assert "did you mean 'put'" in errors[0]
    assert "requires the argument 'value'" in errors[1]
    assert "No closing quotation" in errors[2]
    assert "unknown command .week" in errors[3]
    assert "  put(key: str, value: Any)" in output.out


def test_a_script_uses_another_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shell"]) == 2
    assert "requires a terminal" in capsys.readouterr().err
