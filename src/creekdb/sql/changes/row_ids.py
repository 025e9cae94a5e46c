"""Row ids that derive from the request.

A row id consists of the time of the request, the replica that issued it, and the number of the row
in the operation. Concurrent inserts of two replicas therefore never read each other's rows, and a
row keeps its id when its request is executed again at another position. Row ids increase with time.
They fit into 63 bits.

Two requests draw equal ids only in these cases. The engine then skips the ids that the table has,
so that the ids of the later request depend on the rows of the earlier one:

- Requests of one replica, if the earlier one inserts more than 64 rows for each microsecond between
  them.
- Requests of two replicas at nearly the same time, if the numbers of the replicas differ by a
  multiple of 32.
"""

from typing import Final

from creekdb.sql.connection import Session

TIME_BITS: Final = 52
"""Microseconds since 1970, until the year 2112."""
REPLICA_BITS: Final = 5
NUMBER_BITS: Final = 6
"""Rows beyond this number use the ids of the replica in the next microseconds."""


def next_row_id(session: Session) -> int:
    """Return the next row id of the operation."""
    transaction = session.transaction
    excess, number = divmod(session.row_ids, 2**NUMBER_BITS)
    time: int = (transaction.timestamp + excess) & (2**TIME_BITS - 1)
    replica = transaction.replica & (2**REPLICA_BITS - 1)
    session.row_ids += 1
    return (time << REPLICA_BITS | replica) << NUMBER_BITS | number
