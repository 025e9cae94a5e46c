"""Fault schedules as people write them, read and written.

One entry is a name, what it is about, and clauses in any order; entries end at `;` or a line break:

    crash 2 at 150ms                      crash-writing 2 at 150ms
    restart 2 at 400ms
    die 2 at 400ms                        die-telling 2 at 400ms
    partition 0,1|2,3,4 at 1s             heal at 2s
    cut 0>1 at 100ms                      sever 0>1 at 100ms
    loss 10% at 0s                        duplication 0.05 at 1s
    reordering 0.2 by 5ms at 1s           spike x5 for 100ms at 1s
    jump 3 by -1h at 1s                   skew 3 by 1d at 0s
    slow-disk 1 by 20ms for 300ms at 1s   slow-cpu 1 x10 for 300ms at 1s
    garbage 5% for 200ms at 1s            flips 5% for 200ms at 1s
    add 5 at 1s                           remove 2 at 2s

Replicas that a partition does not name form one more group: of five, `partition 0,1` means
`partition 0,1|2,3,4`. Durations have a unit, without a space before it: us, ms, s, m, h or d.
"""

import re
from collections.abc import Callable
from typing import assert_never

from creekdb.errors import BadValue, UnknownName
from creekdb.simulation.faults.fault_types import (
    Add,
    ClockJump,
    ClockSkew,
    Crash,
    Cut,
    Die,
    Duplication,
    Fault,
    Garbage,
    Heal,
    LoseDisk,
    Loss,
    Partition,
    Remove,
    Reordering,
    Restart,
    Sever,
    SlowCpu,
    SlowDisk,
    Spike,
)

UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_DURATION = re.compile(r"([+-]?\d+(?:\.\d+)?)(us|ms|s|m|h|d)")


def parse_faults(text: str) -> tuple[Fault, ...]:
    entries = (entry.strip() for entry in re.split(r"[;\n]", text))
    return tuple(parse_fault(entry) for entry in entries if entry)


def parse_fault(text: str) -> Fault:
    try:
        words = _FaultEntry(text)
        build = _BUILDERS.get(words.name)
        if build is None:
            raise UnknownName("fault", words.name, sorted(_BUILDERS))
        fault = build(words)
        words.finish()
    except BadValue as error:
        raise BadValue(f"fault '{text}': {error}") from error
    return fault


