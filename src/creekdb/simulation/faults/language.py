"""Fault language: parses and formats fault schedules, as the forms of the fault types state.

An entry is a name, a subject, and clauses in any order. Entries end at `;` or a line break:

    crash 2 at 150ms
    partition 0,1|2,3,4 at 1s; heal at 2s
    slow-disk 1 by 20ms for 300ms at 1s

Replicas that a partition does not name form one more group: with five replicas, `partition 0,1`
means `partition 0,1|2,3,4`. A duration has a unit, without a space before it: us, ms, s, m, h, d.
"""

import re
from typing import Any

import msgspec

from creekdb.errors import BadValue, UnknownName
from creekdb.simulation.faults.fault_types import (
    FAULT_FORMS,
    Crash,
    Fault,
    FaultForm,
    Heal,
    Partition,
    Restart,
    clauses,
    field_kinds,
    forms_of,
)
from creekdb.simulation.faults.fields import CLAUSES, EXACT, UNITS_US, NumberStyle

_FACTOR_CLAUSE, *_DURATION_CLAUSES = CLAUSES


def parse_faults(text: str) -> tuple[Fault, ...]:
    entries = (entry.strip() for entry in re.split(r"[;\n]", text))
    return tuple(parse_fault(entry) for entry in entries if entry)


def parse_fault(text: str) -> Fault:
    forms = {form.name: form for form in FAULT_FORMS}
    try:
        entry = _FaultEntry(text)
        if entry.name not in forms:
            raise UnknownName("fault", entry.name, sorted(forms))
        fault = _build_fault(entry, forms[entry.name])
        entry.finish()
    except BadValue as error:
        raise BadValue(f"fault '{text}': {error}") from error
    return fault


def fault_examples() -> list[tuple[str, str]]:
    """Return an example and a description of each fault."""
    return [(form.example, form.meaning) for form in FAULT_FORMS]


def format_fault(fault: Fault, style: NumberStyle = EXACT) -> str:
    """Return the entry. If exact, `parse_fault` parses it back to `fault`."""
    return " ".join(_words(fault, style))


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
            return " ".join(_words(fault, EXACT)[:-2])


def _words(fault: Fault, style: NumberStyle) -> list[str]:
    """Return the words of the entry, of which the last two are its time."""
    forms = [form for form in forms_of(type(fault)) if not form.flag or getattr(fault, form.flag)]
    kinds, fields = field_kinds(type(fault)), clauses(type(fault))
    words = [forms[-1].name]
    for clause in ("", *CLAUSES):
        texts = [kinds[each].format(getattr(fault, each), style) for each in fields.get(clause, ())]
        if texts:
            text = ">".join(texts)
            words += [clause, text] if clause in _DURATION_CLAUSES else [clause + text]
    return words


class _FaultEntry:
    """One entry, split into its name, its subjects and its clauses."""

    def __init__(self, text: str) -> None:
        self.name, *remaining = text.split()
        self.clauses: dict[str, str] = {}
        self.subjects: list[str] = []
        while remaining:
            word = remaining.pop(0)
            if word in _DURATION_CLAUSES:
                if not remaining or word in self.clauses:
                    raise BadValue(f"'{word}' needs one duration")
                self.clauses[word] = remaining.pop(0)
                if remaining and remaining[0] in UNITS_US:
                    self.clauses[word] += f" {remaining.pop(0)}"  # rejected later, with a hint
            elif re.fullmatch(r"x[\d.]+", word):
                self.clauses[_FACTOR_CLAUSE] = word[1:]
            else:
                self.subjects.append(word)

    def take(self, clause: str) -> str | None:
        """Return the text of a clause, or the next subject if `clause` is empty."""
        if clause:
            return self.clauses.pop(clause, None)
        return self.subjects.pop(0) if self.subjects else None

    def finish(self) -> None:
        unused = [*self.subjects, *self.clauses]
        if unused:
            raise BadValue(f"'{unused[0]}' is unexpected")


def _build_fault(entry: _FaultEntry, form: FaultForm) -> Fault:
    fault_type = form.fault_type
    kinds = field_kinds(fault_type)
    required = {each.name for each in msgspec.structs.fields(fault_type) if each.required}
    values: dict[str, Any] = {form.flag: True} if form.flag else {}
    for clause, fields in clauses(fault_type).items():
        description = kinds[fields[0]].description
        text = entry.take(clause)
        if text is not None:
            parts = text.split(">", len(fields) - 1)
            if len(parts) < len(fields):
                raise BadValue(f"a {entry.name} needs {description}")
            for field, part in zip(fields, parts, strict=True):
                values[field] = kinds[field].parse(part)
        elif fields[0] in required:
            has_duration = clause in _DURATION_CLAUSES
            missing = f"'{clause}' and a duration are" if has_duration else f"{description} is"
            raise BadValue(f"{missing} missing")
    return fault_type(**values)
