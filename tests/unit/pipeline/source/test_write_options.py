"""Options of `format("creek")` for writing: each error is one line that names the option."""

import pytest

from creekdb.errors import UsageError
from creekdb.pipeline.source.write_options import WriteOptions, WriteTarget

SERVERS = {"servers": "127.0.0.1:7100"}


def parse(is_stream: bool = True, **given: str) -> WriteOptions:
    return WriteOptions.parse({**SERVERS, **given}, is_stream=is_stream)


def test_the_defaults_fail_at_the_first_rejected_row_and_call_strongly() -> None:
    options = parse()
    assert options.target == WriteTarget()
    assert options.is_strong
    assert not options.is_atomic
    assert options.dead_letter is None


def test_all_options_are_parsed() -> None:
    options = parse(
        False,
        operation="pay",
        jsonColumns="note, tags",
        sink="totals",
        batchId="7",
        consistency="weak",
        atomic="true",
        deadLetter="/tmp/dead",
    )
    assert options.target == WriteTarget(None, "pay", "upsert", ("note", "tags"))
    assert (options.sink, options.batch) == ("totals", 7)
    assert (options.is_strong, options.is_atomic) == (False, True)
    assert options.dead_letter == "/tmp/dead"


@pytest.mark.parametrize(
    ("is_stream", "given", "message"),
    [
        (True, {"sinc": "a"}, "sinc"),
        (True, {"batchId": "1"}, "option batchId is for batch writes"),
        (True, {"token": "secret"}, "tokenFile"),
        (True, {"table": "t", "operation": "put"}, "exclude each other"),
        (True, {"mode": "append"}, "option mode is 'append'"),
        (True, {"mode": "insert"}, "set option table"),
        (True, {"sink": "~a"}, "option sink is '~a'"),
        (True, {"consistency": "eventual"}, "option consistency is 'eventual'"),
        (True, {"atomic": "1"}, "option atomic is '1'"),
        (True, {"onRejected": "skip"}, "option onRejected is 'skip'"),
        (True, {"onRejected": "deadLetter"}, "option deadLetter is missing"),
        (True, {"onRejected": "fail", "deadLetter": "/tmp"}, "does not apply with onRejected"),
        (True, {"mode": "bulk", "sink": "a"}, "option sink does not apply with mode=bulk"),
        (True, {"mode": "bulk", "operation": "put"}, "does not apply with mode=bulk"),
        (True, {"mode": "bulk", "deadLetter": "/tmp"}, "does not apply with mode=bulk"),
        (False, {"sink": "a"}, "option batchId is missing"),
        (False, {"batchId": "1"}, "option sink is missing"),
        (False, {"sink": "a", "batchId": "-1"}, "option batchId is '-1'"),
    ],
)
def test_invalid_options_are_named(is_stream: bool, given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        parse(is_stream, **given)
    assert "\n" not in str(raised.value)
