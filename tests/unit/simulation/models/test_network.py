"""The network: latency, bandwidth, order, partitions and cuts, and noise."""

import pytest

from creekdb.errors import BadValue, MalformedMessage
from creekdb.protocol.messages import Ballot, Message, Progress, Promise, decode_message, encode
from creekdb.simulation.kernel.simulated_time import EventHeap
from creekdb.simulation.models.network import Network
from creekdb.simulation.models.parameters import NetworkModel


class Bench:
    """A network whose deliveries are written down as (time, receiver, sender, number)."""

    def __init__(self, replicas: int = 3, seed: int = 0, model: NetworkModel | None = None) -> None:
        self.heap = EventHeap()
        self.network = Network(self.heap, model or NetworkModel(), replicas, seed, self._deliver)
        self.log: list[tuple[int, int, int, int]] = []
        self.malformed = 0
        self.shared: list[Message] = []

    def send(self, sender: int, receivers: tuple[int, ...], number: int = 0) -> None:
        self.network.send(sender, receivers, Progress(number))

    def numbers(self) -> list[int]:
        return [number for _, _, _, number in self.log]

    def _deliver(self, receiver: int, sender: int, data: bytes, message: Message | None) -> None:
        if message is not None:
            self.shared.append(message)
        try:
            decoded = message or decode_message(data)
        except MalformedMessage:
            self.malformed += 1
            return
        assert isinstance(decoded, Progress)
        self.log.append((self.heap.now_us, receiver, sender, decoded.delivered))


def test_a_message_reaches_each_receiver_within_the_latency() -> None:
    bench = Bench()
    bench.send(0, (1, 2), 7)
    bench.heap.run()
    assert sorted(each[1:] for each in bench.log) == [(1, 0, 7), (2, 0, 7)]
    assert all(200 <= at_us <= 302 for at_us, *_ in bench.log)


def test_messages_between_a_pair_arrive_in_the_order_sent() -> None:
    bench = Bench()
    for number in range(100):
        bench.heap.schedule_at(number, bench.send, 0, (1,), number)
    bench.heap.run()
    assert bench.numbers() == list(range(100))


def test_a_senders_messages_leave_one_after_the_other_at_the_bandwidth() -> None:
    size = len(encode(Progress(0)))
    model = NetworkModel(
        latency_us_min=0, latency_us_max=0, overhead_bytes=125 - size, bandwidth_bps=1_000_000
    )
    bench = Bench(replicas=3, model=model)
    bench.send(0, (1, 2))
    bench.send(0, (1,))
    bench.send(2, (1,))
    bench.heap.run()
    # 125 bytes are 1000 bits: 1 ms at 1 Mbps. Replica 2 has a card of its own.
    assert bench.log == [
        (1_000, 1, 0, 0),
        (1_000, 1, 2, 0),
        (2_000, 2, 0, 0),
        (3_000, 1, 0, 0),
    ]


def test_messages_and_bytes_are_counted_by_type_and_receiver() -> None:
    bench = Bench()
    bench.send(0, (1, 2))
    statistics = bench.network.statistics()
    assert statistics.messages == {"Progress": 2}
    assert statistics.bytes == {"Progress": 2 * (len(encode(Progress(0))) + 66)}


def test_a_severed_link_outlasts_every_healing() -> None:
    bench = Bench()
    bench.network.sever(0, 1)
    bench.network.cut(1, 2)
    bench.network.heal()
    bench.send(0, (1, 2))
    bench.send(1, (0, 2))
    bench.heap.run()
    pairs = sorted((sender, receiver) for _, receiver, sender, _ in bench.log)
    assert pairs == [(0, 2), (1, 0), (1, 2)]


def test_last_words_are_the_next_promise_that_leaves() -> None:
    bench = Bench()
    struck: list[int] = []
    bench.network.on_promise_sent[0] = lambda: struck.append(bench.heap.now_us)
    promise = Promise(Ballot(1, 1), 0, ())
    bench.send(0, (1,))
    bench.network.send(1, (), promise)
    bench.heap.run()
    assert struck == []
    for _ in range(2):
        bench.network.send(0, (), promise)
    bench.heap.run()
    assert len(struck) == 1


