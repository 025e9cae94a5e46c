"""Driver of one replica: durability barrier before effects, crashes, restarts."""

from creekdb.protocol.checkpoint.stream import (
    StreamedCheckpoint,
    StreamedSnapshot,
    lazy_checkpoint_of,
)
from creekdb.protocol.effects import Effects, Response, ResponseKind, Send
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import (
    Ballot,
    Checkpoint,
    CheckpointRecord,
    Message,
    Progress,
    Received,
    Record,
    Snapshot,
    encode,
)
from creekdb.protocol.request import NOOP, Operation, Outcome
from creekdb.simulation.kernel.node import Node
from creekdb.simulation.kernel.scenario import Scenario
from creekdb.simulation.kernel.simulated_time import EPOCH_US, EventHeap
from creekdb.simulation.models.network import Network
from creekdb.simulation.models.parameters import CpuModel, DiskModel, NetworkModel
from creekdb.simulation.observation.recorder import HistoryRecorder
from creekdb.simulation.observation.samples import ReplicaCounters
from creekdb.simulation.observation.trace import TraceHash
from tests.unit.simulation.toy_replica import ToyReplica, request


class ScriptedReplica(ToyReplica):
    """Replica that emits the next scripted batch of effects at each tick."""

    def __init__(self, batches: list[Effects]) -> None:
        super().__init__(0, 2)
        self._batches = batches

    def tick(self, now: int) -> None:
        self.ticks += 1

    def take_effects(self) -> Effects:
        return self._batches.pop(0) if self.ticks and self._batches else super().take_effects()


class NodeHarness:
    """Node 0, whose messages to node 1 arrive at once and are recorded."""

    def __init__(
        self,
        fsync_us: int,
        batches: list[Effects] | None = None,
        turn_us: int = 0,
        responds_before_durable: bool = False,
    ) -> None:
        self.heap = EventHeap()
        self.arrived: list[tuple[int, int]] = []
        self.responded: list[tuple[int, int]] = []
        self.counters = ReplicaCounters()
        self.recorder = HistoryRecorder(self.heap, 2)
        model = NetworkModel(
            latency_us_min=0, latency_us_max=0, bandwidth_bps=10**15, crash_loss=0.0
        )
        self.network = Network(self.heap, model, 2, 0, self._deliver)
        self.created: list[ToyReplica] = []
        self._batches = batches
        self.node = Node(
            0,
            Scenario(
                cpu=CpuModel(cores=1, execution_us=10, access_us=0),
                disk=DiskModel(fsync_us_min=fsync_us, fsync_us_max=fsync_us),
                turn_us=turn_us,
                durability="memory" if responds_before_durable else "disk",
            ),
            heap=self.heap,
            make_replica=self._make_replica,
            network=self.network,
            recorder=self.recorder,
            trace=TraceHash(),
            counters=self.counters,
            on_issued=lambda session, id: None,
            on_response=self._respond,
        )
        self.node.start()

    def at(self, at_us: int, action: str) -> None:
        self.heap.schedule_at(at_us, getattr(self.node, action))

    def invoke_at(self, at_us: int) -> None:
        self.heap.schedule_at(at_us, self.node.invoke, Operation("increment"), False, 1)

    def _make_replica(self, index: int) -> ToyReplica:
        replica = ToyReplica(index, 2) if self._batches is None else ScriptedReplica(self._batches)
        self.created.append(replica)
        return replica

    def _deliver(self, receiver: int, sender: int, data: bytes, message: Message | None) -> None:
        self.arrived.append((self.heap.now_us, len(data)))

    def _respond(self, response: Response) -> None:
        self.responded.append((self.heap.now_us, response.id.event))


def batch(record: int = 0, message: int = 0, response: int = 0) -> Effects:
    """Return a batch that writes, sends and responds; 0 omits a part, other numbers identify it."""
    persist: tuple[Record, ...] = (Received(request(record)),) if record else ()
    # The size encodes the number, since only bytes arrive.
    send = (Send((1,), Progress(1 << message)),) if message else ()
    respond = (
        (Response(Dot(0, response), 1, ResponseKind.TENTATIVE, Outcome()),) if response else ()
    )
    return Effects(persist=persist, send=send, respond=respond)


def test_effects_without_records_are_released_at_once() -> None:
    harness = NodeHarness(100, [batch(message=1, response=1)])
    harness.at(5, "tick")
    harness.heap.run()
    assert [at_us for at_us, _ in harness.arrived] == [5]
    assert harness.responded == [(5, 1)]


def test_sends_and_responses_wait_for_the_records_of_their_batch() -> None:
    harness = NodeHarness(100, [batch(record=1, message=1, response=1)])
    harness.at(5, "tick")
    harness.heap.run()
    assert [at_us for at_us, _ in harness.arrived] == [105]
    assert harness.responded == [(105, 1)]


