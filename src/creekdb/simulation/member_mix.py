"""Random changes of members for the fuzzer: replicas are added, removed and replaced under load.

What is drawn keeps two promises. A majority of the members is alive at the end, whenever the
changes stop; and one of the first members stays and lives, for that is where those who are added
find the others.
"""

from random import Random

from creekdb.simulation.faults import Add, Crash, Die, Fault, Heal, Partition, Remove, Restart


def member_mix(
    random: Random,
    replicas: int,
    duration_us: int,
    faults: tuple[Fault, ...],
    unheard: bool = False,
) -> tuple[Fault, ...]:
    """The faults, and changes of members among them. `unheard`: who is removed does not hear of it
    for a while. It goes on issuing and answering, and has to hand that over when it hears."""
    mix = _Mix(random, replicas, duration_us, faults, unheard)
    for at_us in sorted(random.randrange(duration_us) for _ in range(random.randint(1, 3))):
        random.choice((mix.add, mix.remove, mix.replace, mix.replace_the_dead))(at_us)
    return tuple(sorted((*faults, *mix.faults), key=lambda fault: fault.at_us))


class _Mix:
    def __init__(
        self,
        random: Random,
        replicas: int,
        duration_us: int,
        faults: tuple[Fault, ...],
        unheard: bool,
    ) -> None:
        self.random = random
        self.duration_us = duration_us
        self.unheard = unheard
        self.first = set(range(replicas))
        self.members = set(range(replicas))
        self.dead = {fault.replica for fault in faults if isinstance(fault, Die)}
        self.next = replicas
        self.faults: list[Fault] = []

    def add(self, at_us: int) -> None:
        if self._is_alive(self.members | {self.next}):
            self.faults.append(Add(at_us, self.next))
            self.members.add(self.next)
            if self.random.random() < 0.4:
                crash_us = self.random.randrange(at_us, self.duration_us)
                back_us = self.random.randrange(crash_us, self.duration_us)
                self.faults += [Crash(crash_us, self.next), Restart(back_us, self.next)]
            self.next += 1

    def remove(self, at_us: int) -> None:
        self._remove(at_us, sorted(self.members))

    def replace(self, at_us: int) -> None:
        before = sorted(self.members)
        self.add(at_us)
        self._remove(at_us, before)

    def replace_the_dead(self, at_us: int) -> None:
        """A replica that lost its disk does not come back: another one takes its place."""
        lost = self.random.choice(sorted(self.first))
        if not self.dead and not self.faults and len(self.first) > 2:
            self.dead.add(lost)
            self.faults.append(Die(self.random.randrange(at_us + 1), lost))
        self.add(at_us)
        self._remove(at_us, sorted(self.dead & self.members))

    def _remove(self, at_us: int, candidates: list[int]) -> None:
        if not candidates:
            return
        gone = self.random.choice(candidates)
        left = self.members - {gone}
        if self._is_alive(left) and (self.first & left) - self.dead:
            self.faults.append(Remove(at_us, gone))
            self.members = left
            if self.unheard:
                self._cut_off(at_us, gone)

    def _cut_off(self, at_us: int, gone: int) -> None:
        apart_us = self.random.randint(at_us // 2, at_us)
        heal_us = self.random.randint(at_us, self.duration_us)
        apart = [gone, *self._company(gone)]
        for lost in apart[1:]:
            self.dead.add(lost)
            self.faults.append(Die(self.random.randint(at_us, heal_us), lost))
        self.faults += [Partition(apart_us, (tuple(apart),)), Heal(heal_us)]

    def _company(self, gone: int) -> list[int]:
        """Sometimes one that stays a member is cut off with it, and dies: what it had issued is
        left to the one that is removed, whose own requests come after it."""
        others = sorted((self.first & self.members) - {gone})
        if self.dead or len(others) < 4 or self.random.random() < 0.2:
            return []
        return [self.random.choice(others)]

    def _is_alive(self, members: set[int]) -> bool:
        return 2 * len(members - self.dead) > len(members)
