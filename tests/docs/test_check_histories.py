"""The examples of the page about histories print what the page shows."""

from pathlib import Path

from tests.docs.page_runner import PageRunner
from tests.docs.pages import DOCS, commands_of, files

PAGE = "check-histories.md"


def test_the_examples_print_what_the_page_shows(tmp_path: Path) -> None:
    runner = PageRunner(tmp_path, 0)
    for name, text in files(PAGE).items():
        runner.save(name, text)
    for command in commands_of(PAGE):
        assert runner.run(command.line) == command.output
    drawn = (tmp_path / "counterexample.svg").read_text()
    assert drawn == (DOCS / "images" / "counterexample.svg").read_text()