def test_a_batch_without_records_waits_for_the_records_of_earlier_batches() -> None:
    batches = [batch(record=1, response=1), batch(response=2), batch(record=3, response=3)]
    harness = NodeHarness(100, [*batches, batch(response=4)])
    for at_us in (0, 10, 20, 30):
        harness.at(at_us, "tick")
    harness.heap.run()
    # The first fsync covers record 1 only. Record 3 and response 4 wait for the next one.
    assert harness.responded == [(100, 1), (100, 2), (200, 3), (200, 4)]


def test_effects_do_not_wait_for_a_streamed_checkpoint_at_its_reserved_position() -> None:
    bare, registers = lazy_checkpoint_of(Checkpoint(0, 0, Dots(), 0, (("a", 1),), ()))
    stream = StreamedCheckpoint(1, CheckpointRecord(bare, Ballot(0, 0), (), (), ()), registers)
    before, after = Received(request(1)), Received(request(2))
    effects = Effects(
        persist=(before, after), respond=batch(response=1).respond, checkpoints=(stream,)
    )
    harness = NodeHarness(100, [effects])
    harness.at(0, "tick")
    harness.heap.schedule_at(250, lambda: records_at_250.append(harness.node.disk.read()))
    records_at_250: list[list[Record]] = []
    harness.heap.run()
    assert harness.responded == [(200, 1)]
    assert records_at_250 == [[before, after]]
    checkpoint, *rest = harness.node.disk.read()
    assert isinstance(checkpoint, CheckpointRecord)
    assert (checkpoint.checkpoint.state, rest) == ((("a", 1),), [after])


def test_a_streamed_snapshot_is_sent_once_earlier_records_are_durable() -> None:
    bare, registers = lazy_checkpoint_of(Checkpoint(0, 0, Dots(), 0, (("a", 1),), ()))
    stream = StreamedSnapshot(1, Snapshot(bare), registers)
    harness = NodeHarness(10**6, [Effects(persist=(Received(request(1)),), snapshots=(stream,))])
    harness.at(0, "tick")
    harness.heap.run()
    assert [at_us for at_us, _ in harness.arrived] == [10**6]


def test_effects_are_released_at_once_with_a_disk_without_latency() -> None:
    harness = NodeHarness(0, [batch(record=1, response=1)])
    harness.at(5, "tick")
    harness.heap.run()
    assert harness.responded == [(5, 1)]


def test_inputs_of_one_turn_have_their_effects_taken_together() -> None:
    harness = NodeHarness(100, [batch(record=1, response=1), batch(response=2)], turn_us=20)
    for at_us in (0, 10, 30):
        harness.at(at_us, "tick")
    harness.heap.run()
    assert harness.responded == [(120, 1), (120, 2)], "turns end after 20 and 50 us"


def test_a_crash_loses_the_effects_of_the_current_turn() -> None:
    harness = NodeHarness(0, [batch(record=1, response=1)], turn_us=20)
    harness.at(0, "tick")
    harness.at(10, "crash")
    harness.heap.run()
    assert harness.responded == []
    assert harness.node.disk.read() == []


def test_a_crash_drops_deferred_effects_and_running_tasks() -> None:
    harness = NodeHarness(100)
    harness.invoke_at(0)
    harness.at(5, "crash")
    harness.heap.run()
    assert harness.arrived == []
    assert harness.responded == []
    assert harness.node.replica is None


def test_a_restart_recovers_exactly_the_durable_records() -> None:
    harness = NodeHarness(100)
    harness.invoke_at(0)
    harness.at(250, "crash")
    harness.at(300, "start")
    harness.invoke_at(400)
    harness.heap.run()
    first, second = harness.created
    assert first is not second
    assert [type(record) for record in second.recovered] == [Received]
    assert harness.node.incarnation == 1
    assert harness.responded == [(100, 1), (500, 2)], (
        "event numbers continue after the last durable record"
    )


def test_a_crashed_node_ignores_messages_and_ticks() -> None:
    harness = NodeHarness(0)
    harness.at(1, "crash")
    harness.at(2, "tick")
    harness.heap.schedule_at(3, harness.node.receive, 1, encode(Progress(1)), None)
    harness.heap.run()
    assert harness.created[0].ticks == 0
    assert harness.created[0].received_messages == []


def test_malformed_messages_never_reach_the_replica() -> None:
    harness = NodeHarness(0)
    harness.node.receive(1, b"\xc1", None)
    harness.node.receive(1, encode(Progress(4)), None)
    assert harness.counters.malformed == 1
    assert harness.created[0].received_messages == [(Progress(4), 1)]


