"""`creek call`, when no majority is up: what was answered is shown, and what becomes of it."""

import asyncio
import json
from pathlib import Path

import pytest

from creekdb.cli import main
from tests.cluster.house import house, run


@pytest.mark.parametrize(
    ("asked", "shown", "told"),
    [
        ("put a 2 --final", "1  (tentative)\n", "creek: put had no final answer in 0.3 s"),
        ("put a 2 --strong", "", "creek: tentatively 1\ncreek: put had no stable answer in 0.3 s"),
        ("put a 2", "1  (tentative)\n", None),
        (
            "increment text 1 --final",
            "raised BadValue: can only add to an int, and 'text' holds a str  (tentative)\n",
            "creek: increment had no final answer",
        ),
    ],
)
def test_the_tentative_answer_is_shown(
    asked: str, shown: str, told: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client(0) as db:
            await db.strong.put("a", 1)
            await db.strong.put("text", "x")
            await cluster.stop(1, 2)
            words = ["call", *asked.split(), "--at", *cluster.addresses(0), "--timeout", "0.3"]
            code = await asyncio.to_thread(main, words)
            assert code == (0 if told is None else 1)

    run(story())
    said = capsys.readouterr()
    assert said.out == shown
    if told is None:
        assert not said.err
    else:
        assert said.err.startswith(told)
        assert "is a majority up? 'creek status' tells" in said.err
        assert "it is not lost: replica 0 keeps it until a majority fixes its place" in said.err


def test_a_program_is_told_that_it_is_tentative_and_a_person_while_it_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("creekdb.cli.commands.call.TELL_S", 0.1)

    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client(0) as db:
            await db.strong.put("a", 1)
            await cluster.stop(1, 2)
            words = ["call", "put", "a", "2", "--final", "--json", "--timeout", "0.5"]
            assert await asyncio.to_thread(main, [*words, "--at", *cluster.addresses(0)]) == 1

    run(story())
    said = capsys.readouterr()
    assert json.loads(said.out) == {"kind": "tentative", "value": 1}
    waits = "creek: tentatively 1; waiting up to 0.5 s for the final answer"
    assert said.err.splitlines()[0] == waits
