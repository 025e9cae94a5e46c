import pytest

from creekdb.datatypes.kv import KV
from creekdb.errors import BadValue
from creekdb.execution.sequential import OperationRaised
from tests.unit.execution.strategies import request


def test_none_is_a_stored_value() -> None:
    session = KV.sequential()
    session.call("put", "a", None)
    assert session.call("put_if_absent", "a", 1) is False
    assert session.call("scan") == (("a", None),)


def test_compare_and_set_with_none_expects_absence() -> None:
    session = KV.sequential()
    assert session.call("compare_and_set", "a", None, 1) is True
    assert session.call("compare_and_set", "a", None, 2) is False


def test_incrementing_a_string_raises_and_keeps_it() -> None:
    session = KV.sequential()
    session.call("put", "a", "text")
    with pytest.raises(OperationRaised, match="'a' holds a str"):
        session.call("increment", "a")
    assert session.call("get", "a") == "text"


def test_keys_must_be_strings() -> None:
    session = KV.sequential()
    for name, arguments in (("get", (1,)), ("put", (("a",), 1)), ("scan", (1,))):
        with pytest.raises(BadValue, match="must be a string"):
            session.call(name, *arguments)
        outcome = session.apply(request(KV.call(name, *arguments)))
        assert outcome.error is not None
        assert outcome.error.startswith("TypeError: the key must be a str")


def test_scans_and_ranges_respect_direction_and_limit() -> None:
    session = KV.sequential()
    for key in ("b", "a", "ab", "c", "aa"):
        session.call("put", key, key.upper())
    assert session.call("scan", "a") == (("a", "A"), ("aa", "AA"), ("ab", "AB"))
    assert session.call("scan", "a", 2) == (("a", "A"), ("aa", "AA"))
    assert session.call("range", "aa", "c") == (("aa", "AA"), ("ab", "AB"), ("b", "B"))
    assert session.call("range", "aa", "c", True, 2) == (("b", "B"), ("ab", "AB"))
    assert session.call("range", "c", "aa") == ()
