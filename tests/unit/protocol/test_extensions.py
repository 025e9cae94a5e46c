"""Extensions beyond the paper: texts that select them, and settings that enable them."""

import pytest

from creekdb.errors import UnknownName
from creekdb.protocol import extensions
from creekdb.protocol.extensions import (
    enabled_extensions,
    expand_extensions,
    join_extensions,
    parse_extensions,
)


class Enabled:
    """Settings with two of three extensions."""

    one, two, three = 1, 0, 1


@pytest.fixture(autouse=True)
def three_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "EXTENSIONS", {"one": "", "two": "", "three": ""})


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("all", ("one", "two", "three")),
        ("none", ()),
        ("two", ("two",)),
        ("three, one", ("one", "three")),
    ],
)
def test_a_text_selects_extensions(text: str, chosen: tuple[str, ...]) -> None:
    assert parse_extensions(text) == chosen
    assert not chosen or parse_extensions(join_extensions(chosen)) == chosen


@pytest.mark.parametrize("text", ["", "four", "one,,two", "each"])
def test_an_unknown_extension_is_rejected_with_the_known_names(text: str) -> None:
    with pytest.raises(UnknownName, match="expected one of one, two, three, all, none"):
        parse_extensions(text)


def test_a_grid_adds_extensions_stepwise_or_each_alone() -> None:
    assert expand_extensions("stepwise") == [
        (),
        ("one",),
        ("one", "two"),
        ("one", "two", "three"),
    ]
    assert expand_extensions("each") == [("one",), ("two",), ("three",)]
    assert expand_extensions("all") == [("one", "two", "three")]


@pytest.mark.parametrize("scheme", ["creek", "differential", "mine:Scheme"])
def test_settings_enable_extensions(scheme: str) -> None:
    assert enabled_extensions(scheme, Enabled) == ("one", "three")


@pytest.mark.parametrize("scheme", ["basic", "smr", "bayou", "archie"])
def test_other_schemes_ignore_the_settings(scheme: str) -> None:
    assert enabled_extensions(scheme, Enabled) == ()
