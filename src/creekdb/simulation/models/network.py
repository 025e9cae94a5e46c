"""Model of the network: latency, bandwidth, partitions, and noise on single messages.

Rules:

- A message is encoded once, counts by its size, and is decoded by each receiver. No object is
  shared between replicas, and the codec is part of every run. (`wire=False` skips the decoding and
  shares objects, for speed.)
- A sender has one network card: its messages leave one after the other at the link's bandwidth.
- Messages between a pair of replicas arrive in the order sent, unless noise reorders them.
- A blocked direction loses the messages that are sent and those in flight. When a sender crashes, a
  part of its messages in flight is lost, so that a broadcast may be incomplete.

Noise loses, duplicates, delays or forges single messages. Forgeries accompany real messages and
never replace them. By default, a correct receiver can detect a forgery: random bytes, a truncated
message, or a real message from a sender that is no member. Flipped bits are off by default, because
a flip may yield a valid message with a different content, and the protocol does not tolerate
Byzantine senders. Noise draws from a generator of its own, so that it does not shift latencies.

The network is independent of the meaning of messages.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from creekdb.protocol.messages import Message, Promise, encode
from creekdb.simulation.kernel.seeds import derive_generator
from creekdb.simulation.kernel.simulated_time import EventHeap
from creekdb.simulation.models.parameters import NetworkModel
from creekdb.simulation.observation.samples import NetworkStatistics

DUPLICATE_DELAY_US_MAX = 20_000
"""Upper bound for the delay of a duplicate, in microseconds."""


class NetworkNoise:
    def __init__(self, seed: int, replicas: int) -> None:
        self.random = derive_generator(seed, "noise")
        self._replicas = replicas
        self.loss = 0.0
        self.duplication = 0.0
        self.reordering = 0.0
        self.reordering_us = 0
        """Upper bound for the additional delay of a reordered message, in microseconds."""
        self.garbage = 0.0
        self.can_flip_bits = False
        self.forged = 0

    @property
    def is_active(self) -> bool:
        return bool(self.loss or self.duplication or self.reordering or self.garbage)

    def reset(self) -> None:
        self.loss = self.duplication = self.reordering = self.garbage = 0.0

    def forge(self, sender: int, data: bytes) -> tuple[int, bytes]:
        """Draw the sender and the content of a forgery that accompanies a real message."""
        random = self.random
        variant = random.randrange(4 if self.can_flip_bits else 3)
        if variant == 0:
            return sender, random.randbytes(random.randint(0, 40))
        if variant == 1:
            return sender, data[: random.randrange(len(data))]
        if variant == 2:
            return self._replicas + random.randrange(3), data
        at = random.randrange(len(data))
        flipped = data[at] ^ (1 << random.randrange(8))
        return sender, data[:at] + bytes((flipped,)) + data[at + 1 :]


Deliver: TypeAlias = Callable[[int, int, bytes, Message | None], None]
"""Called with (receiver, sender, encoded message, decoded message if objects are shared)."""


class Network:
    def __init__(
        self, heap: EventHeap, model: NetworkModel, replicas: int, seed: int, deliver: Deliver
    ) -> None:
        self._heap = heap
        self._model = model
        self._replicas = replicas
        self._deliver = deliver
        self._latency_random = derive_generator(seed, "latency")
        self._latency_spread_us = model.latency_us_max - model.latency_us_min + 1
        self._latency_base_us = [
            model.latency_us_min + model.distance_us(sender, receiver)
            for sender in range(replicas)
            for receiver in range(replicas)
        ]
        """Lower bound of the latency of each pair, at `sender * replicas + receiver`."""
        self._link_free_ns = [0] * replicas
        self._last_arrival_us = [0] * (replicas * replicas)
        self._crashes = [0] * replicas
        self._groups: tuple[tuple[int, ...], ...] = ()
        self._cuts: list[tuple[int, int]] = []
        self._severed: list[tuple[int, int]] = []
        self._sent_counts: dict[type, list[int]] = {}
        self._disk_losses = 0
        """Number of disk losses so far."""
        self._last_disk_loss = [0] * replicas
        """By replica: the number of its last disk loss."""
        self.blocked = [False] * (replicas * replicas)
        """For each pair, at `sender * replicas + receiver`: True if messages are lost."""
        self.noise = NetworkNoise(seed, replicas)
        self.spike_factor = 1.0
        self.on_promise_sent: dict[int, Callable[[], None]] = {}
        """By replica: callback that runs once, after the replica has sent its next promise."""
        self.lost_messages = 0
        self.sent_bytes = [0] * replicas
        """Number of bytes sent, by sender."""

    # --- sending -------------------------------------------------------------------------------

    def send(self, sender: int, receivers: tuple[int, ...], message: Message) -> None:
        heap, model, replicas = self._heap, self._model, self._replicas
        if receivers and receivers[-1] >= replicas:
            return  # the response to a forgery
        data = encode(message)
        size = len(data) + model.overhead_bytes
        counts = self._sent_counts.get(type(message))
        if counts is None:
            counts = self._sent_counts[type(message)] = [0, 0]
        counts[0] += len(receivers)
        counts[1] += size * len(receivers)
        self.sent_bytes[sender] += size * len(receivers)
        shared = None if model.wire else message
        transfer_ns = size * 8_000_000_000 // model.bandwidth_bps
        leaves_ns = max(self._link_free_ns[sender], heap.now_us * 1000)
        noisy, epoch = self.noise.is_active, self._epoch_of(sender)
        for receiver in receivers:
            leaves_ns += transfer_ns
            pair = sender * replicas + receiver
            if self.blocked[pair]:
                self.lost_messages += 1
                continue
            arrival_us = max(leaves_ns // 1000 + self._delay_us(pair), self._last_arrival_us[pair])
            if noisy:
                self._send_with_noise(arrival_us, pair, data, shared)
                continue
            self._last_arrival_us[pair] = arrival_us
            heap.schedule_at(arrival_us, self._arrive, pair, data, shared, epoch)
        self._link_free_ns[sender] = leaves_ns
        if sender in self.on_promise_sent and type(message) is Promise:
            heap.schedule_after(0, self.on_promise_sent.pop(sender))

    def _delay_us(self, pair: int) -> int:
        extra_us = int(self._latency_random.random() * self._latency_spread_us)
        return int((self._latency_base_us[pair] + extra_us) * self.spike_factor)

    def _send_with_noise(
        self, arrival_us: int, pair: int, data: bytes, shared: Message | None
    ) -> None:
        heap, noise, random = self._heap, self.noise, self.noise.random
        sender, receiver = divmod(pair, self._replicas)
        epoch = self._epoch_of(sender)
        is_lost = random.random() < noise.loss
        extra_us = 0
        if random.random() < noise.reordering:
            extra_us = random.randint(1, max(1, noise.reordering_us))
        if is_lost:
            self.lost_messages += 1
        else:
            if not extra_us:
                self._last_arrival_us[pair] = arrival_us
            heap.schedule_at(arrival_us + extra_us, self._arrive, pair, data, shared, epoch)
        if random.random() < noise.duplication:
            duplicate_us = arrival_us + random.randint(1, DUPLICATE_DELAY_US_MAX)
            heap.schedule_at(duplicate_us, self._arrive, pair, data, shared, epoch)
        if random.random() < noise.garbage:
            forged_sender, forged = noise.forge(sender, data)
            heap.schedule_at(arrival_us, self._deliver, receiver, forged_sender, forged, None)
            noise.forged += 1

    # --- arriving ------------------------------------------------------------------------------

    def _arrive(
        self, pair: int, data: bytes, shared: Message | None, epoch: tuple[int, int]
    ) -> None:
        sender, receiver = divmod(pair, self._replicas)
        disk_losses, crashes = epoch
        if (
            self.blocked[pair]
            or disk_losses < self._last_disk_loss[sender]
            or disk_losses < self._last_disk_loss[receiver]
            or (
                crashes != self._crashes[sender]
                and self.noise.random.random() < self._model.crash_loss
            )
        ):
            self.lost_messages += 1
            return
        self._deliver(receiver, sender, data, shared)

    # --- reachability ----------------------------------------------------------------------------

    def partition(self, groups: Iterable[tuple[int, ...]]) -> None:
        """Only replicas of one group reach each other; replicas not named form one more group."""
        self._groups = tuple(groups)
        self._recompute_blocked()

    def cut(self, sender: int, receiver: int) -> None:
        """Block messages from `sender` to `receiver`; the opposite direction is unaffected."""
        self._cuts.append((sender, receiver))
        self._recompute_blocked()

    def sever(self, sender: int, receiver: int) -> None:
        """Block messages permanently; like `cut`, but never healed."""
        self._severed.append((sender, receiver))
        self._recompute_blocked()

    def heal(self) -> None:
        """Unblock all pairs except severed links."""
        self._groups = ()
        self._cuts.clear()
        self._recompute_blocked()

    def reachable_from(self, replica: int) -> list[int]:
        """Return the other replicas that messages reach from this one, and that reach it."""
        return [
            each
            for each in range(self._replicas)
            if each != replica
            and not self.blocked[each * self._replicas + replica]
            and not self.blocked[replica * self._replicas + each]
        ]

    def record_crash(self, sender: int) -> None:
        self._crashes[sender] += 1
        self._link_free_ns[sender] = 0

    def record_disk_loss(self, replica: int) -> None:
        """Lose all messages in flight from and to the replica.

        Its connections are gone. A replica with an empty disk must not receive responses to its
        previous incarnation.
        """
        self._disk_losses += 1
        self._last_disk_loss[replica] = self._disk_losses

    def _epoch_of(self, sender: int) -> tuple[int, int]:
        """Return the number of disk losses of all replicas, and of crashes of the sender."""
        return self._disk_losses, self._crashes[sender]

    def statistics(self) -> NetworkStatistics:
        named = sorted((kind.__name__, counts) for kind, counts in self._sent_counts.items())
        return NetworkStatistics(
            messages={name: counts[0] for name, counts in named},
            bytes={name: counts[1] for name, counts in named},
            lost=self.lost_messages,
            forged=self.noise.forged,
        )

    def _recompute_blocked(self) -> None:
        group_of = [-1] * self._replicas
        for number, group in enumerate(self._groups):
            for replica in group:
                group_of[replica] = number
        self.blocked = [
            sender_group != receiver_group
            for sender_group in group_of
            for receiver_group in group_of
        ]
        for sender, receiver in (*self._cuts, *self._severed):
            self.blocked[sender * self._replicas + receiver] = True
