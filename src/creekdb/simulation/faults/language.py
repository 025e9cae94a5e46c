"""Fault language: parses and formats fault schedules, as the forms of the fault types state.

An entry is a name, a subject, and clauses in any order. Entries end at `;` or a line break:

    crash 2 at 150ms
    partition 0,1|2,3,4 at 1s; heal at 2s
    slow-disk 1 by 20ms for 300ms at 1s

Replicas that a partition does not name form one more group: with five replicas, `partition 0,1`
means `partition 0,1|2,3,4`. A duration has a unit, without a space before it: us, ms, s, m, h, d.
"""

import re
from collections.abc import Iterator
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
    field_kinds,
    forms_of,
)
from creekdb.simulation.faults.fields import EXACT, UNITS_US, NumberStyle

_CLAUSES = ("at", "by", "for")
_FIELD = re.compile(r"{(\w+)}")


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
    return f"{_format_body(fault, style)} at {style.duration(fault.at_us)}"


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
            return _format_body(fault, EXACT)


def _format_body(fault: Fault, style: NumberStyle) -> str:
    """Format the fault without its time."""
    forms = [form for form in forms_of(type(fault)) if not form.flag or getattr(fault, form.flag)]
    kinds = field_kinds(type(fault))
    texts = {name: kind.format(getattr(fault, name), style) for name, kind in kinds.items()}
    return forms[-1].template.format_map(texts)


class _FaultEntry:
    """One entry, split into its name, its subjects and its clauses."""

    def __init__(self, text: str) -> None:
        self.name, *remaining = text.split()
        self.clauses: dict[str, str] = {}
        self.subjects: list[str] = []
        while remaining:
            word = remaining.pop(0)
            if word in _CLAUSES:
                if not remaining or word in self.clauses:
                    raise BadValue(f"'{word}' needs one duration")
                self.clauses[word] = remaining.pop(0)
                if remaining and remaining[0] in UNITS_US:
                    self.clauses[word] += f" {remaining.pop(0)}"  # rejected later, with a hint
            elif re.fullmatch(r"x[\d.]+", word):
                self.clauses["x"] = word[1:]
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
    order = fault_type.__struct_fields__.index
    values: dict[str, Any] = {form.flag: True} if form.flag else {}
    for clause, fields in sorted(_arguments(form), key=lambda argument: order(argument[1][0])):
        description = kinds[fields[0]].description
        text = entry.take(clause)
        if text is not None:
            parts = text.split(">", len(fields) - 1)
            if len(parts) < len(fields):
                raise BadValue(f"a {entry.name} needs {description}")
            for field, part in zip(fields, parts, strict=True):
                values[field] = kinds[field].parse(part)
        elif fields[0] in required:
            missing = (
                f"'{clause}' and a duration are" if clause in _CLAUSES else f"{description} is"
            )
            raise BadValue(f"{missing} missing")
    return fault_type(**values)


def _arguments(form: FaultForm) -> Iterator[tuple[str, list[str]]]:
    """Yield the clause, or an empty string, and the fields of each argument.

    An argument with several fields separates them with `>`.
    """
    clause = ""
    for word in f"{form.template} at {{at_us}}".split()[1:]:
        if word in _CLAUSES:
            clause = word
        else:
            yield clause or ("x" if word.startswith("x{") else ""), _FIELD.findall(word)
            clause = ""