def test_each_incarnation_has_its_own_log_and_operations() -> None:
    harness = NodeHarness(100)
    harness.invoke_at(0)  # lost or durable, but never visible
    harness.at(5, "crash")
    harness.at(10, "start")
    harness.invoke_at(20)
    harness.heap.run()
    history = harness.recorder.history({}, "toy", False, [])
    assert [(log.incarnation, log.started_us, log.crashed_us) for log in history.logs] == [
        (0, 0, 5),
        (1, 10, None),
    ]
    assert [(each.incarnation, len(each.responses)) for each in history.operations] == [
        (0, 0),
        (1, 1),
    ]


def test_a_node_reports_its_pending_work() -> None:
    harness = NodeHarness(100)
    assert harness.node.pending_work() is None
    harness.node.invoke(NOOP, False, 1)
    assert harness.node.pending_work() == "is executing"
    harness.heap.schedule_at(50, lambda: states.append(harness.node.pending_work()))
    states: list[str | None] = []
    harness.heap.run()
    assert states == ["waits for its disk"]
    assert harness.node.pending_work() is None
    harness.node.crash()
    assert harness.node.pending_work() == "is down"


def test_an_unmatched_response_is_counted_and_not_recorded() -> None:
    harness = NodeHarness(0, [batch(response=9)])
    harness.node.tick()
    assert harness.recorder.unmatched_responses == 1
    assert harness.recorder.history({}, "toy", True, []).operations == ()


def test_a_replica_whose_disk_fails_drops_messages_and_ticks_until_it_recovers() -> None:
    batches = [batch(record=1, message=1, response=1), batch(message=2)]
    harness = NodeHarness(100, batches)
    disk = harness.node.disk
    disk.failing = 1
    harness.at(0, "tick")
    harness.at(150, "tick")
    harness.heap.schedule_at(160, harness.node.receive, 1, encode(Progress(4)), None)
    harness.heap.schedule_at(300, setattr, disk, "failing", 0)
    harness.heap.run()
    replica = harness.created[0]
    assert (replica.ticks, replica.received_messages) == (1, [])
    assert harness.responded == [(2_200, 1)], "the write is repeated after 2 ms"
    assert not disk.has_fault


def test_a_replica_whose_disk_fails_responds_to_reads_only() -> None:
    read = Response(Dot(0, -1), 1, ResponseKind.TENTATIVE, Outcome())
    written = batch(record=1, response=1)
    effects = Effects(persist=written.persist, respond=(*written.respond, read))
    harness = NodeHarness(100, [effects])
    harness.node.disk.failing = 1
    harness.at(0, "tick")
    accepted: list[bool] = []
    harness.heap.schedule_at(
        150, lambda: accepted.append(harness.node.can_accept(Operation("increment"), False))
    )
    harness.heap.schedule_at(200, harness.node.crash)
    harness.heap.run()
    assert harness.responded == [(100, -1)]
    assert accepted == [False]


def test_tentative_responses_need_not_wait_for_the_disk() -> None:
    harness = NodeHarness(
        100, [batch(record=1, message=1, response=1)], responds_before_durable=True
    )
    harness.at(5, "tick")
    harness.heap.run()
    assert harness.responded == [(5, 1)]
    assert [at_us for at_us, _ in harness.arrived] == [105]


# --- wakes ----------------------------------------------------------------------------------------


def woken_at_us(harness: NodeHarness) -> list[int]:
    """Return the times of all wakes, from the start of the run."""
    return [at_us - EPOCH_US for replica in harness.created for at_us in replica.woken_at]


def test_a_replica_is_woken_once_when_its_clock_reaches_the_requested_time() -> None:
    harness = NodeHarness(100, [Effects(wake_at=EPOCH_US + 70)])
    harness.node.clock.jump(-30)
    harness.at(5, "tick")
    harness.heap.run()
    assert harness.heap.now_us == 100
    assert woken_at_us(harness) == [70]


def test_a_wake_in_the_past_happens_at_once() -> None:
    harness = NodeHarness(100, [Effects(wake_at=EPOCH_US)])
    harness.at(5, "tick")
    harness.heap.run()
    assert woken_at_us(harness) == [5]


def test_a_requested_wake_replaces_an_earlier_one() -> None:
    wakes = [Effects(wake_at=EPOCH_US + at_us) for at_us in (50, 80)]
    harness = NodeHarness(100, wakes)
    harness.at(5, "tick")
    harness.at(10, "tick")
    harness.heap.run()
    assert woken_at_us(harness) == [80]


def test_a_crash_cancels_the_wake() -> None:
    harness = NodeHarness(100, [Effects(wake_at=EPOCH_US + 50)])
    harness.at(5, "tick")
    harness.at(20, "crash")
    harness.heap.run()
    assert woken_at_us(harness) == []
