import pytest

from creekdb.checkers.blackbox.history_files.json_lines import decode_call, encode_calls
from creekdb.checkers.blackbox.linearizability.models import ANY_VALUE
from creekdb.checkers.blackbox.observations import CallStatus, FinalObservation
from creekdb.errors import BadValue
from tests.unit.checkers.blackbox.observed_histories import call


def test_calls_are_equal_after_they_were_written_and_read() -> None:
    calls = [
        call("a", "put", "x", (1, {"b": b"\x00"}), at=(0, 7), value=b"old"),
        call("a", "get", "x", at=(8, None)),
        call("b", "get", "x", at=(8, 9), value=ANY_VALUE),
        call("b", "put", "y", at=(8, 9), status=CallStatus.REJECTED, value="busy"),
        call(
            "c",
            "put",
            "x",
            None,
            at=(10, 11),
            strong=False,
            final=FinalObservation(20, CallStatus.ERROR, "no", changed=True),
        ),
    ]
    assert [decode_call(line) for line in encode_calls(calls).splitlines()] == calls


def test_missing_fields_have_defaults() -> None:
    line = '{"client": 3, "operation": "get", "invoked_us": 1'
    assert decode_call(line + ', "responded_us": 2}') == call(
        "3", "get", at=(1, 2), value=ANY_VALUE
    )
    assert decode_call(line + "}") == call("3", "get", at=(1, None), value=ANY_VALUE)


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ('"status": "ok"', "the status is 'ok', so 'responded_us' is required"),
        ('"responded_us": 0', "'responded_us' is 0, before 'invoked_us', 1"),
        ('"statsu": "ok"', "unknown field `statsu`"),
        ('"final": {"responded_us": 0}', "'final.responded_us' is 0, before 'invoked_us', 1"),
        ('"value": ' + "[" * 300 + "]" * 300, "'value': nested more than 256 levels deep"),
        ('"value": ' + "[" * 9000, "not a call"),
        ('"status": "fine"', "Invalid enum value 'fine'"),
        ('"value": {"$bytes": 3}', "must contain base64"),
        ('"arguments": 3', "Expected `array`, got `int`"),
        ("", "malformed"),
    ],
)
def test_invalid_lines_are_rejected(fields: str, cause: str) -> None:
    with pytest.raises(BadValue) as raised:
        decode_call(f'{{"client": "a", "operation": "get", "invoked_us": 1, {fields}}}')
    assert cause in str(raised.value)
