"""Operations that each replica supports, and the data type that deduplicates calls.

All replicas support the same operations, except during a rolling restart with a module that adds
some. Every replica must execute the calls issued meanwhile. So the dispatcher rejects a call that a
connected peer does not support (`creekdb.server.calls.dispatcher`).

Replicas also compare digests of the code of their operations. A replica reports a peer whose code
differs, because their states may diverge. With `require_equal_operations`, it rejects the calls of
such an operation while the peer is connected.

A data type with SQL also advertises the version of its engine. Another version of SQLite may plan
or evaluate a statement otherwise, so all operations of such a peer count as other code. A replica
rejects their calls while the peer is connected, in any case. Weak read-only calls continue, since
no other replica executes them.

A disconnected peer advertises nothing, so such a call may still reach it. A request with an unknown
operation therefore means that the issuing replica runs another module. This replica cannot compute
the outcome, and stops.
"""

from collections.abc import Iterable
from typing import Any, Final

from creekdb.errors import MissingOperation
from creekdb.execution.datatype import Arity, DataType, DataTypeWrapper
from creekdb.execution.footprint import Footprint
from creekdb.execution.operation_digest import NO_DIGEST, operation_digests
from creekdb.execution.operation_errors import ErrorObserver
from creekdb.execution.parameters import Parameter
from creekdb.execution.result import ExecutionResult
from creekdb.execution.serializable import describe_unserializable
from creekdb.execution.transaction import View
from creekdb.protocol.request import Operation, Request
from creekdb.wire.batches import BATCH, is_batch
from creekdb.wire.deduplication import (
    INTERNAL_PREFIX,
    describe_call,
    find_footprint,
    run_request,
    unwrap_call,
)
from creekdb.wire.messages import (
    BATCH_FEATURE,
    BUILD_PREFIX,
    HELLO_FRAME_BYTES_MAX,
    STAGING_FEATURE,
    OperationArity,
    OperationSignature,
)
from creekdb.wire.staging import STAGING_OPERATIONS, find_staging_footprint, run_staging


class DeduplicatingDataType(DataTypeWrapper):
    """Data type whose operations can also be called with a client name and call number.

    Raises `MissingOperation` for a request that this replica's module cannot execute.
    """

    def __init__(self, datatype: DataType, error_observer: ErrorObserver | None = None) -> None:
        super().__init__(datatype)
        self.error_observer = error_observer
        self._run_as = self.run_as

    def run(self, request: Request, view: View) -> ExecutionResult:
        if request.operation.name in STAGING_OPERATIONS:
            execution = run_staging(self, request, view)
        else:
            execution = run_request(self._run_as, request, view)
        if execution.outcome.error is not None:
            self._raise_if_unknown(request)
        return execution

    def run_rows(
        self,
        request: Request,
        name: str,
        leading: tuple[Any, ...],
        rows: tuple[tuple[Any, ...], ...],
        view: View,
    ) -> ExecutionResult:
        for length in sorted(set(map(len, rows))):
            if not self.can_run(name, len(leading) + length):
                row = next(row for row in rows if len(row) == length)
                self._raise_if_missing(request, Operation(name, leading + row))
        return super().run_rows(request, name, leading, rows, view)

    def called_operation(self, operation: Operation) -> Operation:
        return unwrap_call(operation)

    def footprint(self, operation: Operation) -> Footprint | None:
        if operation.name in STAGING_OPERATIONS:
            return find_staging_footprint(operation)
        return find_footprint(super().footprint, operation)

    def _raise_if_unknown(self, request: Request) -> None:
        operation = unwrap_call(request.operation)
        if operation.name == BATCH and is_batch(operation.arguments):
            for name, arguments in operation.arguments:
                self._raise_if_missing(request, Operation(name, arguments))
        else:
            self._raise_if_missing(request, operation)

    def _raise_if_missing(self, request: Request, operation: Operation) -> None:
        if operation.name.startswith(INTERNAL_PREFIX):
            return
        if not self.can_run(operation.name, len(operation.arguments)):
            raise MissingOperation(
                f"cannot execute {describe_call(operation)}, issued by replica "
                f"{request.id.replica}: "
                f"'{self.name}' has no such operation on this replica; restart it with "
                f"the module that replica {request.id.replica} used, no data is lost"
            )


def operation_signatures(datatype: DataType) -> tuple[OperationSignature, ...]:
    """Return the signatures that a client receives."""
    return tuple(
        (name, datatype.signature(name), tuple(map(_sendable, datatype.parameters(name))))
        for name in datatype.operations
    )


def _sendable(parameter: Parameter) -> Parameter:
    """Return the parameter. It is required if its default cannot be sent to a client."""
    if describe_unserializable(parameter.default) is None:
        return parameter
    return parameter._replace(is_required=True, default=None)


ENGINE_PREFIX: Final = f"{INTERNAL_PREFIX}engine "
"""Start of the advertised name of the SQL engine, which is no operation."""
ADVERTISED_BYTES_MAX: Final = HELLO_FRAME_BYTES_MAX // 2
"""Upper bound for the advertised operations in a hello, in bytes. A replica with more operations
advertises none."""


