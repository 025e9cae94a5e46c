"""Options of the Spark source: defaults, limits, and one line for every mistake."""

from pathlib import Path

import pytest

from creekdb.errors import UsageError
from creekdb.pipeline.source.options import BatchOptions, ClusterOptions, StreamOptions

SERVERS = {"servers": "127.0.0.1:7100, 127.0.0.1:7101"}
STREAM = SERVERS | {"readchangefeed": "true"}


def test_names_are_case_insensitive_and_values_are_parsed() -> None:
    options = StreamOptions.parse(
        STREAM
        | {"STARTINGINDEX": "4711", "maxrowspertrigger": "1000", "failOnDataLoss": "False"}
        | {"prefix": '["stock", 1]', "keyType": "json", "partitions": "8"}
    )

    assert options.cluster.servers == ("127.0.0.1:7100", "127.0.0.1:7101")
    assert options.start == 4711
    assert options.rows_max == 1000
    assert not options.fail_on_data_loss
    assert options.selection.prefix == ("stock", 1)
    assert options.selection.partitions == 8


def test_a_stream_starts_with_the_snapshot_by_default() -> None:
    assert StreamOptions.parse(STREAM).start == "snapshot"
    assert StreamOptions.parse(STREAM | {"rows": "operations"}).start == "earliest"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "option servers is missing: set it, such as 127.0.0.1:7100,127.0.0.1:7101"),
        ({"servers": "here"}, "option servers: 'here' is not an address: write HOST:PORT"),
        ({"servers": ","}, "option servers is ',': it must be a list of addresses"),
        ({"asOf": "-1"}, "option asOf is '-1': it must be an integer from 0 to"),
        ({"asOf": "now"}, "option asOf is 'now': it must be an integer"),
        ({"partitions": "0"}, "option partitions is '0': it must be an integer from 1 to 1024"),
        ({"lease": "1e9"}, "option lease is '1e9': it must be a number of seconds"),
        ({"keyType": "blob"}, "option keyType is 'blob': it must be string, int or json"),
        ({"prefix": "[1.5]"}, "option prefix is '[1.5]': it must be a string, or a JSON array"),
        ({"table": "a", "prefix": "b"}, "options table and prefix exclude each other"),
        ({"token": "secret"}, "option token is refused: plans of queries show"),
        ({"servrs": "x"}, "unknown option of a batch read 'servrs': expected one of asOf,"),
        ({"servrs": "x"}, "did you mean 'servers'?"),
        ({"startingIndex": "1"}, "unknown option of a batch read 'startingIndex'"),
        ({"readChangeFeed": "true"}, "option readChangeFeed is for streams: use spark.readStream"),
    ],
)
def test_mistakes_of_a_batch_read_are_one_line(given: dict[str, str], message: str) -> None:
    complete = given if "servers" in given or not given else SERVERS | given

    with pytest.raises(UsageError) as raised:
        BatchOptions.parse(complete)

    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingIndex": "0"}, "option startingIndex is '0': it must be snapshot, earliest,"),
        ({"startingIndex": "first"}, "option startingIndex is 'first'"),
        ({"maxRowsPerTrigger": "0"}, "option maxRowsPerTrigger is '0'"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss is 'no': it must be true or false"),
        ({"readChangeFeed": "false"}, "option readChangeFeed is missing: a stream reads"),
        ({"asOf": "4"}, "option asOf is for batch reads"),
        ({"rows": "operations", "startingIndex": "snapshot"}, "a snapshot has no operations"),
        ({"rows": "operations", "table": "t"}, "option table does not apply with rows=operations"),
    ],
)
def test_mistakes_of_a_stream_are_one_line(given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        StreamOptions.parse(SERVERS | {"readChangeFeed": "true"} | given)

    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")

    with pytest.raises(
        UsageError, match=r"option tokenFile: cannot read '.*missing': No such file"
    ):
        ClusterOptions(("127.0.0.1:7100",), token_file=missing).database()
    with pytest.raises(UsageError, match=r"option authority: there is no file '.*missing'"):
        ClusterOptions(("127.0.0.1:7100",), authority=missing).database()
