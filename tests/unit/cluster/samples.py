"""Records to write, each different from every other."""

from creek.protocol.dots import Dot, Dots
from creek.protocol.messages import Ballot, Checkpoint, Image, Received, Record
from creek.protocol.request import Operation, Request


def record(event: int, size: int = 0) -> Record:
    return Received(Request(event, Dot(0, event), Operation("put", ("x" * size,)), False))


def image(event: int) -> Record:
    return Image(Checkpoint(event, 0, Dots(), 0, (), ()), Ballot(0, 0), (), (), ())
