"""Stored formats: files and messages written by an earlier version stay readable.

`formats/` holds the samples as they were written first. A field that is added at the end of a
message, with a default, changes no result here. To add a file for a new sample, run
`python -m tests.fuzzing.test_formats`. It replaces no existing file.
"""

from pathlib import Path
from typing import Final

import pytest

from creekdb.history import load_run
from creekdb.history.run_directory import CONFIG_FILE, HISTORY_FILE
from creekdb.protocol.checkpoint.replay import replay_records
from creekdb.protocol.messages import decode_message, decode_record
from creekdb.server.storage.segments import read_segment_chain
from creekdb.wire import messages as wire
from tests.fuzzing import samples
from tests.fuzzing.journals import journal_samples
from tests.fuzzing.targets import (
    overwrite,
    read_backup,
    run_directory,
    scratch_directory,
    small_history,
    targets,
)

FORMATS: Final = Path(__file__).parent / "formats"
MESSAGES: Final = {
    "peer-hello": (wire.decode_peer_hello, samples.PEER_HELLOS),
    "peer-message": (wire.decode_peer_message, samples.PEER_MESSAGES),
    "client-message": (wire.decode_client_message, samples.CLIENT_MESSAGES),
    "server-message": (wire.decode_server_message, samples.SERVER_MESSAGES),
    "feed-peer-message": (wire.decode_peer_message, samples.FEED_PEER_MESSAGES),
    "feed-client-message": (wire.decode_client_message, samples.FEED_CLIENT_MESSAGES),
    "feed-server-message": (wire.decode_server_message, samples.FEED_SERVER_MESSAGES),
    "piece-peer-message": (wire.decode_peer_message, samples.PIECE_PEER_MESSAGES),
    "piece-client-message": (wire.decode_client_message, samples.PIECE_CLIENT_MESSAGES),
    "piece-server-message": (wire.decode_server_message, samples.PIECE_SERVER_MESSAGES),
    "protocol-message": (decode_message, samples.PROTOCOL_MESSAGES),
    "record": (decode_record, samples.RECORDS),
}
JOURNAL: Final = "one segment"


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_are_decoded_as_before(name: str) -> None:
    decode, expected = MESSAGES[name]
    payloads = wire.FrameDecoder(10**6).feed((FORMATS / name).read_bytes())
    for payload, message in zip(payloads, expected, strict=True):
        assert decode(payload) == message


def test_a_journal_is_recovered_as_before() -> None:
    directory = scratch_directory() / "stored-journal"
    directory.mkdir()
    overwrite(directory / "000000000001.journal", (FORMATS / "journal").read_bytes())
    records = read_segment_chain(directory).records
    assert replay_records(records) == journal_samples()[JOURNAL].states[-1]


def test_a_backup_is_read_as_before() -> None:
    assert read_backup((FORMATS / "backup").read_bytes()) == read_backup(samples.backup_bytes())


def test_a_run_is_loaded_as_before() -> None:
    directory = scratch_directory() / "stored-run"
    directory.mkdir()
    overwrite(directory / CONFIG_FILE, (FORMATS / "run-config").read_bytes())
    overwrite(directory / HISTORY_FILE, (FORMATS / "run-history").read_bytes())
    assert load_run(directory) == small_history()


def _write_missing() -> None:
    contents = {
        name: b"".join(map(wire.frame_payload, targets()[name].samples)) for name in MESSAGES
    }
    (contents["journal"],) = journal_samples()[JOURNAL].files.values()
    contents["backup"] = samples.backup_bytes()
    _, contents["run-config"], contents["run-history"] = run_directory()
    FORMATS.mkdir(exist_ok=True)
    for name, content in contents.items():
        if not (FORMATS / name).exists():
            (FORMATS / name).write_bytes(content)


if __name__ == "__main__":
    _write_missing()
