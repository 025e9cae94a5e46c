from creekdb.datatypes.register import REGISTER


def test_a_register_holds_the_last_write() -> None:
    session = REGISTER.sequential()
    session.call("write", 1)
    session.call("write", {"a": [1, 2]})
    assert session.call("read") == {"a": (1, 2)}
