"""Driver of one explored replica: applies inputs one at a time, and releases its effects.

The replica, the release rule and the records are the real ones. A record is volatile until the
input `Sync`. A crash keeps the durable records and any number of the volatile ones, in order. Tasks
run at once. They also complete at once, unless executions are concurrent.

The `Witness` of a replica has the messages and responses that have left it, and its durable votes.
A crash cannot undo these. The properties of the cluster compare the witnesses of all replicas.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, assert_never

import msgspec

from creekdb.checkers.replay import equal_outcomes
from creekdb.driver.release import ReleaseRule
from creekdb.execution.datatype import DataType
from creekdb.execution.result import ExecutionResult
from creekdb.exploration.scope import EARLY_US, Scope, ScriptedCall
from creekdb.exploration.text import message_text
from creekdb.protocol.consensus.fast_quorums import fast_quorum
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.effects import Effects, Response, ResponseKind, Send, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import (
    Accept,
    Accepted,
    Ballot,
    Cast,
    CheckpointRecord,
    FirstVote,
    Heartbeat,
    Message,
    Prepare,
    Progress,
    Promise,
    Promised,
    PullResponse,
    Received,
    Record,
    Summary,
    Vote,
)
from creekdb.protocol.request import Batch, Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.core.replica import Replica
from creekdb.schemes.core.spec import Scheme

SETTINGS: Final = {
    "heartbeat_ticks": 1,
    "suspect_ticks": 1,
    "summary_ticks": 1,
    "retry_ticks": 6,
    "stuck_ticks": 12,
    "noop_ticks": 10,
    "record_orders": 1,
}
"""Settings of every scope: timeouts of a few ticks, so that few steps reach every timeout."""
SUSPICION_TICKS_MAX: Final = 4
"""Ticks within which a suspicion makes a replica start a ballot."""
TASKS_MAX: Final = 1_000
"""Upper bound for the tasks after one input; more indicate an endless loop."""


class PropertyViolated(Exception):
    """A state or a step that a correct protocol cannot reach."""


class Invoke(msgspec.Struct, frozen=True):
    call: int


class Receive(msgspec.Struct, frozen=True):
    sender: int
    message: int
    """Number of the message in the exploration."""


class Tick(msgspec.Struct, frozen=True):
    pass


class Suspect(msgspec.Struct, frozen=True):
    """The replica receives no heartbeat of the leader until it starts a ballot of its own.

    The leader suspects a follower of its fast quorum instead. Meanwhile the replica receives old
    heartbeats of the others, and its own periodic messages are lost. So this is a schedule of the
    real failure detector, in one step.
    """


class Sync(msgspec.Struct, frozen=True):
    """All records become durable."""


class Crash(msgspec.Struct, frozen=True):
    """Crash and restart."""

    kept: int
    """Number of volatile records that reached the disk."""


class Complete(msgspec.Struct, frozen=True):
    """Completion of a running execution."""

    task: int
    """Index among the running tasks."""


Input: TypeAlias = Invoke | Receive | Tick | Suspect | Sync | Crash | Complete


def input_text(item: Input, scope: Scope) -> str:
    match item:
        case Invoke(call=number):
            return f"call {number}, {scope.calls[number]}"
        case Receive(sender=sender):
            return f"receives a message of {sender}"
        case Tick():
            return "ticks"
        case Suspect():
            return "suspects the leader, or a follower of its fast quorum, and starts a ballot"
        case Sync():
            return "its records become durable"
        case Crash(kept=kept):
            return f"crashes, keeps {kept} volatile records, and restarts"
        case Complete(task=task):
            return f"completes execution {task}"
        case _:
            assert_never(item)


class Witness:
    """Outputs that have left one replica, in all its incarnations, and its durable votes."""

    def __init__(self, replica: int = 0) -> None:
        self.replica = replica
        self.requests: dict[Dot, Request] = {}
        """Requests that were sent."""
        self.issued: dict[int, Dot] = {}
        """Request of each call, by the number of the call."""
        self.highest_promise = NO_BALLOT
        self.votes: set[tuple[int, Ballot]] = set()
        """Instances and ballots of votes that were sent or are durable."""
        self.first_votes: set[tuple[int, Ballot, Batch]] = set()
        """Instances, ballots and batches of first votes that were sent or are durable."""
        self.proposals: dict[tuple[int, Ballot], Batch] = {}
        """Batches that were proposed or voted for."""
        self.responses: dict[int, list[Response]] = {}
        """Responses by the number of the call."""

    def on_sent(self, message: Message) -> None:
        match message:
            case Cast(requests=requests) | PullResponse(requests=requests):
                for request in requests:
                    if self.requests.setdefault(request.id, request) != request:
                        raise PropertyViolated(f"two requests have the identifier {request.id}")
            case Prepare(ballot=ballot) | Promise(ballot=ballot):
                self.highest_promise = max(self.highest_promise, ballot)
            case Accept(ballot=ballot, instance=instance, batch=batch):
                self._add_proposal(instance, ballot, batch)
            case FirstVote(ballot=ballot, instance=instance, batch=batch):
                self._check_promised(ballot)
                if ballot.replica == self.replica:
                    self._add_proposal(instance, ballot, batch)
                    self.votes.add((instance, ballot))
                else:
                    self.first_votes.add((instance, ballot, batch))
            case Vote(ballot=ballot, instance=instance):
                self._check_promised(ballot)
                self.votes.add((instance, ballot))
            case _:
                pass

    def on_durable(self, records: Iterable[Record]) -> None:
        """Count votes on disk. A restarted replica repeats them to a new leader."""
        for each in records:
            if isinstance(each, Accepted):
                instance, ballot, batch = each.value
                if each.value.is_first:
                    self.first_votes.add((each.value.true_instance, ballot, batch))
                else:
                    self._add_proposal(instance, ballot, batch)
                    self.votes.add((instance, ballot))

    def _check_promised(self, ballot: Ballot) -> None:
        if ballot < self.highest_promise:
            raise PropertyViolated(
                f"vote in ballot {ballot}, below the promise of {self.highest_promise}"
            )

    def _add_proposal(self, instance: int, ballot: Ballot, batch: Batch) -> None:
        if self.proposals.setdefault((instance, ballot), batch) != batch:
            raise PropertyViolated(
                f"two batches were proposed in instance {instance}, ballot {ballot}"
            )

    def on_response(self, response: Response) -> None:
        # The last call of that identifier: a crash may have lost an earlier one.
        calls = [call for call, id in self.issued.items() if id == response.id]
        self.responses.setdefault(calls[-1], []).append(response)

    def has_stable(self, call: int) -> bool:
        """True if the stable response to the call has left."""
        responses = self.responses.get(call, ())
        return any(each.kind is ResponseKind.STABLE for each in responses)


class ExploredNode:
    def __init__(self, index: int, scope: Scope, scheme: Scheme, datatype: DataType) -> None:
        self.index = index
        self._scope = scope
        self._settings = Settings(
            members=tuple(range(scope.replicas)), **{**SETTINGS, **scope.settings}
        )
        self._scheme = scheme
        self._datatype = datatype
        self.replica: Replica = scheme(index, self._settings, datatype)
        self.witness = Witness(index)
        self.records: list[Record] = []
        self.durable_position = 0
        self.running: list[tuple[Task, ExecutionResult]] = []
        self._rule = ReleaseRule(index, 0)
        self._sent: list[Send] = []
        self.live_calls: set[int] = set()
        """Calls of this incarnation, whose clients wait for responses."""

    @property
    def volatile_count(self) -> int:
        return len(self.records) - self.durable_position

    @property
    def state_roots(self) -> tuple[object, ...]:
        """Objects that determine the reaction to every later input."""
        return (
            self.replica,
            self._rule,
            self.witness,
            self.records,
            self.durable_position,
            self.running,
            self.live_calls,
        )

    def apply(self, step: Input, messages: Sequence[Message]) -> list[Send]:
        """Apply an input and return the messages that leave because of it."""
        match step:
            case Invoke(call=number):
                self._invoke(number, self._scope.calls[number])
            case Receive(sender=sender, message=number):
                self.replica.receive(messages[number], sender, EARLY_US)
                self._process()
            case Tick():
                self.replica.tick(EARLY_US)
                self._process()
            case Suspect():
                self._suspect()
            case Sync():
                self._sync()
            case Crash(kept=kept):
                self._crash(kept)
            case Complete(task=index):
                task, execution = self.running.pop(index)
                self.replica.completed(task, execution, EARLY_US)
                self._process()
        sent, self._sent = self._sent, []
        return sent

    # --- inputs -------------------------------------------------------------------------------

    def _invoke(self, number: int, call: ScriptedCall) -> None:
        operation = self._datatype.call(call.operation, *call.arguments)
        id = self.replica.invoke(operation, call.strong, call.session, call.clock_us)
        if id.event > 0:
            self._rule.record_issue()
        self.witness.issued[number] = id
        self.live_calls.add(number)
        responses = self._process()
        has_tentative = self.replica.guarantees.tentative and not self._scope.concurrent
        if has_tentative and not call.strong and all(each.id != id for each in responses):
            raise PropertyViolated(f"the weak call {id} waits for other replicas")

    def suspected_member(self) -> int | None:
        """Return the member that the replica suspects with the next `Suspect`, or None."""
        leader = self.replica.view.leader()
        if leader != self.index:
            return leader
        if not self._settings.fast_path:
            return None
        quorum = fast_quorum(self._settings.voters, self.own_ballot())
        return quorum[-1] if len(quorum) > 1 else None

    def own_ballot(self) -> Ballot:
        """Return the last ballot that the replica has started."""
        promised = [each.ballot for each in self.records if isinstance(each, Promised)]
        own = [each for each in promised if each.replica == self.index]
        return max(own, default=Ballot(0, self.index))

    def _suspect(self) -> None:
        suspected, ballot = self.suspected_member(), self.own_ballot()
        members = self._settings.members
        heard = [each for each in members if each not in (self.index, suspected)]
        heartbeat = Heartbeat(NO_BALLOT, None, members)
        for _ in range(SUSPICION_TICKS_MAX):
            for peer in heard:
                self.replica.receive(heartbeat, peer, EARLY_US)
            self.replica.tick(EARLY_US)
            self._process(loses_periodic=True)
            if self.own_ballot() != ballot:
                break

    def _sync(self) -> None:
        self._make_durable()
        send, respond, _ = self._rule.release(self.durable_position)
        self._transmit(send, respond)

    def _make_durable(self) -> None:
        self.witness.on_durable(self.records[self.durable_position :])
        self.durable_position = len(self.records)

    def _crash(self, kept: int) -> None:
        del self.records[self.durable_position + kept :]
        self._make_durable()
        checkpoints = [
            position
            for position, each in enumerate(self.records)
            if isinstance(each, CheckpointRecord)
        ]
        self._rule = ReleaseRule(self.index, self.durable_position)
        self.running = []
        self.live_calls = set()
        self.replica = self._scheme(self.index, self._settings, self._datatype)
        self.replica.recover(self.records[checkpoints[-1] if checkpoints else 0 :])
        self._process()

    # --- effects ------------------------------------------------------------------------------

    def _process(self, *, loses_periodic: bool = False) -> list[Response]:
        """Apply the effects of an input and of the tasks that it causes. Return all responses, even
        those that wait for the disk."""
        responses: list[Response] = []
        for _ in range(TASKS_MAX):
            effects = self.replica.take_effects()
            self._apply(effects, loses_periodic)
            responses += effects.respond
            if self._scope.concurrent or not self.running:
                return responses
            task, execution = self.running.pop(0)
            self.replica.completed(task, execution, EARLY_US)
        raise PropertyViolated("the replica does not stop issuing tasks")

    def _apply(self, effects: Effects, loses_periodic: bool) -> None:
        if effects.data_lost is not None:
            raise PropertyViolated(f"data of a working disk is reported as lost: {effects}")
        for response in effects.respond:
            self._check_observed_order(response)
        if loses_periodic:
            send = tuple(each for each in effects.send if not is_periodic(each.message))
            effects = msgspec.structs.replace(effects, send=send)
        self.records += effects.persist
        self._transmit(*self._rule.offer(effects, self.durable_position, False))
        self.running += [(task, self.replica.run(task)) for task in effects.tasks]

    def _transmit(self, send: Iterable[Send], respond: Iterable[Response]) -> None:
        for each in send:
            self._check_durable(each.message)
            self.witness.on_sent(each.message)
            self._sent.append(each)
        for response in respond:
            self.witness.on_response(response)

    # --- properties of one step -----------------------------------------------------------------

    def _check_durable(self, message: Message) -> None:
        """Check that the records are durable which must precede the message."""
        durable = self.records[: self.durable_position]
        if any(isinstance(each, CheckpointRecord) for each in durable):
            return  # it replaces earlier records
        received = {each.request.id for each in durable if isinstance(each, Received)}
        match message:
            case Cast(requests=requests) if any(each.id not in received for each in requests):
                raise PropertyViolated(f"{message_text(message)} leaves before its record")
            case Accept(batch=batch):
                own = [id for id in batch if id.replica == self.index]
                if any(id not in received for id in own):
                    raise PropertyViolated(
                        f"{message_text(message)} leaves before the record of a request of its "
                        "replica, whose event number a crash frees"
                    )
            case Promise(ballot=ballot) | Prepare(ballot=ballot):
                promised = [each.ballot for each in durable if isinstance(each, Promised)]
                if max(promised, default=NO_BALLOT) < ballot:
                    raise PropertyViolated(f"{message_text(message)} leaves before its record")
            case (
                Vote(ballot=ballot, instance=instance) | FirstVote(ballot=ballot, instance=instance)
            ):
                accepted = [each.value for each in durable if isinstance(each, Accepted)]
                if isinstance(message, FirstVote) and ballot.replica != self.index:
                    instance = ~instance
                batches = [each.batch for each in accepted if each[:2] == (instance, ballot)]
                if not batches:
                    raise PropertyViolated(f"{message_text(message)} leaves before its record")
                if any(id not in received for id in batches[0]):
                    raise PropertyViolated(f"{message_text(message)} without the request")
            case _:
                pass

    def _check_observed_order(self, response: Response) -> None:
        """Check that a tentative response is that of a sequential execution of the order that it
        reports, and that this order has the earlier weak calls of the session."""
        if response.kind is not ResponseKind.TENTATIVE or response.observed is None:
            return
        view = self.replica.view
        length = view.committed_length()
        requests = {
            each.id: each
            for each in (
                *view.last_committed(length),
                *view.last_tentative(view.tentative_length()),
            )
        }
        if response.id not in requests:
            return  # a local read, which has no position
        ids = (*view.committed_ids()[: response.observed.settled], *response.observed.ids)
        expected = replay([requests[id] for id in (*ids, response.id)], self._datatype)[-1]
        if not equal_outcomes(response.outcome, expected):
            raise PropertyViolated(
                f"the tentative response to {response.id} is {response.outcome.value!r}, but a "
                f"sequential execution of the observed order gives {expected.value!r}"
            )
        for call in self.live_calls:
            id = self.witness.issued[call]
            earlier = self._scope.calls[call]
            if (
                earlier.session == response.session
                and not earlier.strong
                and 0 < id.event < response.id.event
                and id not in ids
            ):
                raise PropertyViolated(
                    f"the response to {response.id} misses {id}, an earlier call of its session"
                )


def is_periodic(message: Message) -> bool:
    return isinstance(message, Heartbeat | Progress | Summary)


def replay(requests: Iterable[Request], datatype: DataType) -> list[Outcome]:
    """Return the outcomes of a sequential execution."""
    machine = datatype.sequential()
    return [machine.apply(request) for request in requests]
