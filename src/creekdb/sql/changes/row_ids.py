"""Row ids that derive from the request.

A row id consists of the time of the request, the replica that issued it, and the number of the row
in the operation. Concurrent inserts of two replicas therefore never read each other's rows, and a
row keeps its id when its request is executed again at another position. Row ids increase with time.
They fit into 63 bits.
"""

from typing import Final

from creekdb.sql.connection import Session

TIME_BITS: Final = 52
"""Microseconds since 1970, until the year 2112."""
REPLICA_BITS: Final = 5
NUMBER_BITS: Final = 6
"""Rows beyond this number use the ids of the next microseconds. The engine skips a used id."""
_ROW_ID_MAX: Final = 2**63 - 1


def next_row_id(session: Session) -> int:
    """Return the next row id of the operation."""
    transaction = session.transaction
    time: int = transaction.timestamp & (2**TIME_BITS - 1)
    replica = transaction.replica & (2**REPLICA_BITS - 1)
    first = (time << REPLICA_BITS | replica) << NUMBER_BITS
    row_id = first + session.row_ids
    session.row_ids += 1
    return row_id & _ROW_ID_MAX
