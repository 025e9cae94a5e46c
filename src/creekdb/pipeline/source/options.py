"""Options of `format("creek")`, for reading, for streams and for writing.

Spark passes options as text, with names in lower case. Each use of the source declares its options
here or in the module that reads them, takes them from an `OptionReader`, and refuses all others. So
a misspelt name is an error that names it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

from creekdb.client import Database, NotDone, connect
from creekdb.errors import BadValue, CreekError, UnknownName, UsageError
from creekdb.execution.keys import check_key
from creekdb.protocol.values import freeze
from creekdb.wire.addresses import parse_address
from creekdb.wire.changes import parse_start
from creekdb.wire.messages import TableDescription
from creekdb.wire.reject_reason import RejectReason

FORMAT: Final = "creek"
CLUSTER_OPTIONS: Final = ("servers", "tokenFile", "authority", "timeout")
SELECTION_OPTIONS: Final = ("table", "prefix", "keyType", "partitions", "lease")
BATCH_OPTIONS: Final = ("asOf",)
FEED_OPTIONS: Final = ("readChangeFeed", "startingIndex", "rows", "beforeImages", "failOnDataLoss")
STREAM_OPTIONS: Final = ("maxRowsPerTrigger",)
SPARK_OPTIONS: Final = ("checkpointLocation", "path", "queryName")
"""Options of Spark itself, which it passes on to sources and sinks."""

SNAPSHOT: Final = "snapshot"
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
KEY_TYPES: Final = ("string", "int", "json")
ROWS: Final = ("writes", "operations")

TIMEOUT_S: Final = 10.0
LEASE_S: Final = 300.0
LEASE_S_MAX: Final = 600.0
PARTITIONS: Final = 4
PARTITIONS_MAX: Final = 1024
INDEX_MAX: Final = 2**63 - 1

_TOKEN_ERROR: Final = "the token is"
"""Text of the rejections of a token. They have no error class of their own."""

KeyType = Literal["string", "int", "json"]
Prefix = str | tuple[str | int, ...]


class OptionReader:
    """Options of one query. Every error is one line that names the option."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}

    def refuse_others(self, allowed: Iterable[str], use: str) -> None:
        """Raise `UsageError` for an option that is not allowed. `use` names what the query does,
        such as 'a batch read'."""
        known = sorted(allowed, key=str.lower)
        lower = {name.lower() for name in (*known, *SPARK_OPTIONS)}
        for name in self._given:
            if name == "token":
                raise UsageError(
                    "option token is refused: plans of queries show the values of options; write "
                    "the token to a file, and set tokenFile to its path"
                )
            if name not in lower:
                raise UnknownName(f"option of {use}", _written(name), known)

    def has(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str, default: str | None = None) -> str | None:
        value = self._given.get(name.lower(), "").strip()
        return value or default

    def required(self, name: str, example: str) -> str:
        value = self.text(name)
        if value is None:
            raise UsageError(f"option {name} is missing: set it, such as {example}")
        return value

    def integer(self, name: str, default: int | None, low: int, high: int) -> int | None:
        text = self.text(name)
        if text is None:
            return default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 19):
            self.refuse(name, f"an integer from {low} to {high}")
        number = int(text)
        if not low <= number <= high:
            self.refuse(name, f"an integer from {low} to {high}")
        return number

    def seconds(self, name: str, default: float, high: float) -> float:
        text = self.text(name)
        if text is None:
            return default
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 < number <= high:
            self.refuse(name, f"a number of seconds above 0 and up to {high:g}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            self.refuse(name, "true or false")
        return text.lower() == "true"

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        text = (self.text(name) or default).lower()
        if text not in choices:
            self.refuse(name, f"{', '.join(choices[:-1])} or {choices[-1]}")
        return text

    def refuse(self, name: str, expected: str) -> NoReturn:
        raise BadValue(f"option {name} is '{self.text(name)}': it must be {expected}")


@dataclass(frozen=True)
class ClusterOptions:
    """The cluster, and how a process connects to it."""

    servers: tuple[str, ...]
    """Client addresses of replicas."""
    token_file: str | None = None
    """File with the access token, on every machine that connects."""
    authority: str | None = None
    """File with the trusted certificates, in PEM format. None connects without TLS."""
    timeout_s: float = TIMEOUT_S
    """Time within which a replica must be reachable, in seconds."""

    @classmethod
    def parse(cls, options: OptionReader) -> "ClusterOptions":
        text = options.required("servers", "127.0.0.1:7100,127.0.0.1:7101")
        servers = tuple([each.strip() for each in text.split(",") if each.strip()])
        try:
            for each in servers:
                parse_address(each)
        except BadValue as error:
            raise BadValue(f"option servers: {error}") from None
        if not servers:
            options.refuse("servers", "a list of addresses HOST:PORT, separated by commas")
        return cls(
            servers,
            options.text("tokenFile"),
            options.text("authority"),
            options.seconds("timeout", TIMEOUT_S, 3600),
        )

    def database(self, first: str | None = None) -> Database:
        """Return a connection that is not open. `first` is the address to try first."""
        servers = self.servers
        if first is not None:
            servers = (first, *(each for each in servers if each != first))
        return connect(
            list(servers),
            token=self._token(),
            authority=self._existing_authority(),
            timeout=self.timeout_s,
            patience=self.timeout_s,
        )

    def explained(self, error: CreekError) -> CreekError:
        """Return an error of a connection with the option that causes it, or the error itself."""
        text = str(error)
        if isinstance(error, NotDone) and error.reason == RejectReason.UNREACHABLE:
            return UsageError(f"option servers: {text}")
        if isinstance(error, UsageError) and _TOKEN_ERROR in text:
            return UsageError(f"option tokenFile: {text}")
        if isinstance(error, UsageError) and text.startswith(self.servers):
            return UsageError(f"option servers: {text}")
        return error

    def _token(self) -> str:
        if self.token_file is None:
            return ""
        try:
            return Path(_local_path(self.token_file)).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BadValue(f"option tokenFile: cannot read '{self.token_file}': {reason}") from None

    def _existing_authority(self) -> str | None:
        if self.authority is None:
            return None
        path = _local_path(self.authority)
        if not Path(path).is_file():
            raise BadValue(f"option authority: there is no file '{self.authority}'")
        return path


@dataclass(frozen=True)
class Selection:
    """The rows that a query reads."""

    table: str | None = None
    """SQL table. None reads keys and values."""
    prefix: Prefix | None = None
    """Prefix of the keys. None reads all."""
    key_type: str = "string"
    partitions: int = PARTITIONS
    lease_s: float = LEASE_S
    """Time without a read after which a snapshot ends, in seconds."""

    def key_prefix(self, table: TableDescription | None) -> Prefix | None:
        """Return the prefix of the selected registers. `table` describes the selected table."""
        return self.prefix if table is None else table.prefix

    @classmethod
    def parse(cls, options: OptionReader) -> "Selection":
        table = options.text("table")
        prefix = _parse_prefix(options)
        if table is not None:
            for other in ("prefix", "keyType"):
                if options.has(other):
                    raise UsageError(
                        f"options table and {other} exclude each other: {other} is for keys and "
                        "values; omit one"
                    )
        partitions = options.integer("partitions", PARTITIONS, 1, PARTITIONS_MAX)
        assert partitions is not None
        return cls(
            table,
            prefix,
            options.choice("keyType", "string", KEY_TYPES),
            partitions,
            options.seconds("lease", LEASE_S, LEASE_S_MAX),
        )


@dataclass(frozen=True)
class BatchOptions:
    """Options of a batch read of the state."""

    cluster: ClusterOptions
    selection: Selection
    as_of: int | None = None
    """Commit index of the state. None reads the newest."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "BatchOptions":
        options = OptionReader(given)
        allowed = (*CLUSTER_OPTIONS, *SELECTION_OPTIONS, *BATCH_OPTIONS)
        if options.flag("readChangeFeed", False):
            raise UsageError(
                "option readChangeFeed is for streams: use spark.readStream, with the trigger "
                "availableNow=True for one pass; spark.read reads the state"
            )
        options.refuse_others((*allowed, "readChangeFeed"), "a batch read")
        return cls(
            ClusterOptions.parse(options),
            Selection.parse(options),
            options.integer("asOf", None, 0, INDEX_MAX),
        )


@dataclass(frozen=True)
class StreamOptions:
    """Options of a stream of changes."""

    cluster: ClusterOptions
    selection: Selection
    start: str | int = SNAPSHOT
    """`snapshot`, `earliest`, `latest`, or the index of the first change."""
    rows: str = "writes"
    """`writes` for a row per written register, `operations` for a row per operation."""
    before_images: bool = False
    """True if an update is preceded by a row with the values before it."""
    fail_on_data_loss: bool = True
    rows_max: int | None = None
    """Upper bound for the rows of a micro-batch, rounded up to whole commits."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "StreamOptions":
        options = OptionReader(given)
        allowed = (*CLUSTER_OPTIONS, *SELECTION_OPTIONS, *FEED_OPTIONS, *STREAM_OPTIONS)
        if options.has("asOf"):
            raise UsageError(
                "option asOf is for batch reads: a stream starts at startingIndex; omit asOf"
            )
        options.refuse_others(allowed, "a stream")
        if not options.flag("readChangeFeed", False):
            raise UsageError(
                "option readChangeFeed is missing: a stream reads the change feed; set it to true"
            )
        rows = options.choice("rows", "writes", ROWS)
        start = _parse_starting_index(options, EARLIEST if rows == "operations" else SNAPSHOT)
        if rows == "operations":
            if start == SNAPSHOT:
                raise UsageError(
                    "option startingIndex is 'snapshot': a snapshot has no operations; set it to "
                    "earliest, latest or an index"
                )
            for other in ("table", "beforeImages"):
                if options.has(other):
                    raise UsageError(
                        f"option {other} does not apply with rows=operations; omit one of them"
                    )
        return cls(
            ClusterOptions.parse(options),
            Selection.parse(options),
            start,
            rows,
            options.flag("beforeImages", False),
            options.flag("failOnDataLoss", True),
            options.integer("maxRowsPerTrigger", None, 1, INDEX_MAX),
        )


def _parse_starting_index(options: OptionReader, default: str) -> str | int:
    text = options.text("startingIndex", default)
    assert text is not None
    if text.lower() in (SNAPSHOT, EARLIEST, LATEST):
        return text.lower()
    index = parse_start(text)
    if index is None:
        options.refuse("startingIndex", "snapshot, earliest, latest or an index of at least 1")
    return index


def _parse_prefix(options: OptionReader) -> Prefix | None:
    text = options.text("prefix")
    if text is None or not text.startswith("["):
        return text
    try:
        prefix: Any = freeze(json.loads(text))
        if prefix:
            check_key(prefix)
    except (BadValue, ValueError, RecursionError):
        options.refuse("prefix", 'a string, or a JSON array such as ["orders", 7]')
    result: Prefix = prefix
    return result


def _local_path(path: str) -> str:
    """Return the path of a file, or of one that `SparkContext.addFile` has distributed."""
    if not Path(path).is_absolute() and not Path(path).exists():
        from pyspark import SparkFiles  # noqa: PLC0415 - imported in processes of Spark only

        distributed = SparkFiles.get(path)
        if Path(distributed).exists():
            return distributed
    return path


def _written(lower_name: str) -> str:
    """Return an option as users write it, for messages."""
    known = (*CLUSTER_OPTIONS, *SELECTION_OPTIONS, *BATCH_OPTIONS, *FEED_OPTIONS, *STREAM_OPTIONS)
    return next((name for name in known if name.lower() == lower_name), lower_name)
