"""Checks of a round: what its clients observed, its quiescence, and a restored backup."""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from creekdb.checkers import Illegal, Ok, Verdict
from creekdb.checkers.blackbox import (
    CallStatus,
    Judgement,
    Model,
    ObservedCall,
    ObservedRun,
    get_model,
)
from creekdb.checkers.blackbox.exactly_once import check_exactly_once
from creekdb.checkers.blackbox.final_states import check_final_states
from creekdb.checkers.blackbox.registry import judge_by_datatype, judge_linearizability
from creekdb.execution.keys import CALLS_PREFIX
from creekdb.history import History, merge_recordings
from creekdb.protocol.membership.configuration import MEMBERSHIP_KEY
from creekdb.protocol.values import is_same_value
from creekdb.server.backup.format import read_registers
from creekdb.server.backup.restore import restore
from creekdb.torture.processes import ReplicaProcesses
from creekdb.torture.workload import SHARED_PREFIX, Subject

STEPS_MAX: Final = 100_000
"""Upper bound for the steps of the search for a linearization of one key."""
RESTORED_CLUSTER: Final = "creek-restored"


def judge_observations(run: ObservedRun, model: Model | None = None) -> list[Judgement]:
    """Return the judgements of the black-box checkers that apply to the data type of the run.

    Of the key-value store, only the calls on shared keys are searched for a linearization. Other
    keys are written once, or only counted. Calls of other data types are searched if there is a
    model of them.
    """
    judgements = [Judgement(check_exactly_once(run)), Judgement(check_final_states(run))]
    judgements += judge_by_datatype(run)
    if model is not None:
        judgements.append(judge_linearizability(run, model, STEPS_MAX))
    elif run.datatype == "kv":
        shared = tuple(filter(_uses_shared_key, run.calls))
        searched = msgspec.structs.replace(run, calls=(*shared, *_final_reads(run, shared)))
        judgements.append(judge_linearizability(searched, get_model("kv"), STEPS_MAX))
    return judgements


def _final_reads(run: ObservedRun, calls: Iterable[ObservedCall]) -> Iterator[ObservedCall]:
    """Yield a read of each key that the calls use, with its final value, after all calls."""
    if not run.final_states or not run.calls:
        return
    replica, state = next(iter(run.final_states.items()))
    end_us = 1 + max(
        max(each.invoked_us, each.responded_us or 0, each.final.responded_us if each.final else 0)
        for each in run.calls
    )
    for key in sorted({each.arguments[0] for each in calls}):
        yield ObservedCall(
            client=f"final state of replica {replica}",
            operation="get",
            arguments=(key,),
            invoked_us=end_us,
            responded_us=end_us,
            status=CallStatus.OK,
            value=state.get(key),
        )


def _uses_shared_key(call: ObservedCall) -> bool:
    return bool(call.arguments) and str(call.arguments[0]).startswith(SHARED_PREFIX)


def check_quiescence(history: History) -> Verdict:
    if history.quiescent:
        return Ok("quiescence")
    return Illegal("quiescence", "replicas had work left after all faults were healed")


async def check_backup(backup: Path, subject: Subject, directory: Path) -> Verdict:
    """Restore the backup in a new cluster of one replica, and compare its state."""
    directory.mkdir()
    await asyncio.to_thread(
        restore,
        backup,
        {0: directory / "0"},
        cluster=RESTORED_CLUSTER,
        members=(0,),
        datatype=subject.datatype.name,
    )
    options = ("--cluster", RESTORED_CLUSTER, "--datatype", subject.name)
    recorded = directory / "recorded"
    with ReplicaProcesses(directory, 1, *options, "--record", str(recorded)) as processes:
        await processes.until_quiescent()
        processes.stop(0)
    restored = _user_state(merge_recordings(recorded).final_states[0].state)
    expected = _user_state(tuple(read_registers(backup)))
    if is_same_value(tuple(restored.items()), tuple(expected.items())):
        return Ok("backups")
    differing = [key for key in restored | expected if restored.get(key) != expected.get(key)]
    return Illegal("backups", f"the restored state differs in the register {differing[0]!r}")


def _user_state(registers: tuple[tuple[Any, Any], ...]) -> dict[Any, Any]:
    """Return the registers, sorted, without those of deduplication and membership."""
    return dict(
        sorted(
            (
                (key, value)
                for key, value in registers
                if not (isinstance(key, tuple) and key[0] == CALLS_PREFIX) and key != MEMBERSHIP_KEY
            ),
            key=lambda item: repr(item[0]),
        )
    )
