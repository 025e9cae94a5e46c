"""Configuration of a replica, and the data type that it names.

The configuration is a TOML file. Environment variables and options override its keys. A data type
of one's own is named by its import path, `package.module:variable`.

    cluster = "shop"
    replica = 0
    datatype = "shop.stock:shop"        # import path of the data type
    data = "data/0"
    clients = "127.0.0.1:7100"          # address for clients
    http = "127.0.0.1:7300"             # address for HTTP; without it, HTTP is off

    [members]                           # addresses for the other replicas
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
from creekdb.errors import DECODE_ERRORS, BadValue, UnknownName, UsageError
from creekdb.execution.datatype import DataType
from creekdb.execution.module_loader import import_user_module
from creekdb.protocol.extensions import extension_switches, parse_extensions
from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.request import NOOP
from creekdb.protocol.settings import Settings
from creekdb.server.changes.retention import (
    DEFAULT_BYTES_MAX,
    KEPT_BYTES_MIN,
    Retention,
    parse_duration_s,
)
from creekdb.server.membership.join_ticket import read_ticket
from creekdb.server.observability.divergence import DIGEST_INTERVAL_REQUESTS
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
            f"data type {name}: '{variable}' is a {kind}, not a "
            f"creekdb.DataType{_available_datatypes(module)}"
        )
    if datatype.operations == (NOOP.name,):
        remedy = f"declare some with @{variable}.operation"
        raise UsageError(f"data type {name} has no operations; {remedy}")
    return datatype


def _available_datatypes(module: ModuleType) -> str:
    """Return a list of the module's data types, for an error message."""
    variables = [name for name, value in vars(module).items() if isinstance(value, DataType)]
    names = [f"{module.__name__}:{name}" for name in variables]
    return f"; available: {', '.join(names)}" if names else ""


DEFAULT_DATA_DIR: Final = "creek-data"
DEFAULT_EXTENSIONS: Final = "all"
ENVIRONMENT_PREFIX: Final = "CREEK_"
"""Prefix of environment variables. CREEK_DATA sets `data`."""
NOOP_TICKS: Final = 5
"""Upper bound for the time a weak request stays unstable, in ticks. One turn of the loop handles
all requests that become stable together, so there should be few of them."""
CONSENSUS_WINDOW: Final = 8
"""Concurrent consensus instances. With fewer, each instance decides more at the same cost."""
INLINE_TASKS_MAX: Final = 1
"""Tasks that are handed out before the first of them completes. Tasks run one by one, and a late
choice is better: a request that must be executed earlier may have arrived meanwhile."""
THREAD_TASKS_MAX: Final = 64
"""As `INLINE_TASKS_MAX`, for a thread, which should not wait for the loop between two tasks."""
WILDCARD_HOSTS: Final = ("0.0.0.0", "::")
"""Hosts that a server can listen on and no client can connect to."""


class SecurityConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files of certificates and keys. Replicas authenticate by certificate, clients by token."""

    authority: str = ""
    """File of the certificate authority that is trusted."""
    certificate: str = ""
    """File of the certificate that this replica presents to peers and clients."""
    key: str = ""
    """File of the private key of the certificate."""
    tokens: dict[str, str] = {}
    """Tokens of the clients that may call, by client name."""
    admins: tuple[str, ...] = ()
    """Names of the tokens that may also change members and take backups. Empty: all tokens."""
    plain: bool = False
    """Allow unencrypted connections from other machines."""


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keys of the configuration.

    An option of `creek serve` or an environment variable (`CREEK_DATA` for `data`) can set each
    key, except `members` and `security`, which only the file sets.
    """

    cluster: str = "creek"
    """Name of the cluster. Replicas of other clusters are rejected."""
    replica: int = 0
    """Number of this replica among the members."""
    members: dict[int, str]
    """Address of every replica for its peers, by number."""
    clients: str = "127.0.0.1:0"
    """Address for clients. Port 0 selects a free port."""
    datatype: str = "kv"
    """Replicated data type: a built-in name, or an import path `package.module:variable`."""
    require_equal_operations: bool = False
    """Reject the calls of an operation while a connected replica has other code for it. Without
    this, different code is reported only (`creekdb.execution.operation_digest`)."""
    scheme: str = "creek"
    """Replication scheme, identical on all replicas."""
    data: str = DEFAULT_DATA_DIR
    """Data directory for the journal."""
    durability: Literal["disk", "memory"] = "disk"
    """Storage that a tentative response waits for. A stable response always waits for the disks of
    a majority. With `memory`, a crash may undo weak calls that already had a response."""
    io_uring: bool = True
    """Write the journal with io_uring where Linux supports it. Otherwise a thread writes, and calls
    take somewhat longer."""
    tick_ms: int = 20
    """Interval between two ticks, which drive timeouts and retransmission, in milliseconds."""
    checkpoint_every: int = 20_000
    """Number of requests between two checkpoints, which shorten the journal."""
    extensions: str = DEFAULT_EXTENSIONS
    """Extensions of the protocol beyond the paper, separated by commas, or `all`, or `none`
    (`creekdb.protocol.extensions`). All replicas should have the same."""
    execution: Literal["inline", "threads"] = "inline"
    """Executor of operations: inline on the loop, or in a thread of their own."""
    operation_limit: float = 5.0
    """Duration after which a running operation is reported, in seconds."""
    busy_after: float = 2.0
    """Longest acceptable waiting time of a call, in seconds. Calls that would wait longer because
    of an overload are rejected with `busy` (`creekdb.server.calls.admission_control.CallQueue`)."""
    strong_max: int = 10_000
    """Upper bound for the strong calls of clients that await a stable response."""
    forget_after: float = 86_400.0
    """Retention time of a call for deduplication, in seconds. A retry after that is executed again.
    No settable clock measures this time, and an absent member prolongs it sevenfold, since it may
    hold the call as well (`creekdb.server.calls.expiry`)."""
    keep_changes: str = "0"
    """Retention time of the change feed, such as `24h`, `30m` or `7d`. `0`: there is no feed."""
    keep_changes_bytes: int = DEFAULT_BYTES_MAX
    """Upper bound for the size of the change feed on disk, in bytes. It shortens the retention."""
    before_images: bool = False
    """Also keep the value of each written register before the change."""
    fresh: bool = False
    """Start without the state of all members. Only for a cluster that has never run."""
    record: str = ""
    """Directory for a recording. `creek gather` turns recordings into a run."""
    record_orders: bool = False
    """Also record the order behind each tentative response. Slow, intended for tests."""
    log: Literal["text", "json"] = "text"
    """Format of the log on standard error: text for people, JSON for programs."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level of logged events."""
    http: str = ""
    """Address for HTTP. Empty: HTTP is off."""
    security: SecurityConfig = SecurityConfig()
    """Encryption and access control."""

    def __post_init__(self) -> None:
        if not self.members:
            raise BadValue("members is empty: list every replica with its address")
        if self.replica not in self.members:
            known = ", ".join(map(str, sorted(self.members)))
            raise BadValue(f"replica is {self.replica}, which is not a member; members are {known}")
        if self.record_orders and not self.record:
            raise BadValue("record_orders requires record: set the directory of the recording")
        for name in ("operation_limit", "busy_after", "forget_after", "strong_max"):
            if not getattr(self, name) > 0:
                raise BadValue(f"{name} is {getattr(self, name)}: it must be above 0")
        parse_extensions(self.extensions)
        if self.keep_changes_bytes < KEPT_BYTES_MIN:
            raise BadValue(
                f"keep_changes_bytes is {self.keep_changes_bytes}: it must be at least "
                f"{KEPT_BYTES_MIN}"
            )
        if self.before_images and not self.keeps_changes:
            raise BadValue("before_images requires keep_changes: set the retention, such as 24h")
        if self.tick_ms < 1:
            raise BadValue(f"tick_ms is {self.tick_ms}: it must be at least 1")
        secured = (self.security.authority, self.security.certificate, self.security.key)
        if any(secured) and not all(secured):
            raise BadValue(
                "security is incomplete: set all of authority, certificate and key, or none"
            )
        _check_tokens(self.security)
        for address in filter(None, (*self.members.values(), self.clients, self.http)):
            host, _ = parse_address(address)
            if not (all(secured) or self.security.plain or is_loopback(host)):
                raise BadValue(
                    f"{address} is reachable from other machines without encryption: set "
                    "security.authority, certificate and key ('creek certs' creates them), or "
                    "security.plain = true"
                )

    @property
    def is_secured(self) -> bool:
        return bool(self.security.authority)

    @property
    def keeps_changes(self) -> bool:
        return self.change_retention.seconds > 0

    @property
    def change_retention(self) -> Retention:
        seconds = parse_duration_s("keep_changes", self.keep_changes)
        return Retention(seconds, self.keep_changes_bytes)

    @property
    def client_address(self) -> str:
        """Address for clients as advertised to others. Empty if the port is chosen at startup."""
        return self._advertised_address(self.clients)

    @property
    def page_url(self) -> str:
        """URL of the page as advertised to others."""
        address = self._advertised_address(self.http) if self.http else ""
        return address and f"{'https' if self.is_secured else 'http'}://{address}"

    def _advertised_address(self, address: str) -> str:
        host, port = parse_address(address)
        if not port:
            return ""
        if host in WILDCARD_HOSTS:
            host, _ = self.peers[self.replica]
        return format_address(host, port)

    def protocol_settings(self, configuration: Configuration) -> Settings:
        """Return the settings. `configuration` holds the members that the replica starts with."""
        return Settings(
            members=configuration.replica_ids,
            checkpoint_every=self.checkpoint_every,
            emit_events=int(bool(self.record)),
            record_orders=int(self.record_orders),
            digest_every=DIGEST_INTERVAL_REQUESTS,
            report_changes=(1 + self.before_images) if self.keeps_changes else 0,
            drafts=1,
            noop_ticks=NOOP_TICKS,
            window=CONSENSUS_WINDOW,
            parallelism=INLINE_TASKS_MAX if self.execution == "inline" else THREAD_TASKS_MAX,
            begin_anew=int(not self.fresh),
            **extension_switches(self.extensions),
        ).with_configuration(configuration)

    @property
    def peers(self) -> dict[int, tuple[str, int]]:
        return {replica: parse_address(text) for replica, text in sorted(self.members.items())}