class Capabilities:
    """Operations of this replica, and the differences that its peers have advertised."""

    def __init__(self, datatype: DataType, *, require_equal_operations: bool = False) -> None:
        self.datatype = datatype
        self._require_equal_operations = require_equal_operations
        self._digests = operation_digests(datatype)
        self._own = {name: datatype.arity(name) for name in datatype.operations}
        engine = datatype.sql_engine
        self._engine = None if engine is None else f"{ENGINE_PREFIX}{engine.version}"
        self.peers_without: dict[str, set[int]] = {
            feature: set() for feature in (BATCH_FEATURE, STAGING_FEATURE)
        }
        """Per feature that clients may use, the peers that lack it."""
        self._features: dict[int, frozenset[str]] = {}
        """Features by replica, as it advertised them last."""
        self.missing_by_peer: dict[int, dict[str, Arity | None]] = {}
        """Per peer, the operations of this replica that the peer does not support, or supports with
        other numbers of arguments (its arity). Peers with all operations have no entry."""
        self.other_engines: dict[int, str] = {}
        """Per peer with another SQL engine, the version of it."""
        self.differing_by_peer: dict[int, tuple[str, ...]] = {}
        """Per peer, the operations whose code or SQL engine differs. Other peers have no entry."""

    def advertisement(self) -> tuple[OperationArity, ...]:
        """Return the operations that the hello to other replicas lists."""
        if sum(len(name.encode()) + 16 for name in self._own) > ADVERTISED_BYTES_MAX:
            return ()
        advertised = [(name, *arity) for name, arity in self._own.items()]
        if self._engine is not None:
            advertised.append((self._engine, 0, 0))
        return tuple(advertised)

    def code_digests(self) -> tuple[bytes, ...]:
        """Return the digests of the code of the advertised operations."""
        return tuple([self._digests.get(name, NO_DIGEST) for name, *_ in self.advertisement()])

    def record_features(self, replica: int, features: Iterable[str]) -> None:
        self._features[replica] = frozenset(features)

    def build_of(self, replica: int) -> str | None:
        """Return the kind of build that a replica has advertised, or None."""
        for feature in self._features.get(replica, ()):
            if feature.startswith(BUILD_PREFIX):
                return feature.removeprefix(BUILD_PREFIX)
        return None

    def is_supported(self, feature: str, replicas: Iterable[int]) -> bool:
        """True if all these replicas have advertised the feature. An unknown replica has not."""
        return all(feature in self._features.get(each, ()) for each in replicas)

    def record_peer(
        self,
        replica: int,
        operations: Iterable[OperationArity],
        features: Iterable[str] = (),
        code_digests: Iterable[bytes] = (),
    ) -> None:
        """Record the operations of a peer. A peer that lists none is assumed to support all."""
        features = frozenset(features)
        self.record_features(replica, features)
        for feature, lacking in self.peers_without.items():
            if feature in features:
                lacking.discard(replica)
            else:
                lacking.add(replica)
        operations = tuple(operations)
        theirs = {name: Arity(minimum, maximum) for name, minimum, maximum in operations}
        missing = {
            name: theirs.get(name)
            for name, arity in self._own.items()
            if theirs and not (name in theirs and theirs[name].covers(arity))
        }
        self.other_engines.pop(replica, None)
        if theirs and self._engine is not None and self._engine not in theirs:
            versions = [each for each in theirs if each.startswith(ENGINE_PREFIX)]
            version = versions[0].removeprefix(ENGINE_PREFIX) if versions else "no SQL engine"
            self.other_engines[replica] = version
        self._record_code(replica, [name for name, *_ in operations], tuple(code_digests))
        self.missing_by_peer.pop(replica, None)
        if missing:
            self.missing_by_peer[replica] = missing

    def _record_code(self, replica: int, names: list[str], code_digests: tuple[bytes, ...]) -> None:
        """Record the operations whose code is known here and at the peer, and differs."""
        theirs = dict(zip(names, code_digests, strict=False))
        differing = tuple(
            name
            for name, digest in self._digests.items()
            if digest and theirs.get(name, NO_DIGEST) not in (digest, NO_DIGEST)
        )
        if replica in self.other_engines:
            differing = tuple(self._own)
        self.differing_by_peer.pop(replica, None)
        if differing:
            self.differing_by_peer[replica] = differing

    def find_differing(self, name: str, connected: Iterable[int]) -> int | None:
        """Return a connected replica with other code for an operation whose calls require equal
        code."""
        for replica in connected:
            if not self._require_equal_operations and replica not in self.other_engines:
                continue
            if name in self.differing_by_peer.get(replica, ()):
                return replica
        return None

    def describe_engines(self, replica: int) -> str | None:
        """Return the difference between the SQL engines, or None if the peer has the same."""
        if replica not in self.other_engines or self._engine is None:
            return None
        own = self._engine.removeprefix(ENGINE_PREFIX)
        return f"it runs {self.other_engines[replica]}, and this replica {own}"

    def find_incapable(self, name: str, count: int, connected: Iterable[int]) -> int | None:
        """Return a connected replica that cannot run the operation with `count` arguments."""
        for replica in connected:
            missing = self.missing_by_peer.get(replica, {})
            if name in missing:
                arity = missing[name]
                if arity is None or not arity.accepts(count):
                    return replica
        return None
