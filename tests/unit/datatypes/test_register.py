from creekdb.datatypes.register import REGISTER


def test_a_register_holds_what_was_written_last() -> None:
    session = REGISTER.sequential()
    session.call("write", 1)
    session.call("write", {"a": [1, 2]})
    assert session.call("read") == {"a": (1, 2)}
