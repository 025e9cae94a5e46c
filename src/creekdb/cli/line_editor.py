"""Line editor of the interactive shells: history in a file, and completion with Tab."""

import os
import readline
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

HISTORY_ENTRIES_MAX: Final = 1000


def history_path(shell: str) -> Path:
    """Return the file with the history of a shell."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "creek" / f"{shell}_history"


@contextmanager
def line_editor(history: Path | None, complete: Callable[[str, int], str | None]) -> Iterator[None]:
    """Load the history, complete words by `complete(prefix, number)`, and save the history."""
    if history is not None and history.exists():
        readline.read_history_file(history)
    readline.set_history_length(HISTORY_ENTRIES_MAX)
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
        if history is not None:
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)


def matching_word(words: Iterable[str], prefix: str, number: int) -> str | None:
    """Return the match `number` of a prefix among the words, or None. Case is ignored."""
    matching = [word for word in words if word.lower().startswith(prefix.lower())]
    return matching[number] if number < len(matching) else None
