import zlib
from pathlib import Path
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from creekdb.checkers import CHECKERS, Illegal, Witness, check_all, verdict_rows
from creekdb.errors import BadValue, StorageFault, UsageError
from creekdb.history import (
    History,
    Outcome,
    SchemeGuarantees,
    load_run,
    load_run_config,
    save_run,
    save_verdicts,
)
from tests.unit.checkers.history_builder import (
    CREEK,
    PRIMARY,
    STABLE_ONLY,
    HistoryBuilder,
    random_run,
    typical_run,
)


def _one_line(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert text
    assert "\n" not in text
    return text


@pytest.mark.parametrize("guarantees", [CREEK, PRIMARY, STABLE_ONLY])
@pytest.mark.parametrize("seed", range(20))
def test_a_loaded_run_equals_the_saved_one(
    tmp_path: Path, seed: int, guarantees: SchemeGuarantees
) -> None:
    history = random_run(seed, guarantees).history()
    save_run(history, tmp_path / "run")
    assert load_run(tmp_path / "run") == history


def test_values_of_every_kind_are_preserved(tmp_path: Path) -> None:
    value = (None, True, -1, 2**63, 1.5, "é", b"\x00", ("nested", ()), {"key": (1, 2)})
    builder = HistoryBuilder(datatype="register")
    builder.respond(builder.invoke_weak(0, "write", value))
    builder.quiesce()
    history = builder.history()
    save_run(history, tmp_path / "run")
    loaded = load_run(tmp_path / "run")
    assert loaded == history
    assert loaded.operations[0].operation.arguments == (value,)
    assert dict(loaded.final_states[0].state) == dict(history.final_states[0].state)


def test_sequences_in_a_configuration_are_loaded_as_tuples(tmp_path: Path) -> None:
    config = {"faults": ({"at_us": 5, "links": ((0, 1),)},)}
    save_run(msgspec.structs.replace(typical_run().history(), config=config), tmp_path / "run")
    assert load_run(tmp_path / "run").config == config


def test_the_members_are_the_voters_by_default() -> None:
    history = typical_run().history()
    assert history.voters == history.members


def test_a_shared_state_is_stored_once(tmp_path: Path) -> None:
    history = typical_run().history()
    text = Random(1).randbytes(100_000).hex()
    state = (("key", text),)
    shared = replace(
        history, final_states=tuple(replace(each, state=state) for each in history.final_states)
    )
    save_run(shared, tmp_path / "run")
    assert load_run(tmp_path / "run") == shared
    assert (tmp_path / "run" / "history.msgpack").stat().st_size < len(text)


def test_additional_files_are_part_of_the_atomic_write(tmp_path: Path) -> None:
    def add_files(directory: Path) -> None:
        assert not (tmp_path / "run").exists()
        (directory / "table").write_text("rows")

    save_run(typical_run().history(), tmp_path / "run", add_files)
    assert (tmp_path / "run" / "table").read_text() == "rows"
    assert load_run(tmp_path / "run") == typical_run().history()


def test_the_configuration_is_loaded_without_the_history(tmp_path: Path) -> None:
    history = typical_run().history()
    save_run(history, tmp_path / "run")
    (tmp_path / "run" / "history.msgpack").unlink()
    assert load_run_config(tmp_path / "run") == history.config


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    history = typical_run().history()
    save_run(history, tmp_path / "run")
    with pytest.raises(UsageError, match="never overwritten") as error:
        save_run(HistoryBuilder().history(), tmp_path / "run")
    _one_line(error)
    assert load_run(tmp_path / "run") == history


def test_an_empty_directory_may_become_a_run(tmp_path: Path) -> None:
    save_run(typical_run().history(), tmp_path)
    assert load_run(tmp_path) == typical_run().history()


def test_an_interrupted_save_leaves_no_run_and_can_be_repeated(tmp_path: Path) -> None:
    partial = tmp_path / ".run.partial"
    partial.mkdir()
    (partial / "config.json").write_text("{")
    with pytest.raises(UsageError):
        load_run(tmp_path / "run")
    save_run(typical_run().history(), tmp_path / "run")
    assert not partial.exists()


def test_a_missing_directory_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run directory") as error:
        load_run(tmp_path / "missing")
    _one_line(error)


@pytest.mark.parametrize("version", [2, 99])
def test_another_schema_version_is_a_usage_error(tmp_path: Path, version: int) -> None:
    save_run(typical_run().history(), tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    config.write_text(
        config.read_text().replace('"schema_version": 3', f'"schema_version": {version}')
    )
    with pytest.raises(UsageError, match=f"schema version {version}; this Creek reads 3") as error:
        load_run(tmp_path / "run")
    _one_line(error)


@pytest.mark.parametrize("length", [0, 1, 100, -1])
def test_a_truncated_history_is_a_storage_fault(tmp_path: Path, length: int) -> None:
    save_run(typical_run().history(), tmp_path / "run")
    file = tmp_path / "run" / "history.msgpack"
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(StorageFault, match="damaged") as error:
        load_run(tmp_path / "run")
    _one_line(error)


def test_a_missing_history_is_a_storage_fault(tmp_path: Path) -> None:
    save_run(typical_run().history(), tmp_path / "run")
    (tmp_path / "run" / "history.msgpack").unlink()
    with pytest.raises(StorageFault, match="cannot read") as error:
        load_run(tmp_path / "run")
    _one_line(error)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "7", '{"schema_version": 1}', "\xff"])
