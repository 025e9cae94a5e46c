"""The driver of one replica: the barrier before effects, crashes, restarts."""

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
from creekdb.simulation.kernel.simulated_time import EventHeap, SkewedClock
from creekdb.simulation.models.network import Network
from creekdb.simulation.models.parameters import CpuModel, DiskModel, NetworkModel
from creekdb.simulation.observation.counters import ReplicaCounters
from creekdb.simulation.observation.recorder import HistoryRecorder
from creekdb.simulation.observation.trace import TraceHash
from tests.unit.simulation.toy_replica import ToyReplica, request


class Scripted(ToyReplica):
    """Asks, at each tick, for the next batch of effects it was given."""

    def __init__(self, batches: list[Effects]) -> None:
        super().__init__(0, 2)
        self._batches = batches

    def tick(self, now: int) -> None:
        self.ticks += 1

    def take_effects(self) -> Effects:
        return self._batches.pop(0) if self.ticks and self._batches else super().take_effects()


class Bench:
    """Node 0, whose messages to node 1 arrive at once and are written down."""

    def __init__(
        self, fsync_us: int, batches: list[Effects] | None = None, turn_us: int = 0
    ) -> None:
        self.heap = EventHeap()
        self.arrived: list[tuple[int, int]] = []
        self.answered: list[tuple[int, int]] = []
        self.tally = ReplicaCounters()
        self.recorder = HistoryRecorder(self.heap, 2)
        model = NetworkModel(
            latency_us_min=0, latency_us_max=0, bandwidth_bps=10**15, crash_loss=0.0
        )
        self.network = Network(self.heap, model, 2, 0, self._deliver)
        self.made: list[ToyReplica] = []
        self._batches = batches
        self.node = Node(
            0,
            seed=0,
            heap=self.heap,
            make_replica=self._make_replica,
            network=self.network,
            cores=1,
            cost=CpuModel(execution_us=10, access_us=0).cost,
            disk=DiskModel(fsync_us_min=fsync_us, fsync_us_max=fsync_us),
            turn_us=turn_us,
            clock=SkewedClock(),
            recorder=self.recorder,
            trace=TraceHash(),
            tally=self.tally,
            issued=lambda session, id: None,
            respond=self._respond,
        )
        self.node.start()

    def at(self, at_us: int, action: str) -> None:
        self.heap.schedule_at(at_us, getattr(self.node, action))

    def invoke_at(self, at_us: int) -> None:
        self.heap.schedule_at(at_us, self.node.invoke, Operation("increment"), False, 1)

    def _make_replica(self, index: int) -> ToyReplica:
        replica = ToyReplica(index, 2) if self._batches is None else Scripted(self._batches)
        self.made.append(replica)
        return replica

    def _deliver(self, receiver: int, sender: int, data: bytes, message: Message | None) -> None:
        self.arrived.append((self.heap.now_us, len(data)))

    def _respond(self, response: Response) -> None:
        self.answered.append((self.heap.now_us, response.id.event))


def batch(record: int = 0, message: int = 0, answer: int = 0) -> Effects:
    """A batch that writes, sends and answers; 0 leaves a part out. Numbers tell batches apart."""
    persist: tuple[Record, ...] = (Received(request(record)),) if record else ()
    # The number is told by the size, since only bytes arrive.
    send = (Send((1,), Progress(1 << message)),) if message else ()
    respond = (Response(Dot(0, answer), 1, ResponseKind.TENTATIVE, Outcome()),) if answer else ()
    return Effects(persist, send, respond)


def test_what_needs_no_record_leaves_at_once() -> None:
    bench = Bench(100, [batch(message=1, answer=1)])
    bench.at(5, "tick")
    bench.heap.run()
    assert [at_us for at_us, _ in bench.arrived] == [5]
    assert bench.answered == [(5, 1)]


def test_sends_and_answers_wait_for_the_records_of_their_batch() -> None:
    bench = Bench(100, [batch(record=1, message=1, answer=1)])
    bench.at(5, "tick")
    bench.heap.run()
    assert [at_us for at_us, _ in bench.arrived] == [105]
    assert bench.answered == [(105, 1)]


def test_a_batch_without_records_still_waits_for_the_records_of_earlier_batches() -> None:
    batches = [batch(record=1, answer=1), batch(answer=2), batch(record=3, answer=3)]
    bench = Bench(100, [*batches, batch(answer=4)])
    for at_us in (0, 10, 20, 30):
        bench.at(at_us, "tick")
    bench.heap.run()
    # The first fsync covers record 1 only; record 3 waits for the next one, and answer 4 with it.
    assert bench.answered == [(100, 1), (100, 2), (200, 3), (200, 4)]


