"""A data type of one's own, by where it is imported from: `package.module:variable`.

How a replica is set up: a TOML file, in which every key can also come from elsewhere.

cluster = "shop"
replica = 0
datatype = "shop.stock:shop"        # where it is imported from
data = "data/0"
clients = "127.0.0.1:7100"          # where clients find it
http = "127.0.0.1:7300"             # the same for those who speak HTTP; without it, nobody does

[members]                           # where replicas find each other
0 = "127.0.0.1:7200"
1 = "127.0.0.1:7201"
2 = "127.0.0.1:7202"
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal

import msgspec

from creekdb import datatypes, tpcc
from creekdb.errors import BadValue, UnknownName, UsageError
from creekdb.execution.datatype import DataType
from creekdb.execution.module_loader import import_user_module
from creekdb.protocol.request import NOOP
from creekdb.server.membership.join_ticket import read_ticket
from creekdb.wire.addresses import format_address, is_loopback, parse_address


def import_datatype(name: str) -> DataType:
    module, variable = import_user_module("data type", name)
    datatype = getattr(module, variable, None)
    if datatype is None and not hasattr(module, variable):
        raise UsageError(
            f"data type {name}: {module.__name__} has no '{variable}'{_available_datatypes(module)}"
        )
    if not isinstance(datatype, DataType):
        kind = type(datatype).__name__
        raise UsageError(
            f"data type {name}: '{variable}' is a {kind}, no "
            f"creekdb.DataType{_available_datatypes(module)}"
        )
    if datatype.operations == (NOOP.name,):
        what = f"declare some with @{variable}.operation"
        raise UsageError(f"data type {name} has no operations: {what}")
    return datatype


def _available_datatypes(module: ModuleType) -> str:
    """The data types that it has, to choose from."""
    there = [f"{module.__name__}:{each}" for each, it in vars(module).items() if _is_datatype(it)]
    return f"; there is {', '.join(there)}" if there else ""


def _is_datatype(value: object) -> bool:
    return isinstance(value, DataType)


DEFAULT_DATA_DIR: Final = "creek-data"
ENVIRONMENT_PREFIX: Final = "CREEK_"
"""Of environment variables: CREEK_DATA is `data`."""
WILDCARD_HOSTS: Final = ("0.0.0.0", "::")
"""Where one can listen, and nobody can be found."""


class SecurityConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where certificates and keys are. Replicas show each other theirs; clients show a token."""

    authority: str = ""
    """Whose certificates are trusted."""
    certificate: str = ""
    """What this replica shows to others and to clients."""
    key: str = ""
    """The private key that belongs to it."""
    tokens: dict[str, str] = {}
    """Who may call: token by name."""
    admins: tuple[str, ...] = ()
    """Whose of these tokens may also change the members and take backups; without any: all."""
    plain: bool = False
    """Let others than this machine connect without any of it."""


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All keys. Each can also be given to `creek serve` as an option, or in the environment, as
    `CREEK_DATA` for `data`; `members` and `security` stand in the file."""

    cluster: str = "creek"
    """Its name: replicas of another one are refused."""
    replica: int = 0
    """Which one of the members this is."""
    members: dict[int, str]
    """Every replica's number, and where the others find it."""
    clients: str = "127.0.0.1:0"
    """Where clients find this one; port 0: wherever there is room."""
    datatype: str = "kv"
    """What is replicated: a ready-made data type, or yours as `package.module:variable`."""
    scheme: str = "creek"
    """The replication scheme; the same everywhere."""
    data: str = DEFAULT_DATA_DIR
    """The folder for its journal."""
    durability: Literal["disk", "memory"] = "disk"
    """What a tentative answer waits for; a stable one always waits for the disks of a majority.
    `memory`: a crash may take back weak calls that were answered, also from who made them."""
    io_uring: bool = True
    """Let Linux write to the journal by itself, where it can. Else, and elsewhere, a thread does:
    a call takes somewhat longer then."""
    tick_ms: int = 20
    """How often it looks after what was forgotten."""
    checkpoint_every: int = 20_000
    """Requests between two checkpoints, which shorten the journal."""
    execution: Literal["inline", "threads"] = "inline"
    """Where operations run: between all else that a replica does, or in a thread of their own."""
    operation_limit: float = 5.0
    """Seconds after which an operation that still runs is reported."""
    busy_after: float = 2.0
    """Seconds that a call may wait to be executed: while one waits for longer, no other is
    taken."""
    strong_max: int = 10_000
    """Strong calls of its clients that may wait for a stable answer."""
    forget_after: float = 86_400.0
    """Seconds after which a call is forgotten: asked for again, it would be executed again. They
    are counted by no clock that anybody sets, and seven times as many while a member is away, which
    may have the call as well (`creekdb.server.calls.expiry`)."""
    fresh: bool = False
    """No replica of this cluster has ever run: begin without hearing from all of them."""
    record: str = ""
    """A folder, for what it does to be written down: 'creek gather' makes a run of it."""
    record_orders: bool = False
    """Also on which order each tentative answer was computed: slow, and for tests."""
    log: Literal["text", "json"] = "text"
    """How events are told, on the standard error stream: for people, or for programs."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """From which level on events are told."""
    http: str = ""
    """Where HTTP is spoken; empty: nowhere."""
    security: SecurityConfig = SecurityConfig()
    """Who may connect, and how it is encrypted."""

    def __post_init__(self) -> None:
        if not self.members:
            raise BadValue("members is empty: name every replica and where it is found")
        if self.replica not in self.members:
            known = ", ".join(map(str, sorted(self.members)))
            raise BadValue(f"replica is {self.replica}: members are {known}")
        if self.record_orders and not self.record:
            raise BadValue("record_orders needs record: name a folder to record into")
        for name in ("operation_limit", "busy_after", "forget_after", "strong_max"):
            if not getattr(self, name) > 0:
                raise BadValue(f"{name} is {getattr(self, name)}: it must be above 0")
        if self.tick_ms < 1:
            raise BadValue(f"tick_ms is {self.tick_ms}: it must be at least 1")
        secured = (self.security.authority, self.security.certificate, self.security.key)
        if any(secured) and not all(secured):
            raise BadValue("security needs all of authority, certificate and key, or none")
        _check_tokens(self.security)
        for address in filter(None, (*self.members.values(), self.clients, self.http)):
            host, _ = parse_address(address)
            if not (all(secured) or self.security.plain or is_loopback(host)):
                raise BadValue(
                    f"{address} can be reached from other machines, and nothing is encrypted: set "
                    "security.authority, certificate and key ('creek certs' makes a set), or "
                    "security.plain = true"
                )

    @property
    def is_secured(self) -> bool:
        return bool(self.security.authority)

    @property
    def client_address(self) -> str:
        """Where clients find it, as others may be told; empty when only it will know."""
        return self._advertised_address(self.clients)

    @property
    def page_url(self) -> str:
        """Where its page is, as others may be told."""
        told = self._advertised_address(self.http) if self.http else ""
        return told and f"{'https' if self.is_secured else 'http'}://{told}"

    def _advertised_address(self, address: str) -> str:
        host, port = parse_address(address)
        if not port:
            return ""
        if host in WILDCARD_HOSTS:
            host, _ = self.peers[self.replica]
        return format_address(host, port)

    @property
    def peers(self) -> dict[int, tuple[str, int]]:
        return {replica: parse_address(text) for replica, text in sorted(self.members.items())}


def _check_tokens(security: SecurityConfig) -> None:
    whose: dict[str, str] = {}
    for name, token in security.tokens.items():
        if not token:
            raise BadValue(f"security.tokens: that of {name} is empty, and everybody could call")
        if token in whose:
            raise BadValue(f"security.tokens: {whose[token]} and {name} have the same")
        whose[token] = name
    for name in security.admins:
        if name not in security.tokens:
            raise BadValue(f"security.admins: {name} has no token")


def read_config(
    path: Path | None, given: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> ServerConfig:
    """The file, then what the environment says, then what was given on the command line. The first
    mistake is told with its key."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: {error}") from error
        _reject_unknown_keys(values, path)
    for name in ServerConfig.__struct_fields__:
        text = environment.get(ENVIRONMENT_PREFIX + name.upper())
        if text is not None and name not in ("members", "security"):
            values[name] = text
    values.update({name: value for name, value in given.items() if value is not None})
    data = values.get("data", DEFAULT_DATA_DIR)
    ticket = read_ticket(Path(data)) if isinstance(data, str) else None
    if ticket is not None:
        values["replica"], values["members"] = ticket.replica, ticket.addresses
    if "members" not in values:
        raise BadValue(
            "members are missing: name every replica and where the others find it, with --member "
            "or in a file; 'creek up' runs a whole cluster on this machine"
        )
    try:
        return msgspec.convert(values, ServerConfig, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path or 'the configuration'}: {error}") from error


def _reject_unknown_keys(values: Mapping[str, Any], path: Path) -> None:
    security = values.get("security")
    for kind, keys, what in (
        (ServerConfig, values, f"key in {path}"),
        (
            SecurityConfig,
            security if isinstance(security, dict) else {},
            f"key of security in {path}",
        ),
    ):
        for key in keys:
            if key not in kind.__struct_fields__:
                raise UnknownName(what, key, kind.__struct_fields__)


def load_datatype(name: str) -> DataType:
    """A ready-made one by its name, TPC-C's, or yours as `package.module:variable`."""
    if ":" not in name:
        if name.startswith("tpcc"):
            return tpcc.populated_datatype(name)
        if name not in datatypes.DATATYPES:
            raise UnknownName("data type", name, (*datatypes.DATATYPES, "package.module:variable"))
        return datatypes.get_datatype(name)
    return import_datatype(name)