def _check_tokens(security: SecurityConfig) -> None:
    owners: dict[str, str] = {}
    for name, token in security.tokens.items():
        if not token:
            raise BadValue(f"security.tokens: the token of {name} is empty, which admits everyone")
        if token in owners:
            raise BadValue(f"security.tokens: {owners[token]} and {name} have the same token")
        owners[token] = name
    for name in security.admins:
        if name not in security.tokens:
            raise BadValue(f"security.admins: {name} has no token")


def read_config(
    path: Path | None, overrides: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> ServerConfig:
    """Return the configuration from the file, the environment and `overrides`, in this order.

    Later sources take precedence. An error names the first invalid key.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error
        except DECODE_ERRORS as error:
            raise UsageError(f"{path}: {error}") from error
        _reject_unknown_keys(values, path)
    for name in ServerConfig.__struct_fields__:
        text = environment.get(ENVIRONMENT_PREFIX + name.upper())
        if text is not None and name not in ("members", "security"):
            values[name] = text
    values.update({name: value for name, value in overrides.items() if value is not None})
    data = values.get("data", DEFAULT_DATA_DIR)
    ticket = read_ticket(Path(data)) if isinstance(data, str) else None
    if ticket is not None:
        values["replica"], values["members"] = ticket.replica, ticket.addresses
    if "members" not in values:
        raise BadValue(
            "members are missing: set the address of every replica with --member or in a file; "
            "'creek up' runs a whole cluster on this machine"
        )
    try:
        return msgspec.convert(values, ServerConfig, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path or 'the configuration'}: {error}") from error


def _reject_unknown_keys(values: Mapping[str, Any], path: Path) -> None:
    for config_type, keys, description in (
        (ServerConfig, values, f"key in {path}"),
        (SecurityConfig, values.get("security"), f"key of security in {path}"),
    ):
        for key in keys if isinstance(keys, Mapping) else ():
            if key not in config_type.__struct_fields__:
                raise UnknownName(description, key, config_type.__struct_fields__)


def load_datatype(name: str) -> DataType:
    """Return a built-in data type by name, one of TPC-C, or one by its import path."""
    if ":" not in name:
        if name.startswith("tpcc"):
            return tpcc.populated_datatype(name)
        if name not in datatypes.DATATYPES and name != "sql":  # whose package may be missing
            raise UnknownName("data type", name, (*datatypes.DATATYPES, "package.module:variable"))
        return datatypes.get_datatype(name)
    return import_datatype(name)
