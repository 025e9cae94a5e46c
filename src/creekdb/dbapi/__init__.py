"""SQL on a cluster with the interface of PEP 249 (DB-API 2.0).

    import creekdb.dbapi

    with creekdb.dbapi.connect("127.0.0.1:7100", consistency="weak") as connection:
        cursor = connection.cursor()
        cursor.execute("INSERT INTO item(name, stock) VALUES (?, ?)", ("tea", 3))
        connection.commit()                      # responds at once, also inside a partition
        cursor.outcome(wait=True).state          # "stable", or "changed"

A strong connection, the default, commits serializable transactions. A transaction that concurrent
operations have overtaken raises `SerializationFailure`, with SQLSTATE 40001; retry it. Keep
transactions short: each statement executes those before it again. `executemany` is one statement.
"""

from typing import Final

from creekdb.dbapi.connection import Connection as Connection
from creekdb.dbapi.connection import connect as connect
from creekdb.dbapi.cursor import Cursor as Cursor
from creekdb.dbapi.errors import DatabaseError as DatabaseError
from creekdb.dbapi.errors import DataError as DataError
from creekdb.dbapi.errors import Error as Error
from creekdb.dbapi.errors import IntegrityError as IntegrityError
from creekdb.dbapi.errors import InterfaceError as InterfaceError
from creekdb.dbapi.errors import InternalError as InternalError
from creekdb.dbapi.errors import NotSupportedError as NotSupportedError
from creekdb.dbapi.errors import OperationalError as OperationalError
from creekdb.dbapi.errors import ProgrammingError as ProgrammingError
from creekdb.dbapi.errors import SerializationFailure as SerializationFailure
from creekdb.dbapi.errors import Warning as Warning
from creekdb.dbapi.outcome import Outcome as Outcome
from creekdb.dbapi.outcome import OutcomeState as OutcomeState
from creekdb.dbapi.types import BINARY as BINARY
from creekdb.dbapi.types import DATETIME as DATETIME
from creekdb.dbapi.types import NUMBER as NUMBER
from creekdb.dbapi.types import ROWID as ROWID
from creekdb.dbapi.types import STRING as STRING
from creekdb.dbapi.types import Binary as Binary
from creekdb.dbapi.types import Date as Date
from creekdb.dbapi.types import DateFromTicks as DateFromTicks
from creekdb.dbapi.types import Time as Time
from creekdb.dbapi.types import TimeFromTicks as TimeFromTicks
from creekdb.dbapi.types import Timestamp as Timestamp
from creekdb.dbapi.types import TimestampFromTicks as TimestampFromTicks

apilevel: Final = "2.0"
threadsafety: Final = 1
"""Threads may share the module, but not connections."""
paramstyle: Final = "qmark"
sqlite_version_info: Final = (3, 54, 1)
"""Version of SQLite whose dialect this release speaks. `tests/sql_clients` compares it."""