def test_a_partition_separates_groups_in_both_directions_until_it_heals() -> None:
    bench = Bench(replicas=4)
    bench.network.partition([(0, 1), (2,)])
    for sender in range(4):
        bench.send(sender, tuple(each for each in range(4) if each != sender))
    bench.heap.run()
    assert sorted((sender, receiver) for _, receiver, sender, _ in bench.log) == [(0, 1), (1, 0)]
    bench.network.heal()
    bench.send(0, (3,))
    bench.heap.run()
    assert bench.log[-1][1:3] == (3, 0)


def test_a_cut_is_one_way() -> None:
    bench = Bench()
    bench.network.cut(0, 1)
    bench.send(0, (1, 2))
    bench.send(1, (0,))
    bench.heap.run()
    assert sorted((sender, receiver) for _, receiver, sender, _ in bench.log) == [(0, 2), (1, 0)]
    assert bench.network.lost_messages == 1


def test_what_is_under_way_when_a_partition_begins_is_lost() -> None:
    bench = Bench()
    bench.send(0, (1,))
    bench.heap.schedule_at(100, bench.network.partition, [(0,), (1,)])
    bench.heap.run()
    assert bench.log == []


def test_a_crashing_sender_takes_part_of_its_broadcast_with_it() -> None:
    arrived = set[int]()
    for seed in range(20):
        bench = Bench(replicas=5, seed=seed)
        bench.send(0, (1, 2, 3, 4))
        bench.send(1, (2,))
        bench.heap.schedule_at(100, bench.network.record_crash, 0)
        bench.heap.run()
        assert any(sender == 1 for _, _, sender, _ in bench.log), "others are not touched"
        arrived.add(len(bench.log) - 1)
    assert {1, 2, 3} <= arrived


def test_lost_messages_do_not_arrive_and_are_counted() -> None:
    bench = Bench()
    bench.network.noise.loss = 0.5
    for _ in range(400):
        bench.send(0, (1,))
    bench.heap.run()
    assert 120 < len(bench.log) < 280
    assert bench.network.lost_messages == 400 - len(bench.log)


def test_duplicated_messages_arrive_twice() -> None:
    bench = Bench()
    bench.network.noise.duplication = 1.0
    bench.send(0, (1,), 5)
    bench.heap.run()
    assert bench.numbers() == [5, 5]


def test_reordered_messages_are_overtaken() -> None:
    bench = Bench()
    bench.network.noise.reordering = 0.3
    bench.network.noise.reordering_us = 5_000
    for number in range(50):
        bench.heap.schedule_at(number * 10, bench.send, 0, (1,), number)
    bench.heap.run()
    assert bench.numbers() != list(range(50))
    assert sorted(bench.numbers()) == list(range(50))


def test_a_spike_makes_messages_take_longer() -> None:
    bench = Bench()
    bench.network.spike_factor = 10.0
    bench.send(0, (1,))
    bench.heap.run()
    assert 2_000 <= bench.heap.now_us <= 3_001


def test_garbage_comes_beside_real_messages_and_can_be_told_from_them() -> None:
    bench = Bench(replicas=3)
    bench.network.noise.garbage = 1.0
    for number in range(1, 101):
        bench.send(0, (1,), number)
    bench.heap.run()
    from_members = [number for _, _, sender, number in bench.log if sender < 3]
    from_strangers = [number for _, _, sender, number in bench.log if sender >= 3]
    assert from_members == list(range(1, 101))
    assert from_strangers
    assert bench.malformed + len(from_strangers) == 100 == bench.network.statistics().forged


def test_flipped_bits_come_only_when_asked_for() -> None:
    bench = Bench()
    bench.network.noise.garbage = 1.0
    bench.network.noise.can_flip_bits = True
    fates = [bench.network.noise.draw_fate(0, bytes(8)) for _ in range(100)]
    forgeries = [fate.forgery for fate in fates if fate.forgery is not None]
    flipped = [each for each in forgeries if each.sender == 0 and len(each.data) == 8]
    assert any(sum(byte.bit_count() for byte in each.data) == 1 for each in flipped)


def test_objects_are_shared_only_without_the_wire() -> None:
    wired, shared = Bench(), Bench(model=NetworkModel(wire=False))
    message = Progress(3)
    for bench in (wired, shared):
        bench.network.send(0, (1,), message)
        bench.heap.run()
    assert wired.shared == []
    assert shared.shared[0] is message
    assert wired.network.statistics() == shared.network.statistics()


def test_a_network_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadValue, match="smaller one first"):
        NetworkModel(latency_us_min=300, latency_us_max=200)
    with pytest.raises(BadValue, match="bandwidth"):
        NetworkModel(bandwidth_bps=0)
