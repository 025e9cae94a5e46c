"""Fault language: parses and formats fault schedules.

An entry is a name, a subject, and clauses in any order. Entries end at `;` or a line break:

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

Replicas that a partition does not name form one more group: with five replicas, `partition 0,1`
means `partition 0,1|2,3,4`. A duration has a unit, without a space before it: us, ms, s, m, h, d.
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
        entry = _FaultEntry(text)
        build = _BUILDERS.get(entry.name)
        if build is None:
            raise UnknownName("fault", entry.name, sorted(_BUILDERS))
        fault = build(entry)
        entry.finish()
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
    """One entry, split into its name, its subjects and its clauses."""

    def __init__(self, text: str) -> None:
        self.name, *remaining = text.split()
        self.clauses: dict[str, str] = {}
        self.subjects: list[str] = []
        while remaining:
            word = remaining.pop(0)
            if word in ("at", "by", "for"):
                if not remaining or word in self.clauses:
                    raise BadValue(f"'{word}' needs one duration")
                self.clauses[word] = remaining.pop(0)
                if remaining and remaining[0] in UNITS_US:
                    self.clauses[word] += f" {remaining.pop(0)}"  # rejected later, with a hint
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

    def subject(self, description: str) -> str:
        if not self.subjects:
            raise BadValue(f"{description} is missing")
        return self.subjects.pop(0)

    def replica(self) -> int:
        return self.index(self.subject("a replica"))

    def index(self, text: str) -> int:
        if not re.fullmatch(r"\d+", text):
            raise BadValue(f"'{text}' is not a replica: replicas are numbered from 0")
        return int(text)

    def number(self, text: str, description: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise BadValue(f"{description} is missing") from None

    def probability(self) -> float:
        text = self.subject("a probability such as 10% or 0.1")
        value = self.number(text.removesuffix("%"), "a probability such as 10% or 0.1")
        return value / 100 if text.endswith("%") else value

    def finish(self) -> None:
        unused = [*self.subjects, *self.clauses]
        if unused:
            raise BadValue(f"'{unused[0]}' is unexpected")


def _partition(entry: _FaultEntry) -> Fault:
    groups = entry.subject("groups such as 0,1|2,3,4").split("|")
    return Partition(
        entry.at_us,
        tuple(tuple(entry.index(each) for each in group.split(",")) for group in groups),
    )


def _cut(entry: _FaultEntry, kind: type[Cut] = Cut) -> Fault:
    sender, arrow, receiver = entry.subject("a direction such as 0>1").partition(">")
    if not arrow:
        raise BadValue("a cut needs a direction such as 0>1")
    return kind(entry.at_us, entry.index(sender), entry.index(receiver))


_BUILDERS: dict[str, Callable[[_FaultEntry], Fault]] = {
    "crash": lambda entry: Crash(entry.at_us, entry.replica()),
    "crash-writing": lambda entry: Crash(entry.at_us, entry.replica(), writing=True),
    "restart": lambda entry: Restart(entry.at_us, entry.replica()),
    "die": lambda entry: Die(entry.at_us, entry.replica()),
    "die-telling": lambda entry: Die(entry.at_us, entry.replica(), telling=True),
    "lose-disk": lambda entry: LoseDisk(entry.at_us, entry.replica(), entry.duration_us("for")),
    "partition": _partition,
    "cut": _cut,
    "sever": lambda entry: _cut(entry, Sever),
    "heal": lambda entry: Heal(entry.at_us),
    "loss": lambda entry: Loss(entry.at_us, entry.probability()),
    "duplication": lambda entry: Duplication(entry.at_us, entry.probability()),
    "reordering": lambda entry: Reordering(
        entry.at_us, entry.probability(), entry.duration_us("by", 5_000)
    ),
    "spike": lambda entry: Spike(entry.at_us, entry.duration_us("for"), entry.factor),
    "jump": lambda entry: ClockJump(entry.at_us, entry.replica(), entry.duration_us("by")),
    "skew": lambda entry: ClockSkew(entry.at_us, entry.replica(), entry.duration_us("by")),
    "slow-disk": lambda entry: SlowDisk(
        entry.at_us, entry.replica(), entry.duration_us("for"), entry.duration_us("by")
    ),
    "slow-cpu": lambda entry: SlowCpu(
        entry.at_us, entry.replica(), entry.duration_us("for"), entry.factor
    ),
    "garbage": lambda entry: Garbage(entry.at_us, entry.duration_us("for"), entry.probability()),
    "flips": lambda entry: Garbage(
        entry.at_us, entry.duration_us("for"), entry.probability(), flips=True
    ),
    "add": lambda entry: Add(entry.at_us, entry.replica()),
    "remove": lambda entry: Remove(entry.at_us, entry.replica()),
}


FAULT_EXAMPLES: dict[str, tuple[str, str]] = {
    "crash": ("crash 2 at 150ms", "replica 2 stops and loses everything that is not on its disk"),
    "crash-writing": (
        "crash-writing 2 at 150ms",
        "... in the middle of its next fsync; never, if the disk has no latency",
    ),
    "restart": ("restart 2 at 400ms", "replica 2 starts again with the state on its disk"),
    "die": ("die 2 at 400ms", "replica 2 stops permanently and does not restart at the end"),
    "die-telling": ("die-telling 2 at 400ms", "... right after its next promise to a leader"),
    "lose-disk": (
        "lose-disk 2 for 50ms at 400ms",
        "replica 2 stops once others hold its requests; 50 ms later it restarts with an empty disk",
    ),
    "partition": (
        "partition 0,1|2,3 at 1s",
        "only replicas of one group reach each other; replicas not named form one more group",
    ),
    "cut": ("cut 0>1 at 100ms", "messages from 0 to 1 are lost; the other way is unaffected"),
    "sever": ("sever 0>1 at 100ms", "... permanently, even after the end of all faults"),
    "heal": ("heal at 2s", "all partitions and cuts end"),
    "loss": ("loss 10% at 0s", "from then on, each message is lost with this probability"),
    "duplication": ("duplication 5% at 1s", "... arrives a second time, later"),
    "reordering": ("reordering 20% by 5ms at 1s", "... takes up to 5 ms longer"),
    "spike": ("spike x5 for 100ms at 1s", "for 100 ms, messages take 5 times as long"),
    "jump": ("jump 3 by -1h at 1s", "the clock of replica 3 jumps, forward or backward"),
    "skew": ("skew 3 by 1d at 0s", "the clock is set to true time plus one day"),
    "slow-disk": ("slow-disk 1 by 20ms for 300ms at 1s", "for 300 ms, fsyncs take 20 ms longer"),
    "slow-cpu": ("slow-cpu 1 x10 for 300ms at 1s", "for 300 ms, tasks take 10 times as long"),
    "garbage": (
        "garbage 5% for 200ms at 1s",
        "for 200 ms, a forged message accompanies a real one with this probability",
    ),
    "flips": (
        "flips 5% for 200ms at 1s",
        "... or a real one with a bit flipped, which Creek does not guarantee to tolerate",
    ),
    "add": ("add 5 at 1s", "a new replica becomes a member; it has the next unused number"),
    "remove": ("remove 2 at 2s", "replica 2 is removed from the members and then stops"),
}
"""An example and a description of each fault; `...` continues the line above."""


def format_fault(fault: Fault) -> str:
    """Return the entry that `parse_fault` parses back to `fault`."""
    return f"{_format_body(fault, format_duration, str)} at {format_duration(fault.at_us)}"


def format_fault_rounded(fault: Fault) -> str:
    """Return the entry with rounded numbers, for display."""
    return (
        f"{_format_body(fault, format_duration_rounded, _rounded)} at "
        f"{format_duration_rounded(fault.at_us)}"
    )


def describe_fault(fault: Fault) -> str:
    """Describe the effect of the fault on a live cluster, without its time."""
    match fault:
        case Crash(replica=replica):
            return f"replica {replica} is killed (kill -9)"
        case Restart(replica=replica):
            return f"replica {replica} is restarted"
        case Partition(groups=groups):
            group_names = " | ".join(", ".join(map(str, group)) for group in groups)
            return f"the network is partitioned: {group_names}"
        case Heal():
            return "the network heals"
        case _:
            return _format_body(fault, format_duration, str)


def format_duration_rounded(duration_us: int) -> str:
    """Format a duration with three significant digits."""
    rounded_us = round(duration_us, min(0, 3 - len(str(abs(duration_us)))))
    for unit, length_us in reversed(UNITS_US.items()):
        if abs(rounded_us) >= length_us:
            return f"{_rounded(rounded_us / length_us)}{unit}"
    return "0s"


def _rounded(number: float) -> str:
    return f"{float(f'{number:.3g}'):g}"


def format_duration(duration_us: int) -> str:
    """Format a duration in the largest unit that represents it exactly."""
    for unit, length_us in reversed(UNITS_US.items()):
        if duration_us and duration_us % length_us == 0:
            return f"{duration_us // length_us}{unit}"
    return "0s"


def _format_body(
    fault: Fault, duration: Callable[[int], str], number: Callable[[float], str]
) -> str:
    """Format the fault without its time."""
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
