"""What a replica hears from `creek up`."""

import os
from collections.abc import Iterator

import pytest

from creekdb.errors import MalformedMessage
from creekdb.wire.dev_control import DevControl, ParentPipe, encode_dev_control

TRIAL = DevControl(
    control="http://127.0.0.1:1", secret="s", pages={0: "http://127.0.0.1:2"}, cut=(1,)
)


class Heard:
    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        self.told: list[DevControl] = []
        self.ended = 0
        self.parent = ParentPipe(self.read, self.told.append, self._end)

    def _end(self) -> None:
        self.ended += 1

    def say(self, data: bytes) -> None:
        os.write(self.write, data)
        self.parent.read()


@pytest.fixture
def heard() -> Iterator[Heard]:
    found = Heard()
    yield found
    os.close(found.read)


def test_a_line_is_heard_when_it_is_whole(heard: Heard) -> None:
    line = encode_dev_control(TRIAL)
    heard.say(line[:10])
    assert heard.told == []
    heard.say(line[10:] + line + line[:3])
    assert heard.told == [TRIAL, TRIAL]
    os.close(heard.write)
    heard.parent.read()
    assert (heard.ended, len(heard.told)) == (1, 2)


def test_what_is_no_such_line_is_refused(heard: Heard) -> None:
    for line in (b"cut 1\n", b"{}\n", b'{"control": 1}\n', b"\xff\n"):
        with pytest.raises(MalformedMessage, match="not a line of 'creek up'"):
            heard.say(line)
    assert heard.told == []
    os.close(heard.write)
