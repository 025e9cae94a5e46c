"""Extensions of Creek beyond the paper: their names, and texts that select them.

An extension is a setting of the protocol with the values 0 and 1, and a field of `Experiment` with
the same name. Off is the paper's Creek. Options, grids, tables and the report derive their lists
from EXTENSIONS. Its order is the one in which the report adds them one by one.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from creekdb.errors import BadValue, UnknownName
from creekdb.protocol.probes import Probe

EXTENSIONS: Final[Mapping[str, str]] = {
    "estimates": "a request waits for earlier ones that are expected to change what it reads",
    "footprints": "a stable response waits only for requests that may write what its operation "
    "touches",
    "late_contexts": "the leader extends contexts by weak requests with lower timestamps",
    "fast_path": "a fast quorum votes for strong requests before the leader's proposal arrives",
}
"""Meaning of each extension."""
EXTENSION_PROBES: Final[Mapping[str, tuple[Probe, ...]]] = {
    "estimates": (Probe.EXECUTION_DELAYED,),
    "footprints": (Probe.STABLE_BEFORE_PREDECESSOR,),
    "late_contexts": (
        Probe.PROPOSAL_HELD,
        Probe.PROPOSAL_OVERTAKEN,
        Probe.DECIDED_WHILE_HELD,
        Probe.CONTEXT_EXTENDED,
        Probe.CUT_COMMITTED,
    ),
    "fast_path": (
        Probe.PROPOSAL_HELD,
        Probe.PROPOSAL_OVERTAKEN,
        Probe.DECIDED_WHILE_HELD,
        Probe.FIRST_VOTE_CAST,
        Probe.FIRST_VOTE_MISSED,
        Probe.FAST_DECISION,
        Probe.FIRST_VOTE_RECOVERED,
        Probe.FAST_QUORUM_CHANGED,
        Probe.FAST_PATH_PAUSED,
    ),
}
"""Probes that each extension must fire in a campaign in which it is on."""
EXTENDED_SCHEMES: Final = ("creek", "differential")
"""Built-in schemes that have extensions."""

ALL: Final = "all"
NONE: Final = "none"
EACH: Final = "each"
STEPWISE: Final = "stepwise"


def parse_extensions(text: str) -> tuple[str, ...]:
    """Return the extensions of a text: names separated by commas, `all` or `none`."""
    if text == ALL:
        return tuple(EXTENSIONS)
    chosen = [] if text == NONE else [each.strip() for each in text.split(",")]
    for name in chosen:
        if name not in EXTENSIONS:
            raise UnknownName("extension", name, (*EXTENSIONS, ALL, NONE))
    return tuple(name for name in EXTENSIONS if name in chosen)


def extension_switches(text: str) -> dict[str, int]:
    """Return the setting of every extension, 1 for those of the text."""
    chosen = parse_extensions(text)
    return {name: int(name in chosen) for name in EXTENSIONS}


def expand_extensions(text: str) -> list[tuple[str, ...]]:
    """Return the sets of extensions of a text in a grid.

    `each` is one set per extension, with that extension alone. `stepwise` begins with none, and
    adds one extension after the other. Any other text is one set, as in `parse_extensions`.
    """
    names = tuple(EXTENSIONS)
    if text == EACH:
        return [(name,) for name in names]
    if text == STEPWISE:
        return [names[:count] for count in range(len(names) + 1)]
    return [parse_extensions(text)]


def join_extensions(names: Iterable[str]) -> str:
    """Return the inverse of `parse_extensions`; an empty text without any extension."""
    return ",".join(names)


def has_extensions(scheme: str) -> bool:
    """True if the scheme has extensions. Built-in schemes other than EXTENDED_SCHEMES ignore their
    settings. A scheme of a user, with a colon in its name, may use them."""
    return scheme in EXTENDED_SCHEMES or ":" in scheme


def check_extensions(scheme: str, names: Iterable[str]) -> None:
    """Raise `BadValue` if the scheme does not have an extension."""
    if has_extensions(scheme):
        return
    for name in names:
        raise BadValue(f"{name} is an extension of creek: the scheme {scheme} does not have it")


def enabled_extensions(scheme: str, settings: Any) -> tuple[str, ...]:
    """Return the extensions that the settings of a replica enable."""
    if not has_extensions(scheme):
        return ()
    return tuple(name for name in EXTENSIONS if getattr(settings, name))
