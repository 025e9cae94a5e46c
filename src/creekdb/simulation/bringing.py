"""A snapshot as live replicas bring it: its registers first, a few at a time."""

from typing import Final

import msgspec

from creekdb.protocol.checkpoint.stream import Array, Brought, Intake
from creekdb.protocol.membership.configuration import REGISTER
from creekdb.protocol.messages import Snapshot

PART: Final = 3
"""Registers at a time."""


def brought(snapshot: Snapshot, intake: Intake) -> Brought:
    checkpoint = snapshot.checkpoint
    held, deleted = Array(), Array()
    for first in range(0, len(checkpoint.state), PART):
        some = checkpoint.state[first : first + PART]
        intake.add(some, ())
        held.extend(some)
    for first in range(0, len(checkpoint.deleted), PART):
        gone = checkpoint.deleted[first : first + PART]
        intake.add((), gone)
        deleted.extend(gone)
    members = tuple([item for item in checkpoint.state if item[0] == REGISTER])
    bare = msgspec.structs.replace(checkpoint, state=members, deleted=())
    return Brought(bare, intake, held, deleted)
