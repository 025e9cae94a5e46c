"""Snapshots in parts: put together they are the whole, or nothing."""

import pytest

from creek.cluster import parts
from creek.cluster.drawing import DrawnSnapshot
from creek.cluster.parts import Assembly, frames_of
from creek.cluster.wire import PEER_FRAME_MAX, Frames, Part, framed, from_peer
from creek.errors import MalformedMessage
from creek.protocol.dots import Dot, Dots
from creek.protocol.drafts import Array
from creek.protocol.messages import Checkpoint, Snapshot
from creek.protocol.request import Outcome

BARE = Snapshot(Checkpoint(4, 0, Dots(), 9, (), ()))
STATE = tuple((("item", each), (each, "x" * 50)) for each in range(1000))
DELETED = tuple(f"gone {each}" for each in range(300))


def drawn(
    state: tuple[object, ...] = STATE, deleted: tuple[object, ...] = DELETED
) -> DrawnSnapshot:
    held, gone = Array(), Array()
    for first in range(0, len(state), 64):
        held.extend(state[first : first + 64])
    for first in range(0, len(deleted), 64):
        gone.extend(deleted[first : first + 64])
    return DrawnSnapshot(1, BARE, held, gone)


def heard(frames: list[bytes]) -> Snapshot:
    assembly = Assembly()
    for payload in Frames(PEER_FRAME_MAX).feed(b"".join(frames)):
        message = from_peer(payload)
        if isinstance(message, Part):
            assembly.add(message)
        else:
            assert isinstance(message, Snapshot)
            return assembly.whole(message)
    raise AssertionError("there was no snapshot")


@pytest.mark.parametrize("part_bytes", [1, 5000, 10**9])
def test_parts_make_the_whole(part_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", part_bytes)
    whole = Snapshot(Checkpoint(4, 0, Dots(), 9, STATE, (), DELETED))
    assert heard(list(frames_of(drawn()))) == whole


def test_a_snapshot_of_nothing_has_no_parts() -> None:
    frames = list(frames_of(drawn((), ())))
    assert len(frames) == 1
    assert heard(frames) == BARE


def test_a_part_that_is_missing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 1)
    frames = list(frames_of(drawn()))
    assert len(frames) == 22
    for missing in range(len(frames) - 1):
        with pytest.raises(MalformedMessage, match="part"):
            heard(frames[:missing] + frames[missing + 1 :])


def test_answers_that_make_a_snapshot_too_long_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parts, "PEER_FRAME_MAX", 1000)
    outcomes = tuple((Dot(1, each), Outcome("x" * 100)) for each in range(1, 20))
    told = Snapshot(Checkpoint(4, 0, Dots(), 9, (), outcomes))
    frames = list(frames_of(drawn()._replace(snapshot=told)))

    assert len(frames[-1]) <= 1000
    assert heard(frames) == Snapshot(Checkpoint(4, 0, Dots(), 9, STATE, (), DELETED))


def test_frames_are_made_when_they_are_to_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 1)
    made = list[int]()

    def making(payload: bytes) -> bytes:
        made.append(len(payload))
        return framed(payload)

    monkeypatch.setattr(parts, "framed", making)
    frames = frames_of(drawn())
    for count in (1, 2, 3):
        next(frames)
        assert len(made) == count


def test_registers_are_put_together_as_they_came() -> None:
    """To go through all of them once more would be one long turn of the loop."""
    assembly = Assembly()
    first, last = Part(0, 1, (("a", (1, [2])),), ()), Part(1, 0, (("b", {"c": [3]}),), ())
    assembly.add(first)
    assembly.add(last)
    state = assembly.whole(BARE).checkpoint.state

    assert state == (("a", (1, (2,))), ("b", {"c": (3,)}))
    assert [id(each) for each in state] == [id(first.held[0]), id(last.held[0])]
