"""Python client for a Creek cluster, for asyncio or for blocking code.

    async with creekdb.connect("127.0.0.1:7100", bank) as db:
        balance = await db.weak.withdraw("alice", 5)         # tentative, immediate
        call = db.strong.withdraw("alice", 50)
        await call.tentative                                 # speculative
        await call.stable                                    # linearizable
        outcome = await db.weak.withdraw("alice", 5).final   # .value and .changed

    with creekdb.connect("127.0.0.1:7100", bank) as db:
        balance = db.weak.withdraw("alice", 5)
        call = db.strong.begin.withdraw("alice", 50)         # .tentative, .stable, .final

If a connection fails, the client retries its open calls, at another replica if necessary. The
cluster executes a retried call once.
"""

from creekdb.client.blocking import BlockingCall as BlockingCall
from creekdb.client.blocking import BlockingDatabase as BlockingDatabase
from creekdb.client.calls import Call as Call
from creekdb.client.calls import FinalOutcome as FinalOutcome
from creekdb.client.changes import BlockingChangeStream as BlockingChangeStream
from creekdb.client.changes import ChangePosition as ChangePosition
from creekdb.client.changes import ChangeStream as ChangeStream
from creekdb.client.database import Database as Database
from creekdb.client.database import connect as connect
from creekdb.client.errors import CallFailed as CallFailed
from creekdb.client.errors import NotDone as NotDone
from creekdb.client.errors import OperationFailed as OperationFailed
from creekdb.client.errors import Unknown as Unknown
from creekdb.client.snapshots import BlockingSnapshot as BlockingSnapshot
from creekdb.client.snapshots import Snapshot as Snapshot
from creekdb.client.snapshots import SnapshotTicket as SnapshotTicket
from creekdb.wire.changes import Change as Change
from creekdb.wire.messages import CallResponse as CallResponse
from creekdb.wire.table_changes import RowChange as RowChange
from creekdb.wire.table_changes import TableChange as TableChange
from creekdb.wire.tentative import StagedChange as StagedChange
