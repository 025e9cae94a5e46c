"""Network: latency, bandwidth, order, partitions, cuts and noise."""

import pytest

from creekdb.errors import BadValue, MalformedMessage
from creekdb.protocol.messages import Ballot, Message, Progress, Promise, decode_message, encode
from creekdb.simulation.kernel.simulated_time import EventHeap
from creekdb.simulation.models.network import Network
from creekdb.simulation.models.parameters import NetworkModel


class NetworkHarness:
    """Network whose deliveries are recorded as (time, receiver, sender, number)."""

    def __init__(self, replicas: int = 3, seed: int = 0, model: NetworkModel | None = None) -> None:
        self.heap = EventHeap()
        self.network = Network(self.heap, model or NetworkModel(), replicas, seed, self._deliver)
        self.log: list[tuple[int, int, int, int]] = []
        self.malformed = 0
        self.unencoded: list[Message] = []

    def send(self, sender: int, receivers: tuple[int, ...], number: int = 0) -> None:
        self.network.send(sender, receivers, Progress(number))

    def numbers(self) -> list[int]:
        return [number for _, _, _, number in self.log]

    def _deliver(self, receiver: int, sender: int, data: bytes, message: Message | None) -> None:
        if message is not None:
            self.unencoded.append(message)
        try:
            decoded = message or decode_message(data)
        except MalformedMessage:
            self.malformed += 1
            return
        assert isinstance(decoded, Progress)
        self.log.append((self.heap.now_us, receiver, sender, decoded.delivered))


def test_messages_arrive_within_the_latency_bounds() -> None:
    harness = NetworkHarness()
    harness.send(0, (1, 2), 7)
    harness.heap.run()
    assert sorted(each[1:] for each in harness.log) == [(1, 0, 7), (2, 0, 7)]
    assert all(200 <= at_us <= 302 for at_us, *_ in harness.log)


def test_messages_between_regions_take_their_distance_longer() -> None:
    harness = NetworkHarness(4, model=NetworkModel(distances_us=((0, 20_000), (50_000, 0))))
    harness.send(0, (1, 2))
    harness.send(3, (2,))
    harness.heap.run()
    arrivals = {(sender, receiver): at_us for at_us, receiver, sender, _ in harness.log}

    assert 200 <= arrivals[0, 2] <= 303
    assert 20_200 <= arrivals[0, 1] <= 20_303
    assert 50_200 <= arrivals[3, 2] <= 50_303


