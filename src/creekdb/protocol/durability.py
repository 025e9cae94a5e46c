"""What need not wait for the disk although it comes after a record.

`Effects` asks for what is always safe: all that is sent and answered waits for all records before
it. For the sake of speed a driver may know better, in two cases only:

- A proposal (`Accept`) binds nobody, once the ballot that it is made in is durable: one who forgot
  its ballot might propose something else in it. Mostly that is long so, since others promised it
  before; but where one acceptor is a majority, it leads at once. Who votes for a proposal has what
  it names on its own disk. It stays with requests that leave in the same batch: without them nobody
  can vote.
- An answer does not wait for a `Decided` that no other record follows. Those whose votes decided it
  have it on their disks, and the vote of this replica is a record before. `GridProgress`, which
  lets others forget the decision, does wait.
"""

from collections.abc import Sequence

from creekdb.protocol.effects import Send
from creekdb.protocol.messages import Accept, Cast, Decided, Prepare, Record


class ProposalFilter:
    """Tells those that may leave at once."""

    __slots__ = ("_ballot_position",)

    def __init__(self) -> None:
        self._ballot_position = 0
        """The position behind the last ballot of our own, or further."""

    def split(
        self, sends: Sequence[Send], end: int, durable: int
    ) -> tuple[Sequence[Send], Sequence[Send]]:
        """What may leave at once, and the rest, of a batch whose records end at that position."""
        proposed = cast = False
        for each in sends:
            kind = type(each.message)
            if kind is Accept:
                proposed = True
            elif kind is Cast:
                cast = True
            elif kind is Prepare:
                self._ballot_position = end
        if not proposed or cast or self._ballot_position > durable:
            return (), sends
        return (
            [each for each in sends if type(each.message) is Accept],
            [each for each in sends if type(each.message) is not Accept],
        )


def required_record_count(records: Sequence[Record]) -> int:
    """How many of them, from the first, answers have to wait for: all but decisions at the end.

    They stay in the order in which they were emitted. A ballot of new members that is on disk
    without the decision that changed them would be taken for one of the old ones.
    """
    count = len(records)
    while count and type(records[count - 1]) is Decided:
        count -= 1
    return count
