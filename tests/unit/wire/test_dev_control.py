"""Control messages of `creek up`."""

import os
from collections.abc import Iterator

import pytest

from creekdb.errors import MalformedMessage
from creekdb.wire.dev_control import DevControl, ParentPipe, encode_dev_control

CONTROL = DevControl(
    control="http://127.0.0.1:1", secret="s", pages={0: "http://127.0.0.1:2"}, cut=(1,)
)


class PipeFixture:
    """A parent pipe, and everything that it reports."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        self.controls: list[DevControl] = []
        self.exit_count = 0
        self.parent = ParentPipe(self.read, self.controls.append, self._on_exit)

    def _on_exit(self) -> None:
        self.exit_count += 1

    def send(self, data: bytes) -> None:
        os.write(self.write, data)
        self.parent.read()


@pytest.fixture
def pipe() -> Iterator[PipeFixture]:
    fixture = PipeFixture()
    yield fixture
    os.close(fixture.read)


def test_a_control_message_is_handled_when_its_line_is_complete(pipe: PipeFixture) -> None:
    line = encode_dev_control(CONTROL)
    pipe.send(line[:10])
    assert pipe.controls == []
    pipe.send(line[10:] + line + line[:3])
    assert pipe.controls == [CONTROL, CONTROL]
    os.close(pipe.write)
    pipe.parent.read()
    assert (pipe.exit_count, len(pipe.controls)) == (1, 2)


def test_malformed_lines_are_rejected(pipe: PipeFixture) -> None:
    for line in (b"cut 1\n", b"{}\n", b'{"control": 1}\n', b"\xff\n"):
        with pytest.raises(MalformedMessage, match="not a control message of 'creek up'"):
            pipe.send(line)
    assert pipe.controls == []
    os.close(pipe.write)
