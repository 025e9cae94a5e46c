"""Any file gives verdicts or an error of one line, with every model."""

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.checkers.blackbox import MODELS, ObservedRun, encode_calls, get_model, judge
from creekdb.checkers.blackbox.final_states import check_final_states
from creekdb.checkers.blackbox.history_files.reader import read_calls
from creekdb.datatypes import DATATYPES
from creekdb.errors import UsageError
from tests.fuzzing.mutations import random_damage, random_variant
from tests.unit.checkers.blackbox.observed_histories import call, random_history

STEPS_MAX = 2_000
PLAIN_CALLS: dict[str, list[tuple[str, Any]]] = {
    "register": [("write", 1), ("read", None), ("cas", [1, 2]), ("read", None)],
    "text-kv": [("put", "a"), ("append", "b"), ("get", None)],
}
"""Calls of the models that are no data types, each with a value."""
OPERATIONS = (
    ("put", ["x", 1]),
    ("increment", ["n", 2]),
    ("get", ["n"]),
    ("scan", [""]),
    ("run", [["append", "x", 1], ["w", "y", 2], ["r", "x", None]]),
    ("txn", [[["r", "x", None]]]),
)


@cache
def lines_of(model: str) -> list[bytes]:
    """Return some calls and events of the model, as lines."""
    lines = [_event(each, f, value) for each in _TYPES for f, value in PLAIN_CALLS.get(model, ())]
    lines += [_edn(each) for each in lines]
    if model in DATATYPES:
        history = random_history(DATATYPES[model], seed=1, count=20, clients=3, weak_share=0.3)
        lines += encode_calls(history).splitlines()
    weak = call("a", "get", "x", at=(0, 5), value=1, strong=False)
    line = msgspec.json.decode(encode_calls([weak]))
    final = {"responded_us": 9, "status": "ok", "value": 1, "changed": False}
    for operation, arguments in OPERATIONS:
        named = line | {"operation": operation, "arguments": arguments}
        lines += [msgspec.json.encode(each) for each in (named, named | {"final": final})]
        lines.append(msgspec.json.encode(named | {"strong": True}))
    return lines


_TYPES = ("invoke", "ok", "info")


def _event(kind: str, f: str, value: Any) -> bytes:
    return msgspec.json.encode({"process": 0, "type": kind, "f": f, "key": "x", "value": value})


def _edn(line: bytes) -> bytes:
    return line.replace(b'"process":', b":process ").replace(b'":', b" ")


def judge_file(path: Path, data: bytes, model: str) -> None:
    """Judge the file. Raise an error unless the outcome is a verdict or a usage error."""
    path.write_bytes(data)
    specification = get_model(model)
    try:
        run = ObservedRun(datatype=model, calls=read_calls(path, specification))
    except UsageError:
        return
    for verdict, _ in judge(run, specification, STEPS_MAX):
        verdict.describe()
    for each in run.calls:
        state = {key: each.value for key in each.arguments if isinstance(key, str)}
        final = msgspec.structs.replace(run, final_states={"0": state})
        check_final_states(final).describe()
        for verdict, _ in judge(final, specification, STEPS_MAX)[1:]:
            verdict.describe()


@pytest.mark.parametrize("model", MODELS)
@given(seed=st.integers(0, 2**32))
def test_damaged_lines_obey_the_rule(
    tmp_path_factory: pytest.TempPathFactory, model: str, seed: int
) -> None:
    path, random = tmp_path_factory.getbasetemp() / "damaged", Random(seed)
    lines = [random.choice(lines_of(model)) for _ in range(6)]
    lines[random.randrange(6)] = random_damage(random, lines)
    judge_file(path, b"\n".join(lines), model)


@pytest.mark.parametrize("model", MODELS)
@given(seed=st.integers(0, 2**32))
def test_misshapen_lines_obey_the_rule(
    tmp_path_factory: pytest.TempPathFactory, model: str, seed: int
) -> None:
    path, random = tmp_path_factory.getbasetemp() / "misshapen", Random(seed)
    lines = [random.choice(lines_of(model)) for _ in range(6)]
    for at in (random.randrange(6), random.randrange(6)):
        if lines[at].startswith(b'{"'):
            variant = random_variant(random, msgspec.json.decode(lines[at]))
            lines[at] = msgspec.json.encode(variant)
    judge_file(path, b"\n".join(lines), model)
