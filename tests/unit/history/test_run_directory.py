import zlib
from pathlib import Path
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from creekdb.checkers import CHECKERS, check_all, verdict_rows
from creekdb.errors import BadValue, StorageFault, UsageError
from creekdb.history import (
    History,
    SchemeGuarantees,
    load_run,
    load_run_config,
    save_run,
    save_verdicts,
)
from tests.checkers.story import CREEK, PRIMARY, STABLE_ONLY, Story, everyday, random_story


def _one_line(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert text
    assert "\n" not in text
    return text


@pytest.mark.parametrize("terms", [CREEK, PRIMARY, STABLE_ONLY])
@pytest.mark.parametrize("seed", range(20))
def test_a_run_comes_back_as_it_was_saved(
    tmp_path: Path, seed: int, terms: SchemeGuarantees
) -> None:
    history = random_story(seed, terms).history()
    save_run(history, tmp_path / "run")
    assert load_run(tmp_path / "run") == history


def test_values_of_every_kind_come_back(tmp_path: Path) -> None:
    value = (None, True, -1, 2**63, 1.5, "é", b"\x00", ("nested", ()), {"key": (1, 2)})
    story = Story(datatype="register")
    story.answer(story.weak(0, "write", value))
    story.settle()
    history = story.history()
    save_run(history, tmp_path / "run")
    back = load_run(tmp_path / "run")
    assert back == history
    assert back.operations[0].operation.arguments == (value,)
    assert dict(back.final_states[0].state) == dict(history.final_states[0].state)


def test_sequences_in_a_configuration_come_back_as_tuples(tmp_path: Path) -> None:
    config = {"faults": ({"at_us": 5, "links": ((0, 1),)},)}
    save_run(msgspec.structs.replace(everyday().history(), config=config), tmp_path / "run")
    assert load_run(tmp_path / "run").config == config


def test_a_run_of_creek_has_its_members_for_voters() -> None:
    history = everyday().history()
    assert history.voters == history.members


def test_a_state_that_replicas_share_is_stored_once(tmp_path: Path) -> None:
    history = everyday().history()
    text = Random(1).randbytes(100_000).hex()
    state = (("key", text),)
    shared = replace(
        history, final_states=tuple(replace(each, state=state) for each in history.final_states)
    )
    save_run(shared, tmp_path / "run")
    assert load_run(tmp_path / "run") == shared
    assert (tmp_path / "run" / "history.msgpack").stat().st_size < len(text)


def test_what_others_put_beside_a_run_is_there_when_the_run_is(tmp_path: Path) -> None:
    def beside(folder: Path) -> None:
        assert not (tmp_path / "run").exists()
        (folder / "table").write_text("rows")

    save_run(everyday().history(), tmp_path / "run", beside)
    assert (tmp_path / "run" / "table").read_text() == "rows"
    assert load_run(tmp_path / "run") == everyday().history()


def test_the_configuration_can_be_had_alone(tmp_path: Path) -> None:
    history = everyday().history()
    save_run(history, tmp_path / "run")
    (tmp_path / "run" / "history.msgpack").unlink()
    assert load_run_config(tmp_path / "run") == history.config


def test_a_run_is_never_written_over(tmp_path: Path) -> None:
    history = everyday().history()
    save_run(history, tmp_path / "run")
    with pytest.raises(UsageError, match="never written over") as error:
        save_run(Story().history(), tmp_path / "run")
    _one_line(error)
    assert load_run(tmp_path / "run") == history


def test_an_empty_folder_may_become_a_run(tmp_path: Path) -> None:
    save_run(everyday().history(), tmp_path)
    assert load_run(tmp_path) == everyday().history()


def test_an_interrupted_save_leaves_no_run_and_is_not_in_the_way(tmp_path: Path) -> None:
    aside = tmp_path / ".run.partial"
    aside.mkdir()
    (aside / "config.json").write_text("{")
    with pytest.raises(UsageError):
        load_run(tmp_path / "run")
    save_run(everyday().history(), tmp_path / "run")
    assert not aside.exists()


def test_a_folder_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run folder") as error:
        load_run(tmp_path / "nowhere")
    _one_line(error)


def test_a_run_of_another_schema_version_is_a_usage_error(tmp_path: Path) -> None:
    save_run(everyday().history(), tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    config.write_text(config.read_text().replace('"schema_version": 3', '"schema_version": 99'))
    with pytest.raises(UsageError, match="schema version 99; this Creek reads 3") as error:
        load_run(tmp_path / "run")
    _one_line(error)


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
def test_a_truncated_history_is_a_storage_fault(tmp_path: Path, kept: int) -> None:
    save_run(everyday().history(), tmp_path / "run")
    file = tmp_path / "run" / "history.msgpack"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(StorageFault, match="damaged") as error:
        load_run(tmp_path / "run")
    _one_line(error)


def test_a_missing_history_is_a_storage_fault(tmp_path: Path) -> None:
    save_run(everyday().history(), tmp_path / "run")
    (tmp_path / "run" / "history.msgpack").unlink()
    with pytest.raises(StorageFault, match="cannot read") as error:
        load_run(tmp_path / "run")
    _one_line(error)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "7", '{"schema_version": 1}', "\xff"])
def test_a_damaged_configuration_is_a_storage_fault(tmp_path: Path, text: str) -> None:
    save_run(everyday().history(), tmp_path / "run")
    (tmp_path / "run" / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(StorageFault, match="damaged") as error:
        load_run(tmp_path / "run")
    _one_line(error)


def test_a_history_of_other_content_is_a_storage_fault(tmp_path: Path) -> None:
    save_run(everyday().history(), tmp_path / "run")
    content = zlib.compress(msgspec.msgpack.encode({"logs": [1]}))
    (tmp_path / "run" / "history.msgpack").write_bytes(content)
    with pytest.raises(StorageFault, match="damaged") as error:
        load_run(tmp_path / "run")
    _one_line(error)


def test_a_configuration_that_is_not_json_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    history: History = msgspec.structs.replace(everyday().history(), config={"seed": {1, 2}})
    with pytest.raises(BadValue, match="JSON values only"):
        save_run(history, tmp_path / "run")
    assert not any(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_a_storage_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageFault, match="cannot write the run folder") as error:
        save_run(everyday().history(), tmp_path / "file" / "run")
    _one_line(error)


def test_verdicts_stand_beside_the_run_and_can_be_renewed(tmp_path: Path) -> None:
    history = everyday().history()
    save_run(history, tmp_path / "run")
    for judged in (msgspec.structs.replace(history, quiescent=False), history):
        save_verdicts(tmp_path / "run", verdict_rows(check_all(judged)))
    written = msgspec.json.decode((tmp_path / "run" / "verdicts.json").read_bytes())
    assert [each["verdict"] for each in written["verdicts"]] == ["ok"] * len(CHECKERS)
    assert load_run(tmp_path / "run") == history


def test_verdicts_without_a_run_are_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run folder"):
        save_verdicts(tmp_path, [])
