"""`creek sql` on a live replica."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from creekdb.cli import main
from creekdb.cli.sql_shell import SqlRunner, SqlShell
from tests.sql_clients.threaded_cluster import ThreadedCluster

CREATE = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, picture BLOB);"


def run(replica: ThreadedCluster, *arguments: str) -> int:
    return main(["sql", "--at", replica.addresses(), *arguments])


def test_commands_print_tables_and_states(
    replica: ThreadedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    insert = "INSERT INTO item VALUES (1, 'tea', x'00ff'), (2, NULL, NULL);"
    assert run(replica, "--final", "-c", CREATE, "-c", insert + "SELECT * FROM item") == 0
    output = capsys.readouterr().out
    assert "done  stable" in output
    assert "2 rows changed  stable" in output
    assert "2 rows  tentative" in output
    for cell in ("tea", "x'00ff'", "NULL"):
        assert cell in output
    assert run(replica, "--strong", "-c", "SELECT name FROM item WHERE id = 1") == 0
    assert "1 row  stable" in capsys.readouterr().out


def test_json_has_one_document_per_statement(
    replica: ThreadedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{CREATE} BEGIN; INSERT INTO item(id, picture) VALUES (7, x'00') RETURNING *; COMMIT;"
    assert run(replica, "--json", "-c", text) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert documents[2] == {
        "columns": ["id", "name", "picture"],
        "rows": [[7, None, {"$bytes": "AA=="}]],
        "row_count": 1,
        "last_row_id": 7,
        "state": None,
    }


def test_statements_are_read_from_stdin(
    replica: ThreadedCluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{CREATE}\nSELECT count(*) AS n FROM item"))
    assert run(replica) == 0
    assert "n" in capsys.readouterr().out


def test_an_error_names_the_line_of_its_statement(
    replica: ThreadedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(replica, "-c", f"{CREATE}\n\nSELECT 1; SELECT\n nope FROM item;") == 1
    assert "no such column: nope (line 2, column 2), in the statement at line 3" in (
        capsys.readouterr().err
    )


def test_control_characters_of_stored_texts_do_not_reach_the_terminal(
    replica: ThreadedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "SELECT char(27) || '[31m' || char(13, 0x202e, 0x200d) || 'é' AS \"\x1b[2J\""
    assert run(replica, "-c", text) == 0
    output = capsys.readouterr().out
    assert "\\x1b[31m\\r\\u202e\u200dé" in output
    assert "\\x1b[2J" in output
    assert "\x1b" not in output
    assert run(replica, "-c", 'SELECT "\x1b[2J"') == 1
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELEC 1", 'near "SELEC": syntax error (line 1, column 1) [42601]'),
        ("SELECT * FROM shop", "no such table: shop"),
        ("SELECT 'open", "unrecognized token"),
        ("BEGIN; SELECT 1;", "ended inside a transaction"),
    ],
)
def test_an_error_is_one_line_and_ends_the_script(
    replica: ThreadedCluster, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    assert run(replica, "-c", text, "-c", CREATE) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert run(replica, "-c", CREATE) == 0


def test_strong_and_final_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--strong", "--final", "-c", "SELECT 1"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def typed(*lines: str) -> Callable[[str], str]:
    """Return a function that reads these lines, then the end of the input."""
    remaining: Iterator[str] = iter(lines)

    def read_line(prompt: str) -> str:
        print(prompt, end="")
        for line in remaining:
            return line
        raise EOFError

    return read_line


def test_the_shell_reads_statements_and_commands(
    replica: ThreadedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with replica.connect(consistency="weak", autocommit=True) as connection:
        runner = SqlRunner(connection, Console(width=100), as_json=False)
        shell = SqlShell(runner, tmp_path / "state" / "history")
        shell.run(
            typed(
                ".strong",
                "CREATE TABLE item(",
                "id INTEGER PRIMARY KEY);",
                ".weak",
                ".tables",
                ".schema item",
                ".nonsense",
                "BEGIN;",
                "SELECT missing;",
                "ROLLBACK;",
                ".help",
            )
        )
        captured = capsys.readouterr()
        assert "strong>    ...> " in captured.out
        assert "weak*> " in captured.out
        assert "CREATE TABLE item(\nid INTEGER PRIMARY KEY);" in captured.out
        assert "no such column: missing" in captured.err
        assert "unknown command .nonsense" in captured.err
        assert ".schema [TABLE]" in captured.out
        assert (tmp_path / "state" / "history").exists()
        assert shell.complete("ite", 0) == "item"
        assert shell.complete("sel", 0) == "SELECT"
        assert shell.complete("sel", 1) is None


def run_shell(replica: ThreadedCluster, *lines: str, width: int = 100) -> None:
    with replica.connect(consistency="weak", autocommit=True) as connection:
        runner = SqlRunner(connection, Console(width=width), as_json=False)
        SqlShell(runner, None).run(typed(*lines))


@pytest.mark.parametrize("last", ["quit", "exit;", ".QUIT", ".exit", " Quit ;"])
def test_the_shell_takes_the_words_of_other_shells(
    replica: ThreadedCluster, capsys: pytest.CaptureFixture[str], last: str
) -> None:
    run_shell(replica, "help", ".Strong", ".schema nothing", last, "SELECT 1 AS never;")
    captured = capsys.readouterr()
    assert ".help lists the commands" in captured.out
    assert ".schema [TABLE]" in captured.out
    assert "strong>" in captured.out
    assert "no table or view nothing" in captured.err
    assert "never" not in captured.out


def test_an_interrupt_abandons_the_statement_and_keeps_the_shell(
    replica: ThreadedCluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_statement = SqlRunner.run

    def interrupt(runner: SqlRunner, statement: str) -> object:
        if "slow" in statement:
            raise KeyboardInterrupt
        return run_statement(runner, statement)

    monkeypatch.setattr(SqlRunner, "run", interrupt)
    run_shell(replica, "SELECT 1 AS slow; SELECT 2 AS skipped;", "SELECT 3 AS kept;")
    captured = capsys.readouterr()
    assert "interrupted" in captured.err
    assert "kept" in captured.out
    assert "skipped" not in captured.out


def test_the_shell_reports_when_a_weak_statement_is_final(
    replica: ThreadedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with replica.connect(consistency="weak", autocommit=True) as connection:
        shell = SqlShell(SqlRunner(connection, Console(width=100), as_json=False), None)
        lines = typed("CREATE TABLE item(id INTEGER);", ".weak")

        def read_line(prompt: str) -> str:
            replica.settle()
            return lines(prompt)

        shell.run(read_line)
    assert "CREATE TABLE item(id INTEGER): stable" in capsys.readouterr().out
