"""Talking to a cluster from Python, with asyncio or without.

    async with creekdb.connect("127.0.0.1:7100", bank) as db:
        balance = await db.weak.withdraw("alice", 5)         # tentative, at once
        call = db.strong.withdraw("alice", 50)
        await call.tentative                                 # speculative
        await call.stable                                    # linearizable
        outcome = await db.weak.withdraw("alice", 5).final   # how it ended; .changed

    with creekdb.connect("127.0.0.1:7100", bank) as db:
        balance = db.weak.withdraw("alice", 5)
        call = db.strong.begin.withdraw("alice", 50)         # .tentative, .stable, .final

A call that meets a broken connection is asked for again, at another replica if need be, and is
executed once all the same.
"""

from creekdb.client.blocking import BlockingCall as BlockingCall
from creekdb.client.blocking import BlockingDatabase as BlockingDatabase
from creekdb.client.calls import Call as Call
from creekdb.client.calls import FinalOutcome as FinalOutcome
from creekdb.client.database import Database as Database
from creekdb.client.database import connect as connect
from creekdb.client.errors import CallFailed as CallFailed
from creekdb.client.errors import NotDone as NotDone
from creekdb.client.errors import OperationFailed as OperationFailed
from creekdb.client.errors import Unknown as Unknown
from creekdb.wire.messages import CallResponse as CallResponse