def parse_duration_us(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        joined = "".join(text.split())
        if joined != text and _DURATION.fullmatch(joined):
            raise BadValue(f"'{text}' has a space before its unit: write {joined}")
        raise BadValue(f"'{text}' is not a duration: write a number and us, ms, s, m, h or d")
    return round(float(match[1]) * UNITS_US[match[2]])


class _FaultEntry:
    """One entry, taken apart: its name, its subject, its clauses."""

    def __init__(self, text: str) -> None:
        self.name, *rest = text.split()
        self.clauses: dict[str, str] = {}
        self.subjects: list[str] = []
        while rest:
            word = rest.pop(0)
            if word in ("at", "by", "for"):
                if not rest or word in self.clauses:
                    raise BadValue(f"'{word}' needs one duration")
                self.clauses[word] = rest.pop(0)
                if rest and rest[0] in UNITS_US:
                    self.clauses[word] += f" {rest.pop(0)}"  # refused later, with a hint
            elif re.fullmatch(r"x[\d.]+", word):
                self.clauses["x"] = word[1:]
            else:
                self.subjects.append(word)

    def duration_us(self, clause: str, default_us: int | None = None) -> int:
        text = self.clauses.pop(clause, None)
        if text is not None:
            return parse_duration_us(text)
        if default_us is None:
            raise BadValue(f"'{clause}' and a duration are missing")
        return default_us

    @property
    def at_us(self) -> int:
        return self.duration_us("at")

    @property
    def factor(self) -> float:
        return self.number(self.clauses.pop("x", ""), "a factor such as x5")

    def subject(self, what: str) -> str:
        if not self.subjects:
            raise BadValue(f"{what} is missing")
        return self.subjects.pop(0)

    def replica(self) -> int:
        return self.index(self.subject("a replica"))

    def index(self, text: str) -> int:
        if not re.fullmatch(r"\d+", text):
            raise BadValue(f"'{text}' is not a replica: replicas are numbered from 0")
        return int(text)

    def number(self, text: str, what: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise BadValue(f"{what} is missing") from None

    def probability(self) -> float:
        text = self.subject("a probability such as 10% or 0.1")
        value = self.number(text.removesuffix("%"), "a probability such as 10% or 0.1")
        return value / 100 if text.endswith("%") else value

    def finish(self) -> None:
        left = [*self.subjects, *self.clauses]
        if left:
            raise BadValue(f"'{left[0]}' does not belong here")


def _partition(words: _FaultEntry) -> Fault:
    groups = words.subject("groups such as 0,1|2,3,4").split("|")
    return Partition(
        words.at_us,
        tuple(tuple(words.index(each) for each in group.split(",")) for group in groups),
    )


def _cut(words: _FaultEntry, kind: type[Cut] = Cut) -> Fault:
    sender, arrow, receiver = words.subject("a direction such as 0>1").partition(">")
    if not arrow:
        raise BadValue("a cut needs a direction such as 0>1")
    return kind(words.at_us, words.index(sender), words.index(receiver))


_BUILDERS: dict[str, Callable[[_FaultEntry], Fault]] = {
    "crash": lambda words: Crash(words.at_us, words.replica()),
    "crash-writing": lambda words: Crash(words.at_us, words.replica(), writing=True),
    "restart": lambda words: Restart(words.at_us, words.replica()),
    "die": lambda words: Die(words.at_us, words.replica()),
    "die-telling": lambda words: Die(words.at_us, words.replica(), telling=True),
    "lose-disk": lambda words: LoseDisk(words.at_us, words.replica(), words.duration_us("for")),
    "partition": _partition,
    "cut": _cut,
    "sever": lambda words: _cut(words, Sever),
    "heal": lambda words: Heal(words.at_us),
    "loss": lambda words: Loss(words.at_us, words.probability()),
    "duplication": lambda words: Duplication(words.at_us, words.probability()),
    "reordering": lambda words: Reordering(
        words.at_us, words.probability(), words.duration_us("by", 5_000)
    ),
    "spike": lambda words: Spike(words.at_us, words.duration_us("for"), words.factor),
    "jump": lambda words: ClockJump(words.at_us, words.replica(), words.duration_us("by")),
    "skew": lambda words: ClockSkew(words.at_us, words.replica(), words.duration_us("by")),
    "slow-disk": lambda words: SlowDisk(
        words.at_us, words.replica(), words.duration_us("for"), words.duration_us("by")
    ),
    "slow-cpu": lambda words: SlowCpu(
        words.at_us, words.replica(), words.duration_us("for"), words.factor
    ),
    "garbage": lambda words: Garbage(words.at_us, words.duration_us("for"), words.probability()),
    "flips": lambda words: Garbage(
        words.at_us, words.duration_us("for"), words.probability(), flips=True
    ),
    "add": lambda words: Add(words.at_us, words.replica()),
    "remove": lambda words: Remove(words.at_us, words.replica()),
}


FAULT_EXAMPLES: dict[str, tuple[str, str]] = {
    "crash": ("crash 2 at 150ms", "replica 2 stops; what is not on its disk is lost"),
    "crash-writing": (
        "crash-writing 2 at 150ms",
        "it stops in the middle of its next write, which a disk that takes no time never has",
    ),
    "restart": ("restart 2 at 400ms", "it comes back with what its disk kept"),
    "die": ("die 2 at 400ms", "it stops for good: it does not come back at the end, as others do"),
    "die-telling": ("die-telling 2 at 400ms", "... right after its next promise to a leader"),
    "lose-disk": (
        "lose-disk 2 for 50ms at 400ms",
        "it stops, and comes back so much later with an empty disk, once nothing is lost by that",
    ),
    "partition": (
        "partition 0,1|2,3 at 1s",
        "only replicas of one group reach each other; those not named form one more group",
    ),
    "cut": ("cut 0>1 at 100ms", "nothing gets from 0 to 1; the way back is not touched"),
    "sever": ("sever 0>1 at 100ms", "... and nothing heals it, not even the end"),
    "heal": ("heal at 2s", "every partition and cut ends"),
    "loss": ("loss 10% at 0s", "from now on each message is lost with this probability"),
    "duplication": ("duplication 5% at 1s", "... arrives a second time, later"),
    "reordering": ("reordering 20% by 5ms at 1s", "... takes up to so much longer"),
    "spike": ("spike x5 for 100ms at 1s", "for a while, messages take 5 times as long"),
    "jump": ("jump 3 by -1h at 1s", "the clock of replica 3 jumps, forward or backward"),
    "skew": ("skew 3 by 1d at 0s", "it is set to true time and so much more, or less"),
    "slow-disk": ("slow-disk 1 by 20ms for 300ms at 1s", "for a while, each fsync takes longer"),
    "slow-cpu": ("slow-cpu 1 x10 for 300ms at 1s", "for a while, tasks take 10 times as long"),
    "garbage": (
        "garbage 5% for 200ms at 1s",
        "for a while, a forged message comes beside a real one with this probability",
    ),
    "flips": (
        "flips 5% for 200ms at 1s",
        "... or a real one with a bit flipped, which may break what Creek promises",
    ),
    "add": ("add 5 at 1s", "a new replica becomes a member; it gets the next number"),
    "remove": ("remove 2 at 2s", "replica 2 is a member no more, and stops once it knows"),
}
"""Of each fault an example and what it means; `...` goes on from the line above."""


def format_fault(fault: Fault) -> str:
    """The entry that `parse_fault` reads back as `fault`."""
    return f"{_format_body(fault, format_duration, str)} at {format_duration(fault.at_us)}"


def format_fault_rounded(fault: Fault) -> str:
    """The entry as people like to read it, with numbers rounded."""
    return (
        f"{_format_body(fault, format_duration_rounded, _rounded)} at "
        f"{format_duration_rounded(fault.at_us)}"
    )


def describe_fault(fault: Fault) -> str:
    """What happens to real replicas, for people; without when."""
    match fault:
        case Crash(replica=replica):
            return f"replica {replica} is killed (kill -9)"
        case Restart(replica=replica):
            return f"replica {replica} is started again"
        case Partition(groups=groups):
            sides = " | ".join(", ".join(map(str, group)) for group in groups)
            return f"the network is cut: {sides}"
        case Heal():
            return "the network heals"
        case _:
            return _format_body(fault, format_duration, str)


def format_duration_rounded(duration_us: int) -> str:
    """A duration to three digits."""
    rounded_us = round(duration_us, min(0, 3 - len(str(abs(duration_us)))))
    for unit, length_us in reversed(UNITS_US.items()):
        if abs(rounded_us) >= length_us:
            return f"{_rounded(rounded_us / length_us)}{unit}"
    return "0s"


def _rounded(number: float) -> str:
    return f"{float(f'{number:.3g}'):g}"


def format_duration(duration_us: int) -> str:
    """The shortest way to write a duration."""
    for unit, length_us in reversed(UNITS_US.items()):
        if duration_us and duration_us % length_us == 0:
            return f"{duration_us // length_us}{unit}"
    return "0s"


def _format_body(
    fault: Fault, duration: Callable[[int], str], number: Callable[[float], str]
) -> str:
    """All but when."""
    match fault:
        case Crash(replica=replica, writing=writing):
            return f"crash-writing {replica}" if writing else f"crash {replica}"
        case Restart(replica=replica):
            return f"restart {replica}"
        case Die(replica=replica, telling=telling):
            return f"die-telling {replica}" if telling else f"die {replica}"
        case LoseDisk(replica=replica, away_us=away_us):
            return f"lose-disk {replica} for {duration(away_us)}"
        case Partition(groups=groups):
            return "partition " + "|".join(",".join(map(str, group)) for group in groups)
        case Sever(sender=sender, receiver=receiver):
            return f"sever {sender}>{receiver}"
        case Cut(sender=sender, receiver=receiver):
            return f"cut {sender}>{receiver}"
        case Heal():
            return "heal"
        case Loss(probability=probability):
            return f"loss {number(probability)}"
        case Duplication(probability=probability):
            return f"duplication {number(probability)}"
        case Reordering(probability=probability, by_us=by_us):
            return f"reordering {number(probability)} by {duration(by_us)}"
        case Spike(duration_us=duration_us, factor=factor):
            return f"spike x{number(factor)} for {duration(duration_us)}"
        case ClockJump(replica=replica, by_us=by_us):
            return f"jump {replica} by {duration(by_us)}"
        case ClockSkew(replica=replica, by_us=by_us):
            return f"skew {replica} by {duration(by_us)}"
        case SlowDisk(replica=replica, duration_us=duration_us, by_us=by_us):
            return f"slow-disk {replica} by {duration(by_us)} for {duration(duration_us)}"
        case SlowCpu(replica=replica, duration_us=duration_us, factor=factor):
            return f"slow-cpu {replica} x{number(factor)} for {duration(duration_us)}"
        case Garbage(duration_us=duration_us, probability=probability, flips=flips):
            name = "flips" if flips else "garbage"
            return f"{name} {number(probability)} for {duration(duration_us)}"
        case Add(replica=replica):
            return f"add {replica}"
        case Remove(replica=replica):
            return f"remove {replica}"
        case _:
            assert_never(fault)
