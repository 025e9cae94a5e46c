"""Observations of clients and replicas: the record schema, and run directories that store it.

Consumers of a run import these names from here, and need no other module of a replica.
"""

from creekdb.history.recording_merge import LIVE_SOURCE, merge_recordings
from creekdb.history.records import (
    MEMBERSHIP_OPERATION,
    NOOP,
    ROUNDS_PER_EPOCH,
    AcceptedValue,
    Ballot,
    BallotPromised,
    Batch,
    CabDelivered,
    CheckpointInstalled,
    Committed,
    Configuration,
    Dot,
    Dots,
    Event,
    FinalState,
    History,
    Key,
    LoggedEvent,
    ObservedOrder,
    Operation,
    OperationRecord,
    Outcome,
    RbCast,
    RbDelivered,
    ReplicaLog,
    Request,
    ResponseKind,
    ResponseRecord,
    SchemeGuarantees,
    SpeculativelyExecuted,
    Voted,
)
from creekdb.history.run_directory import (
    SCHEMA_VERSION,
    load_run,
    load_run_config,
    save_run,
    save_verdicts,
)
