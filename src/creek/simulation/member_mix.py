"""Random changes of members for the fuzzer: replicas are added, removed and replaced under load.

What is drawn keeps two promises. A majority of the members is alive at the end, whenever the
changes stop; and one of the first members stays and lives, for that is where those who are added
find the others.
"""

from random import Random

from creek.simulation.faults import Add, Crash, Die, Fault, Heal, Partition, Remove, Restart


def member_mix(
    random: Random, replicas: int, duration_us: int, faults: tuple[Fault, ...]
) -> tuple[Fault, ...]:
    """The faults, and changes of members among them."""
    mix = _Mix(random, replicas, duration_us, faults)
    for at_us in sorted(random.randrange(duration_us) for _ in range(random.randint(1, 3))):
        random.choice((mix.add, mix.remove, mix.replace, mix.replace_the_dead))(at_us)
    return tuple(sorted((*faults, *mix.faults), key=lambda fault: fault.at_us))


def unheard_removals(
    random: Random, duration_us: int, faults: tuple[Fault, ...]
) -> tuple[Fault, ...]:
    """The faults, and who is removed does not hear of it for a while: it goes on issuing and
    answering what is not heard of either, and has to hand that over when it does."""
    cut_off: list[Fault] = []
    for fault in faults:
        if isinstance(fault, Remove):
            apart_us = random.randint(fault.at_us // 2, fault.at_us)
            heal_us = random.randint(fault.at_us, duration_us)
            cut_off += [Partition(apart_us, ((fault.replica,),)), Heal(heal_us)]
    return tuple(sorted((*faults, *cut_off), key=lambda fault: fault.at_us))


class _Mix:
    def __init__(
        self, random: Random, replicas: int, duration_us: int, faults: tuple[Fault, ...]
    ) -> None:
        self.random = random
        self.duration_us = duration_us
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

    def _is_alive(self, members: set[int]) -> bool:
        return 2 * len(members - self.dead) > len(members)