def test_a_damaged_configuration_is_a_storage_fault(tmp_path: Path, text: str) -> None:
    save_run(typical_run().history(), tmp_path / "run")
    (tmp_path / "run" / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(StorageFault, match="damaged") as error:
        load_run(tmp_path / "run")
    _one_line(error)


def test_a_history_with_other_content_is_a_storage_fault(tmp_path: Path) -> None:
    save_run(typical_run().history(), tmp_path / "run")
    content = zlib.compress(msgspec.msgpack.encode({"logs": [1]}))
    (tmp_path / "run" / "history.msgpack").write_bytes(content)
    with pytest.raises(StorageFault, match="damaged") as error:
        load_run(tmp_path / "run")
    _one_line(error)


def test_a_configuration_that_is_not_json_is_rejected_before_the_write(
    tmp_path: Path,
) -> None:
    history: History = msgspec.structs.replace(typical_run().history(), config={"seed": {1, 2}})
    with pytest.raises(BadValue, match="may contain JSON values only"):
        save_run(history, tmp_path / "run")
    assert not any(tmp_path.iterdir())


def test_an_unwritable_directory_is_a_storage_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(StorageFault, match="cannot write the run directory") as error:
        save_run(typical_run().history(), tmp_path / "file" / "run")
    _one_line(error)


def test_verdicts_are_stored_with_the_run_and_can_be_replaced(tmp_path: Path) -> None:
    history = typical_run().history()
    save_run(history, tmp_path / "run")
    for checked in (msgspec.structs.replace(history, quiescent=False), history):
        save_verdicts(tmp_path / "run", verdict_rows(check_all(checked)))
    written = msgspec.json.decode((tmp_path / "run" / "verdicts.json").read_bytes())
    assert [each["verdict"] for each in written["verdicts"]] == ["ok"] * len(CHECKERS)
    assert load_run(tmp_path / "run") == history


def test_verdicts_without_a_run_are_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run directory"):
        save_verdicts(tmp_path, [])


def test_stored_keys_do_not_follow_the_attributes(tmp_path: Path) -> None:
    """Runs of schema version 3 stay readable if an attribute is renamed."""
    save_run(typical_run().history(), tmp_path / "run")
    file = tmp_path / "run" / "history.msgpack"
    stored = msgspec.msgpack.decode(zlib.decompress(file.read_bytes()))

    assert set(stored) == {
        *("datatype", "members", "quiescent", "operations", "logs", "states", "finals", "terms")
    }
    assert set(stored["operations"][0]) == {
        *("session", "replica", "incarnation", "id", "operation", "strong", "invoked_us", "answers")
    }
    assert set(stored["operations"][0]["answers"][0]) == {
        *("at_us", "kind", "outcome", "changed", "observed")
    }
    assert set(stored["logs"][0]) == {
        *("replica", "incarnation", "started_us", "crashed_us", "events"),
        *("known", "anew", "dismissed"),
    }


def test_a_run_with_the_old_keys_is_loaded(tmp_path: Path) -> None:
    stored = {
        "datatype": "list",
        "members": [0],
        "quiescent": True,
        "operations": [
            {
                "session": 4,
                "replica": 0,
                "incarnation": 1,
                "id": [0, 1],
                "operation": ["append", ["a"]],
                "strong": False,
                "invoked_us": 10,
                "answers": [{"at_us": 20, "kind": "tentative", "outcome": [1, None]}],
            }
        ],
        "logs": [
            {
                "replica": 0,
                "incarnation": 1,
                "started_us": 0,
                "crashed_us": None,
                "events": [],
                "known": 0,
                "anew": True,
                "dismissed": True,
            }
        ],
        "states": [],
        "finals": [],
        "terms": {},
    }
    save_run(HistoryBuilder().history(), tmp_path / "run")
    content = zlib.compress(msgspec.msgpack.encode(stored))
    (tmp_path / "run" / "history.msgpack").write_bytes(content)
    history = load_run(tmp_path / "run")

    (record,), (log,) = history.operations, history.logs
    assert [(each.at_us, each.outcome) for each in record.responses] == [(20, Outcome(1))]
    assert (log.visible_count, log.has_empty_disk, log.is_removed) == (0, True, True)


def test_witnesses_are_stored_with_the_keys_who_and_what() -> None:
    witness = Witness(actor="replica 0", observation="RB-delivered 0.1", at_us=5)
    (row,) = verdict_rows([Illegal("promises", "illegal", (witness,))])
    assert row == {
        "verdict": "illegal",
        "checker": "promises",
        "message": "illegal",
        "counterexample": (
            {"who": "replica 0", "what": "RB-delivered 0.1", "at_us": 5, "id": None},
        ),
    }