@pytest.mark.parametrize("distances_us", [((0, 1), (1,)), ((0,), (0,)), ((0, -1), (1, 0))])
def test_distances_are_a_square_of_latencies(distances_us: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(BadValue, match="distances_us has 2 rows"):
        NetworkModel(distances_us=distances_us)


def test_messages_between_a_pair_arrive_in_the_order_sent() -> None:
    harness = NetworkHarness()
    for number in range(100):
        harness.heap.schedule_at(number, harness.send, 0, (1,), number)
    harness.heap.run()
    assert harness.numbers() == list(range(100))


def test_a_sender_transmits_sequentially_at_its_bandwidth() -> None:
    size = len(encode(Progress(0)))
    model = NetworkModel(
        latency_us_min=0, latency_us_max=0, overhead_bytes=125 - size, bandwidth_bps=1_000_000
    )
    harness = NetworkHarness(replicas=3, model=model)
    harness.send(0, (1, 2))
    harness.send(0, (1,))
    harness.send(2, (1,))
    harness.heap.run()
    # 125 bytes are 1000 bits: 1 ms at 1 Mbps. Replica 2 has a card of its own.
    assert harness.log == [
        (1_000, 1, 0, 0),
        (1_000, 1, 2, 0),
        (2_000, 2, 0, 0),
        (3_000, 1, 0, 0),
    ]


def test_messages_and_bytes_are_counted_by_type_and_receiver() -> None:
    harness = NetworkHarness()
    harness.send(0, (1, 2))
    statistics = harness.network.statistics()
    assert statistics.messages == {"Progress": 2}
    assert statistics.bytes == {"Progress": 2 * (len(encode(Progress(0))) + 66)}


def test_severed_links_are_never_healed() -> None:
    harness = NetworkHarness()
    harness.network.sever(0, 1)
    harness.network.cut(1, 2)
    harness.network.heal()
    harness.send(0, (1, 2))
    harness.send(1, (0, 2))
    harness.heap.run()
    pairs = sorted((sender, receiver) for _, receiver, sender, _ in harness.log)
    assert pairs == [(0, 2), (1, 0), (1, 2)]


def test_the_promise_callback_runs_once_after_the_next_promise_of_the_replica() -> None:
    harness = NetworkHarness()
    called_us: list[int] = []
    harness.network.on_promise_sent[0] = lambda: called_us.append(harness.heap.now_us)
    promise = Promise(Ballot(1, 1), 0, ())
    harness.send(0, (1,))
    harness.network.send(1, (), promise)
    harness.heap.run()
    assert called_us == []
    for _ in range(2):
        harness.network.send(0, (), promise)
    harness.heap.run()
    assert len(called_us) == 1


def test_a_partition_separates_groups_in_both_directions_until_it_heals() -> None:
    harness = NetworkHarness(replicas=4)
    harness.network.partition([(0, 1), (2,)])
    for sender in range(4):
        harness.send(sender, tuple(each for each in range(4) if each != sender))
    harness.heap.run()
    assert sorted((sender, receiver) for _, receiver, sender, _ in harness.log) == [(0, 1), (1, 0)]
    harness.network.heal()
    harness.send(0, (3,))
    harness.heap.run()
    assert harness.log[-1][1:3] == (3, 0)


def test_a_cut_is_one_way() -> None:
    harness = NetworkHarness()
    harness.network.cut(0, 1)
    harness.send(0, (1, 2))
    harness.send(1, (0,))
    harness.heap.run()
    assert sorted((sender, receiver) for _, receiver, sender, _ in harness.log) == [(0, 2), (1, 0)]
    assert harness.network.lost_messages == 1


def test_a_partition_loses_messages_in_flight() -> None:
    harness = NetworkHarness()
    harness.send(0, (1,))
    harness.heap.schedule_at(100, harness.network.partition, [(0,), (1,)])
    harness.heap.run()
    assert harness.log == []


def test_a_crash_of_the_sender_loses_part_of_its_broadcast() -> None:
    arrived = set[int]()
    for seed in range(20):
        harness = NetworkHarness(replicas=5, seed=seed)
        harness.send(0, (1, 2, 3, 4))
        harness.send(1, (2,))
        harness.heap.schedule_at(100, harness.network.record_crash, 0)
        harness.heap.run()
        assert any(sender == 1 for _, _, sender, _ in harness.log), "other senders are unaffected"
        arrived.add(len(harness.log) - 1)
    assert {1, 2, 3} <= arrived


def test_lost_messages_do_not_arrive_and_are_counted() -> None:
    harness = NetworkHarness()
    harness.network.noise.loss = 0.5
    for _ in range(400):
        harness.send(0, (1,))
    harness.heap.run()
    assert 120 < len(harness.log) < 280
    assert harness.network.lost_messages == 400 - len(harness.log)


def test_duplicated_messages_arrive_twice() -> None:
    harness = NetworkHarness()
    harness.network.noise.duplication = 1.0
    harness.send(0, (1,), 5)
    harness.heap.run()
    assert harness.numbers() == [5, 5]


def test_reordered_messages_are_overtaken() -> None:
    harness = NetworkHarness()
    harness.network.noise.reordering = 0.3
    harness.network.noise.reordering_us = 5_000
    for number in range(50):
        harness.heap.schedule_at(number * 10, harness.send, 0, (1,), number)
    harness.heap.run()
    assert harness.numbers() != list(range(50))
    assert sorted(harness.numbers()) == list(range(50))


def test_a_spike_multiplies_the_latency() -> None:
    harness = NetworkHarness()
    harness.network.spike_factor = 10.0
    harness.send(0, (1,))
    harness.heap.run()
    assert 2_000 <= harness.heap.now_us <= 3_001


def test_forgeries_accompany_real_messages_and_are_detectable() -> None:
    harness = NetworkHarness(replicas=3)
    harness.network.noise.garbage = 1.0
    for number in range(1, 101):
        harness.send(0, (1,), number)
    harness.heap.run()
    from_members = [number for _, _, sender, number in harness.log if sender < 3]
    from_strangers = [number for _, _, sender, number in harness.log if sender >= 3]
    assert from_members == list(range(1, 101))
    assert from_strangers
    assert harness.malformed + len(from_strangers) == 100 == harness.network.statistics().forged


def test_bits_are_flipped_if_enabled() -> None:
    harness = NetworkHarness()
    harness.network.noise.can_flip_bits = True
    forgeries = [harness.network.noise.forge(0, bytes(8)) for _ in range(100)]
    flipped = [data for sender, data in forgeries if sender == 0 and len(data) == 8]
    assert any(sum(byte.bit_count() for byte in data) == 1 for data in flipped)


def test_message_objects_are_shared_only_without_the_wire() -> None:
    wired, unwired = NetworkHarness(), NetworkHarness(model=NetworkModel(wire=False))
    message = Progress(3)
    for harness in (wired, unwired):
        harness.network.send(0, (1,), message)
        harness.heap.run()
    assert wired.unencoded == []
    assert unwired.unencoded[0] is message
    assert wired.network.statistics() == unwired.network.statistics()


def test_invalid_network_models_are_rejected() -> None:
    with pytest.raises(BadValue, match="smaller one first"):
        NetworkModel(latency_us_min=300, latency_us_max=200)
    with pytest.raises(BadValue, match="bandwidth"):
        NetworkModel(bandwidth_bps=0)


@pytest.mark.parametrize("replica", [0, 1])
def test_messages_in_flight_are_lost_with_a_disk_at_either_end(replica: int) -> None:
    harness = NetworkHarness()
    harness.send(0, (1,), 1)
    harness.network.record_disk_loss(replica)
    harness.send(0, (1,), 2)
    harness.heap.run()

    assert harness.numbers() == [2]
