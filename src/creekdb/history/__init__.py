"""Observations of clients and replicas: the record schema, and run directories that store it.

Consumers of a run import these names from here, and need no other module of a replica.
"""

from creekdb.history.recording_merge import LIVE_SOURCE as LIVE_SOURCE
from creekdb.history.recording_merge import merge_recordings as merge_recordings
from creekdb.history.records import BallotPromised as BallotPromised
from creekdb.history.records import CabDelivered as CabDelivered
from creekdb.history.records import CheckpointInstalled as CheckpointInstalled
from creekdb.history.records import Committed as Committed
from creekdb.history.records import Dot as Dot
from creekdb.history.records import Event as Event
from creekdb.history.records import FinalState as FinalState
from creekdb.history.records import FirstVoted as FirstVoted
from creekdb.history.records import History as History
from creekdb.history.records import Key as Key
from creekdb.history.records import LoggedEvent as LoggedEvent
from creekdb.history.records import ObservedOrder as ObservedOrder
from creekdb.history.records import Operation as Operation
from creekdb.history.records import OperationRecord as OperationRecord
from creekdb.history.records import Outcome as Outcome
from creekdb.history.records import RbCast as RbCast
from creekdb.history.records import RbDelivered as RbDelivered
from creekdb.history.records import ReplicaLog as ReplicaLog
from creekdb.history.records import ResponseKind as ResponseKind
from creekdb.history.records import ResponseRecord as ResponseRecord
from creekdb.history.records import SchemeGuarantees as SchemeGuarantees
from creekdb.history.records import SpeculativelyExecuted as SpeculativelyExecuted
from creekdb.history.records import Voted as Voted
from creekdb.history.run_directory import SCHEMA_VERSION as SCHEMA_VERSION
from creekdb.history.run_directory import load_run as load_run
from creekdb.history.run_directory import load_run_config as load_run_config
from creekdb.history.run_directory import save_run as save_run
from creekdb.history.run_directory import save_verdicts as save_verdicts
from creekdb.protocol.ids.version_vector import Dots as Dots
from creekdb.protocol.membership.configuration import MEMBERSHIP_OPERATION as MEMBERSHIP_OPERATION
from creekdb.protocol.membership.configuration import Configuration as Configuration
from creekdb.protocol.messages import AcceptedValue as AcceptedValue
from creekdb.protocol.messages import Ballot as Ballot
from creekdb.protocol.request import NOOP as NOOP
from creekdb.protocol.request import Batch as Batch
from creekdb.protocol.request import Request as Request
from creekdb.protocol.settings import ROUNDS_PER_EPOCH as ROUNDS_PER_EPOCH
