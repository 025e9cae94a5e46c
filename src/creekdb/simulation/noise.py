"""What a bad network does to single messages: loses, repeats, delays or forges them.

Forgeries come beside real messages, never in their place. By default they are such that a correct
receiver can tell: random bytes, a truncated message, a real message that claims to come from a
stranger. Flipped bits are off by default: a flip may well yield a valid message that says something
else, and the protocol does not promise to survive liars.

All draws come from one generator of its own, so that noise does not shift latencies.
"""

from typing import NamedTuple

from creekdb.simulation.seeds import derive

DUPLICATE_US_MAX = 20_000
"""How much later a repeated message may arrive."""


class Forgery(NamedTuple):
    sender: int
    data: bytes


class Fate(NamedTuple):
    """What happens to one message. `extra_us` and `copy_us` are 0 when they do not apply."""

    lost: bool = False
    extra_us: int = 0
    copy_us: int = 0
    forgery: Forgery | None = None


class Noise:
    __slots__ = (
        "_random",
        "_replicas",
        "duplicated",
        "duplication",
        "flips",
        "forged",
        "garbage",
        "loss",
        "reordered",
        "reordering",
        "reordering_us",
    )

    def __init__(self, seed: int, replicas: int) -> None:
        self._random = derive(seed, "noise")
        self._replicas = replicas
        self.loss = 0.0
        self.duplication = 0.0
        self.reordering = 0.0
        self.reordering_us = 0
        """How much longer than the others a reordered message takes, at most."""
        self.garbage = 0.0
        self.flips = False
        self.duplicated = 0
        self.reordered = 0
        self.forged = 0

    @property
    def active(self) -> bool:
        return bool(self.loss or self.duplication or self.reordering or self.garbage)

    def quiet(self) -> None:
        self.loss = self.duplication = self.reordering = self.garbage = 0.0

    def draw(self) -> float:
        return self._random.random()

    def fate(self, sender: int, data: bytes) -> Fate:
        random = self._random
        lost = random.random() < self.loss
        extra_us = copy_us = 0
        if random.random() < self.reordering:
            extra_us = random.randint(1, max(1, self.reordering_us))
            self.reordered += 1
        if random.random() < self.duplication:
            copy_us = random.randint(1, DUPLICATE_US_MAX)
            self.duplicated += 1
        forgery = None
        if random.random() < self.garbage:
            forgery = self._forge(sender, data)
            self.forged += 1
        return Fate(lost, extra_us, copy_us, forgery)

    def _forge(self, sender: int, data: bytes) -> Forgery:
        random = self._random
        way = random.randrange(4 if self.flips else 3)
        if way == 0:
            return Forgery(sender, random.randbytes(random.randint(0, 40)))
        if way == 1:
            return Forgery(sender, data[: random.randrange(len(data))])
        if way == 2:
            return Forgery(self._replicas + random.randrange(3), data)
        at = random.randrange(len(data))
        flipped = data[at] ^ (1 << random.randrange(8))
        return Forgery(sender, data[:at] + bytes((flipped,)) + data[at + 1 :])
