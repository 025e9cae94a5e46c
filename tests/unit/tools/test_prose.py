"""The prose lint accepts plain sentences and reports each kind of violation."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import prose
from tools.prose import Rate, Text, document_texts, package_of, problems_of, python_texts, rates

HERE = Path("src/creekdb/server/module.py")

GOOD = [
    "Return the first missing dependency, or None.",
    "Index of rolled-back requests that await re-execution.",
    "True if this replica is the leader.",
    "Sentinel ballot of a member that has seen no real ballot; sorts after `NO_BALLOT`.",
    "Journal position that responses wait for. Excludes trailing `Decided` records.",
    "When the leader changes, accepted values are proposed again.",
    "One instance per batch.",
    "In simulated time, in microseconds.",
]

HEADLESS = [
    "Who comes when there are too many is told.",
    "What was withdrawn and may come back otherwise.",
    "Where the clients of a replica call.",
    "How long clients wait.",
    "Whoever looks on while a replica works.",
    "Nobody waits for it.",
    "The same, but for decisions.",
    "One that begins with nothing.",
    "Those that are behind.",
]

FRAGMENTS = ["Of these.", "Before that.", "Of them, the last.", "For all of them."]

QUESTIONS = [
    "Is it the one to do what is done once for all?",
    "Does who listens somewhere encrypt?",
    "Has one of them waited for long enough, and is no no-op under way?",
]


def rules(words: str, kind: str = "docstring") -> list[str]:
    return [problem.rule for problem in problems_of(Text(HERE, 1, kind, words))]


@pytest.mark.parametrize("words", GOOD)
def test_plain_sentences_pass(words: str) -> None:
    assert rules(words) == []


@pytest.mark.parametrize("words", HEADLESS)
def test_openings_without_a_subject_are_reported(words: str) -> None:
    assert "opens without a subject" in rules(words)


@pytest.mark.parametrize("words", FRAGMENTS)
def test_fragments_are_reported(words: str) -> None:
    assert rules(words) == ["opens with a fragment"]


@pytest.mark.parametrize("words", QUESTIONS)
def test_questions_as_contracts_are_reported(words: str) -> None:
    assert "opens with a question" in rules(words)


@pytest.mark.parametrize("words", [*HEADLESS, *FRAGMENTS])
def test_openings_of_messages_are_not_restricted(words: str) -> None:
    assert rules(words, "message") == []


@pytest.mark.parametrize("word", ["house", "Rooms", "door", "desk"])
def test_household_words_are_reported_as_whole_words(word: str) -> None:
    assert rules(f"A replica has a {word}.") == ["household word"]
    assert rules("Warehouses of TPC-C have ten districts.") == []


def test_a_sentence_of_more_than_thirty_words_is_reported() -> None:
    thirty = " ".join(["Replicas", *["send"] * 28, "messages."])
    assert rules(thirty) == []
    assert rules(f"All {thirty}") == ["sentence of 31 words"]


def test_code_spans_count_as_one_word_and_list_items_end_a_sentence() -> None:
    assert rules("Send `" + "x " * 40 + "` to all.") == []
    items = "\n".join(f"- item {number} of the list" for number in range(12))
    assert rules(f"The parts:\n\n{items}") == []


def test_abbreviations_do_not_end_a_sentence() -> None:
    long = "Replicas exchange messages, e.g. " + "votes " * 27 + "always."
    assert rules(long) == ["sentence of 33 words"]


def test_docstrings_comments_and_messages_of_a_file_are_found() -> None:
    source = '''"""Module docstring.

    >>> print("what an example prints is code")

\b
Examples:
  who prints what
"""

# A comment of
# two lines.
NAME = "identifier"  # noqa: E501
LIMIT = 3
"""Attribute docstring."""


def send(peer: int) -> None:
    """Function docstring."""
    raise ValueError(f"peer {peer} is unknown; add it first")
'''
    found = {
        (text.kind, text.line, " ".join(text.words.split())) for text in python_texts(HERE, source)
    }
    assert found == {
        ("docstring", 1, "Module docstring."),
        ("comment", 10, "A comment of two lines."),
        ("docstring", 14, "Attribute docstring."),
        ("docstring", 18, "Function docstring."),
        ("message", 19, "peer x is unknown; add it first"),
    }


def test_markdown_is_split_into_paragraphs_and_cells_without_code() -> None:
    source = (
        "# Title\n\nA paragraph\nof two lines.\n\n"
        "```\ncode who what\n```\n\n| one | two |\n|---|---|\n"
    )
    texts = [text.words for text in document_texts(Path("docs/page.md"), source)]
    assert texts == ["A paragraph\nof two lines.", "one", "two", "---", "---"]


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("src/creekdb/errors.py", "creekdb"),
        ("src/creekdb/protocol/ids/dot.py", "protocol"),
        ("tests/unit/protocol/test_order.py", "tests/unit"),
        ("docs/decisions/README.md", "docs"),
        ("README.md", "project"),
    ],
)
def test_files_count_with_their_package(path: str, package: str) -> None:
    assert package_of(Path(path)) == package


def test_the_rate_counts_pronouns_per_thousand_words() -> None:
    texts = [
        Text(HERE, 1, "docstring", "Who sends what to `who`?"),
        Text(HERE, 2, "comment", "word " * 995),
    ]
    assert rates(texts) == {"server": Rate(words=1000, pronouns=2)}
    assert rates(texts)["server"].per_thousand == 2.0


def test_a_package_above_the_limit_fails_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "src" / "creekdb" / "client" / "calls.py"
    module.parent.mkdir(parents=True)
    module.write_text('"""Calls of a client."""\n')
    assert prose.main(tmp_path, []) == 0
    module.write_text('"""Calls by whoever, for somebody."""\n')
    assert prose.main(tmp_path, []) == 1
    assert "client: 400.0 `who`, `what` … per 1,000 words; at most 3" in capsys.readouterr().out


def test_the_command_prints_a_table() -> None:
    done = subprocess.run(
        [sys.executable, "tools/prose.py", "--table", "no/such/path"],
        cwd=prose.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "protocol" in done.stdout
    assert done.stdout.count("per 1,000") > 10
