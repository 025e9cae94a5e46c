"""Connection of PEP 249: consistency level, autocommit, transactions and savepoints."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import parse_qsl, urlsplit

from creekdb.client.blocking import BlockingCall, BlockingDatabase
from creekdb.client.database import CALL_TIMEOUT_S, DISCOVERY_TIMEOUT_S, Database
from creekdb.client.database import connect as connect_client
from creekdb.client.errors import CallFailed
from creekdb.client.proxies import CallOptions
from creekdb.dbapi import errors
from creekdb.dbapi.cursor import STRONG, Cursor, checked_level
from creekdb.dbapi.errors import InterfaceError, ProgrammingError, call_error
from creekdb.dbapi.outcome import Outcome, latest_outcome
from creekdb.dbapi.transaction import InteractiveTransaction
from creekdb.errors import UsageError
from creekdb.sql.result import SqlResult
from creekdb.sql.statements import QUERY_WORDS, StatementReader, find_leading_word

DATATYPE: Final = "sql"
URL_SCHEME: Final = "creek"
_TRANSACTION_WORDS: Final = frozenset(
    ("BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE")
)

_Result = TypeVar("_Result")


class Connection:
    """Connection to a cluster with the data type `sql`: the result of `connect`.

    Without `autocommit`, the first statement begins a transaction, which `commit` or `rollback`
    ends. With `autocommit`, each statement is an operation of its own; BEGIN still begins a
    transaction. The context manager commits, or rolls back after an exception, and closes the
    connection.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    SerializationFailure = errors.SerializationFailure
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, client: Database, consistency: str, autocommit: bool) -> None:
        self._client = client
        self._database: BlockingDatabase | None = self._call(client.__enter__)
        self._consistency = checked_level(consistency)
        self._autocommit = autocommit
        self._transaction: InteractiveTransaction | None = None
        self._last_commit: BlockingCall[Any] | None = None

    # --- settings -------------------------------------------------------------------------------

    @property
    def consistency(self) -> str:
        """Level of statements and transactions: `weak` or `strong`."""
        return self._consistency

    @consistency.setter
    def consistency(self, level: str) -> None:
        self._consistency = checked_level(level)

    @property
    def autocommit(self) -> bool:
        """True if each statement outside BEGIN and COMMIT is an operation of its own."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        if value and not self._autocommit:
            self.commit()
        self._autocommit = bool(value)

    @property
    def in_transaction(self) -> bool:
        """True if a transaction has begun and not ended."""
        return self._transaction is not None

    @property
    def replica(self) -> int | None:
        """Number of the connected replica."""
        return self._open_database().replica

    # --- PEP 249 --------------------------------------------------------------------------------

    def cursor(self, consistency: str | None = None) -> Cursor:
        """Return a cursor. `consistency` replaces the level of the connection."""
        self._open_database()
        return Cursor(self, consistency)

    def execute(self, text: str, parameters: Any = ()) -> Cursor:
        """Execute a statement with a new cursor and return that."""
        return self.cursor().execute(text, parameters)

    def commit(self) -> None:
        """Commit the transaction, if there is one. Raise `SerializationFailure` to be retried."""
        self._open_database()
        transaction, self._transaction = self._transaction, None
        if transaction is not None and not transaction.is_empty:
            self._last_commit = self._call(transaction.commit)

    def rollback(self) -> None:
        """Discard the statements of the transaction. Nothing is sent."""
        self._open_database()
        self._transaction = None

    def close(self) -> None:
        """Roll back and disconnect. Later uses raise `InterfaceError`."""
        if self._database is not None:
            self._transaction = self._database = None
            self._client.__exit__()

    def outcome(self, wait: bool = False) -> Outcome:
        """Return the outcome of the last commit. `wait` waits until it is final."""
        if self._last_commit is None:
            raise InterfaceError("no transaction was committed on this connection")
        return latest_outcome(self._last_commit, wait)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self._database is not None:
                self.commit()
        finally:
            self.close()

    # --- called by cursors ----------------------------------------------------------------------

    def run(
        self, entry: dict[str, Any], level: str | None
    ) -> tuple[SqlResult, BlockingCall[Any] | None]:
        """Execute an entry of a script. Return its result, and its call if it was a single one."""
        self._open_database()
        text = entry["sql"]
        word = find_leading_word(text)
        if word in _TRANSACTION_WORDS:
            self._control_transaction(text)
            return SqlResult(), None
        strong = (level or self._consistency) == STRONG
        if self._transaction is None and not self._autocommit:
            self._begin()
        transaction = self._transaction
        if transaction is None:
            return self._run_single(entry, word, strong)
        transaction.is_strong = transaction.is_strong or strong
        is_query = word in QUERY_WORDS
        return self._call(lambda: transaction.execute(entry, strong=strong and is_query)), None

    @property
    def last_commit(self) -> BlockingCall[Any] | None:
        """Call of the last commit."""
        return self._last_commit

    # --- parts ----------------------------------------------------------------------------------

    def _run_single(
        self, entry: dict[str, Any], word: str, strong: bool
    ) -> tuple[SqlResult, BlockingCall[Any]]:
        """Execute a statement as an operation of its own."""
        if "each" in entry:
            call = self._begin_call(strong, "batch", entry["sql"], entry["each"])
        else:
            name = "query" if word in QUERY_WORDS else "sql"
            call = self._begin_call(strong, name, entry["sql"], entry["parameters"])
        value = self._call(lambda: call.stable if strong else call.tentative)
        return SqlResult.from_value(value), call

    def _control_transaction(self, text: str) -> None:
        reader = StatementReader(text)
        word = reader.take().word
        if word == "BEGIN":
            any(reader.accept(mode) for mode in ("DEFERRED", "IMMEDIATE", "EXCLUSIVE"))
        reader.accept("TRANSACTION")
        if word == "BEGIN":
            _check_end(reader)
            if self._transaction is not None and not self._transaction.is_empty:
                raise ProgrammingError("cannot start a transaction within a transaction", "25001")
            self._begin()
        elif word in ("COMMIT", "END"):
            _check_end(reader)
            self.commit()
        elif word == "ROLLBACK" and not reader.accept("TO"):
            _check_end(reader)
            self.rollback()
        else:
            reader.accept("SAVEPOINT")
            if not reader.symbol:
                raise ProgrammingError("incomplete input", "42601")
            name = reader.take().name
            _check_end(reader)
            self._control_savepoint(word, name)

    def _control_savepoint(self, word: str, name: str) -> None:
        if self._transaction is None:
            if word != "SAVEPOINT":
                raise ProgrammingError(f"no such savepoint: {name}", "3B001")
            self._begin()
        transaction = self._transaction
        assert transaction is not None
        change = {
            "SAVEPOINT": transaction.add_savepoint,
            "RELEASE": transaction.release,
            "ROLLBACK": transaction.rollback_to,
        }[word]
        self._call(lambda: change(name))

    def _begin(self) -> None:
        self._transaction = InteractiveTransaction(self._begin_call)

    def _begin_call(self, strong: bool, name: str, *arguments: Any) -> BlockingCall[Any]:
        return self._open_database().begin(CallOptions(strong), name, *arguments)

    def _open_database(self) -> BlockingDatabase:
        if self._database is None:
            raise InterfaceError("the connection is closed", "08003")
        return self._database

    def _call(self, work: Callable[[], _Result]) -> _Result:
        """Run `work` and raise its failure as an exception of PEP 249."""
        try:
            return work()
        except CallFailed as error:
            raise call_error(error) from error
        except UsageError as error:
            raise InterfaceError(str(error)) from error


def connect(
    addresses: str,
    *,
    consistency: str = STRONG,
    autocommit: bool = False,
    token: str = "",
    authority: str | None = None,
    timeout: float | None = CALL_TIMEOUT_S,
    patience: float = DISCOVERY_TIMEOUT_S,
) -> Connection:
    """Connect to a cluster with the data type `sql`.

    `addresses` are addresses of replicas, `HOST:PORT` separated by commas, or a URL such as
    `creek://HOST:PORT,HOST:PORT/?consistency=weak`. `consistency` is the level of all statements
    that do not choose their own. The other parameters are those of `creekdb.connect`.
    """
    settings: dict[str, Any] = {
        "consistency": consistency,
        "autocommit": autocommit,
        "token": token,
        "authority": authority,
        "timeout": timeout,
        "patience": patience,
    }
    if addresses.startswith(f"{URL_SCHEME}://"):
        url = urlsplit(addresses)
        addresses = url.netloc
        settings |= url_settings(dict(parse_qsl(url.query)))
    level, is_automatic = settings.pop("consistency"), settings.pop("autocommit")
    checked_level(level)
    try:
        client = connect_client(addresses, DATATYPE, **settings)
    except UsageError as error:
        raise InterfaceError(str(error)) from error
    return Connection(client, level, is_automatic)


def url_settings(query: dict[str, str]) -> dict[str, Any]:
    """Return the settings of `connect` from the query of a URL."""
    settings: dict[str, Any] = {}
    for name, value in query.items():
        if name in ("consistency", "token", "authority"):
            settings[name] = value
        elif name in ("timeout", "patience"):
            try:
                settings[name] = float(value)
            except ValueError:
                raise InterfaceError(f"{name} is a number of seconds, not {value!r}") from None
        elif name == "autocommit":
            settings[name] = value.lower() in ("1", "true", "yes", "on")
        else:
            raise InterfaceError(
                f"the URL has an unknown setting {name!r}; known are consistency, autocommit, "
                "token, authority, timeout and patience"
            )
    return settings


def _check_end(reader: StatementReader) -> None:
    if reader.symbol:
        raise ProgrammingError(f'near "{reader.symbol}": syntax error', "42601")