def test_nothing_waits_for_an_image_that_is_drawn_and_it_stands_where_room_was_left() -> None:
    bare, registers = lazy_checkpoint_of(Checkpoint(0, 0, Dots(), 0, (("a", 1),), ()))
    draft = StreamedCheckpoint(1, CheckpointRecord(bare, Ballot(0, 0), (), (), ()), registers)
    before, after = Received(request(1)), Received(request(2))
    effects = Effects((before, after), respond=batch(answer=1).respond, checkpoints=(draft,))
    bench = Bench(100, [effects])
    bench.at(0, "tick")
    bench.heap.schedule_at(250, lambda: kept.append(bench.node.disk.read()))
    kept: list[list[Record]] = []
    bench.heap.run()
    assert bench.answered == [(200, 1)]
    assert kept == [[before, after]]
    image, *rest = bench.node.disk.read()
    assert isinstance(image, CheckpointRecord)
    assert (image.checkpoint.state, rest) == ((("a", 1),), [after])


def test_a_snapshot_that_is_drawn_leaves_when_what_came_before_it_is_durable() -> None:
    bare, registers = lazy_checkpoint_of(Checkpoint(0, 0, Dots(), 0, (("a", 1),), ()))
    draft = StreamedSnapshot(1, Snapshot(bare), registers)
    bench = Bench(10**6, [Effects((Received(request(1)),), snapshots=(draft,))])
    bench.at(0, "tick")
    bench.heap.run()
    assert [at_us for at_us, _ in bench.arrived] == [10**6]


def test_with_a_disk_that_takes_no_time_effects_leave_at_once() -> None:
    bench = Bench(0, [batch(record=1, answer=1)])
    bench.at(5, "tick")
    bench.heap.run()
    assert bench.answered == [(5, 1)]


def test_inputs_of_one_turn_have_their_effects_taken_together() -> None:
    bench = Bench(100, [batch(record=1, answer=1), batch(answer=2)], turn_us=20)
    for at_us in (0, 10, 30):
        bench.at(at_us, "tick")
    bench.heap.run()
    assert bench.answered == [(120, 1), (120, 2)], "taken after 20 and 50 us"


def test_a_crash_loses_the_effects_of_a_turn_that_is_not_over() -> None:
    bench = Bench(0, [batch(record=1, answer=1)], turn_us=20)
    bench.at(0, "tick")
    bench.at(10, "crash")
    bench.heap.run()
    assert bench.answered == []
    assert bench.node.disk.read() == []


def test_a_crash_drops_held_effects_and_running_tasks() -> None:
    bench = Bench(100)
    bench.invoke_at(0)
    bench.at(5, "crash")
    bench.heap.run()
    assert bench.arrived == []
    assert bench.answered == []
    assert bench.node.replica is None


def test_a_restart_recovers_exactly_what_the_disk_kept() -> None:
    bench = Bench(100)
    bench.invoke_at(0)
    bench.at(250, "crash")
    bench.at(300, "start")
    bench.invoke_at(400)
    bench.heap.run()
    first, second = bench.made
    assert first is not second
    assert [type(record) for record in second.recovered] == [Received]
    assert bench.node.incarnation == 1
    assert bench.answered == [(100, 1), (500, 2)], "event numbers go on where the disk left off"


def test_a_node_that_is_down_hears_nothing_and_does_not_tick() -> None:
    bench = Bench(0)
    bench.at(1, "crash")
    bench.at(2, "tick")
    bench.heap.schedule_at(3, bench.node.receive, 1, encode(Progress(1)), None)
    bench.heap.run()
    assert bench.made[0].ticks == 0
    assert bench.made[0].heard == []


def test_bytes_that_are_no_message_never_reach_the_replica() -> None:
    bench = Bench(0)
    bench.node.receive(1, b"\xc1", None)
    bench.node.receive(1, encode(Progress(4)), None)
    assert bench.tally.malformed == 1
    assert bench.made[0].heard == [(Progress(4), 1)]


def test_each_incarnation_has_a_log_and_operations_of_its_own() -> None:
    bench = Bench(100)
    bench.invoke_at(0)  # is lost or kept, but nobody ever saw it
    bench.at(5, "crash")
    bench.at(10, "start")
    bench.invoke_at(20)
    bench.heap.run()
    history = bench.recorder.history({}, "toy", False, [])
    assert [(log.incarnation, log.started_us, log.crashed_us) for log in history.logs] == [
        (0, 0, 5),
        (1, 10, None),
    ]
    assert [(each.incarnation, len(each.answers)) for each in history.operations] == [
        (0, 0),
        (1, 1),
    ]


def test_a_node_says_what_it_waits_for() -> None:
    bench = Bench(100)
    assert bench.node.pending_work() is None
    bench.node.invoke(NOOP, False, 1)
    assert bench.node.pending_work() == "is executing"
    bench.heap.schedule_at(50, lambda: states.append(bench.node.pending_work()))
    states: list[str | None] = []
    bench.heap.run()
    assert states == ["waits for its disk"]
    assert bench.node.pending_work() is None
    bench.node.crash()
    assert bench.node.pending_work() == "is down"


def test_an_answer_that_nobody_asked_for_is_counted_and_not_recorded() -> None:
    bench = Bench(0, [batch(answer=9)])
    bench.node.tick()
    assert bench.recorder.unmatched_responses == 1
    assert bench.recorder.history({}, "toy", True, []).operations == ()
