"""Effects that need not wait for the disk although they follow a record.

`Effects` states the rule that is always safe: every message and response waits for all preceding
records. A driver may deviate from that rule in two cases, to reduce latency:

- A proposal (`Accept`) is not binding once its ballot is durable. A leader that lost its ballot
  could propose another batch in it. The ballot is usually durable long before, because others
  promised it. If one acceptor is a majority, however, the replica leads at once. Each acceptor has
  the requests that a proposal names on its own disk before it votes. A proposal stays with requests
  that are sent in the same batch: without them no acceptor can vote.
- A response does not wait for a `Decided` that no other record follows. The acceptors whose votes
  decided the instance have the batch on disk, and the vote of this replica is an earlier record.
  `Progress`, which lets peers discard the decision, does wait.
"""

from collections.abc import Sequence

from creekdb.protocol.effects import Send
from creekdb.protocol.messages import Accept, Cast, Decided, Prepare, Record


class ProposalFilter:
    """Selects the proposals that may be sent before the disk write completes."""

    __slots__ = ("_ballot_position",)

    def __init__(self) -> None:
        self._ballot_position = 0
        """Upper bound of the journal position after the last ballot of this replica."""

    def split(
        self, sends: Sequence[Send], end: int, durable: int
    ) -> tuple[Sequence[Send], Sequence[Send]]:
        """Split `sends`, whose records end at `end`, into immediate and deferred messages."""
        has_proposal = has_cast = False
        for each in sends:
            kind = type(each.message)
            if kind is Accept:
                has_proposal = True
            elif kind is Cast:
                has_cast = True
            elif kind is Prepare:
                self._ballot_position = end
        if not has_proposal or has_cast or self._ballot_position > durable:
            return (), sends
        return (
            [each for each in sends if type(each.message) is Accept],
            [each for each in sends if type(each.message) is not Accept],
        )


def required_record_count(records: Sequence[Record]) -> int:
    """Return the length of the prefix of `records` that responses wait for.

    The prefix ends before the trailing `Decided` records. The order of the records is preserved. On
    disk without the decision that changed the members, a ballot would count for the old members.
    """
    count = len(records)
    while count and type(records[count - 1]) is Decided:
        count -= 1
    return count
