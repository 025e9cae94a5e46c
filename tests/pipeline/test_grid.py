"""Grids: cells, names and errors."""

import json
from pathlib import Path
from typing import Any

import pytest

from creekdb.errors import UsageError
from creekdb.evaluation import EXTENSIONS, Experiment
from creekdb.pipeline.stages.grid import BUILT_IN_GRIDS, Grid, cell_name, load_grid, parse_grid


def grid_of(*blocks: dict[str, Any]) -> Grid:
    return parse_grid("mine.toml", {"block": list(blocks)})


def test_a_block_is_a_cross_product() -> None:
    grid = grid_of({"scheme": ["creek", "smr"], "load_tps": [100, 200], "seed": [0, 1, 2]})
    assert len(grid.cells) == 12
    assert {(each.experiment.scheme, each.experiment.seed) for each in grid.cells} == {
        (scheme, seed) for scheme in ("creek", "smr") for seed in (0, 1, 2)
    }


def test_other_fields_have_defaults() -> None:
    (cell,) = grid_of({}).cells
    assert cell.experiment == Experiment()


def test_every_field_of_an_experiment_can_be_set() -> None:
    (cell,) = grid_of(
        {
            "scheme": "archie",
            "warehouses": 3,
            "load_tps": 1500.5,
            "strong_share": 0.25,
            "exec_scale": 2,
            "replicas": 3,
            "cores": 8,
            "layout": "fine",
            "seed": 4,
            "duration": "200ms",
            "warm_up": "50ms",
            "local_reads": True,
            "decided_only": True,
            "regions": 3,
            "clock_skew": "2ms",
            "faults": "partition 0,1 at 10ms; heal at 20ms",
        }
    ).cells
    assert cell.experiment == Experiment(
        scheme="archie",
        warehouses=3,
        load_tps=1500.5,
        strong_share=0.25,
        exec_scale=2,
        replicas=3,
        cores=8,
        layout="fine",
        seed=4,
        duration_us=200_000,
        warm_up_us=50_000,
        local_reads=True,
        decided_only=True,
        regions=3,
        clock_skew_us=2_000,
        faults=("partition 0,1 at 10ms", "heal at 20ms"),
    )
    assert cell.name.startswith(
        "archie-w3-1500.5tps-strong0.25-x2-n3-c8-fine-local-decided-regions3-skew2ms-"
        "partition_0_1_at_10ms_heal_at_20ms_"
    )
    assert cell.name.endswith("-200ms-after50ms-s4")


def test_names_omit_defaults() -> None:
    assert cell_name(Experiment(load_tps=10_000)) == "creek-w5-10000tps-s0"


def test_similar_faults_have_distinct_names() -> None:
    faults = ["partition 0,1|2 at 1ms", "partition 0|1,2 at 1ms"]
    names = {cell.name for cell in grid_of({"faults": faults}).cells}
    assert len(names) == 2
    assert all("/" not in name and " " not in name for name in names)


def test_an_experiment_in_two_blocks_is_one_cell() -> None:
    assert len(grid_of({"seed": [0, 1]}, {"seed": [1, 2]}).cells) == 3


def test_transactions_determine_the_duration() -> None:
    cells = grid_of({"transactions": 4000, "load_tps": [1000, 30_000, 400_000]}).cells
    assert [each.experiment.duration_us for each in cells] == [4_000_000, 134_000, 100_000]


@pytest.mark.parametrize("name", BUILT_IN_GRIDS)
def test_built_in_grids_have_distinct_cell_names(name: str) -> None:
    grid = load_grid(name)
    assert len({cell.name for cell in grid.cells}) == len(grid.cells)


@pytest.mark.parametrize("name", ["quick", "paper"])
def test_grids_of_the_paper_have_its_schemes_and_no_extension(name: str) -> None:
    grid = load_grid(name)
    assert not any(each.experiment.extensions for each in grid.cells)
    assert all(each.experiment.regions == 1 for each in grid.cells)
    assert {"smr", "bayou", "archie", "creek"} == {each.experiment.scheme for each in grid.cells}
    assert any(each.experiment.faults for each in grid.cells)


def test_the_paper_grid_covers_section_6() -> None:
    experiments = [cell.experiment for cell in load_grid("paper").cells]
    assert {1, 5, 20} <= {each.warehouses for each in experiments}
    assert {0.1, 0.43, 0.5} <= {each.strong_share for each in experiments}
    assert {3, 5, 7} <= {each.replicas for each in experiments}
    assert {8, 16, 32} <= {each.cores for each in experiments}
    assert {1.0, 5.0} == {each.exec_scale for each in experiments}
    assert {(1, "fine"), (5, "fine"), (20, "fine")} <= {
        (each.warehouses, each.layout) for each in experiments
    }
    figure_1 = [each for each in experiments if (each.scheme, each.warehouses) == ("creek", 5)]
    assert max(each.load_tps for each in figure_1) == 44_000


def test_the_beyond_grid_compares_every_set_of_extensions() -> None:
    experiments = [cell.experiment for cell in load_grid("beyond").cells]
    sets = {each.extensions for each in experiments if each.load_tps == 10_000}
    wide_area = {(each.regions, each.replicas) for each in experiments if each.regions > 1}
    assert sets >= {tuple(EXTENSIONS), (), *((name,) for name in EXTENSIONS)}
    assert wide_area == {(3, 3), (5, 5)}
    assert len({each.clock_skew_us for each in experiments}) > 2
    assert any(each.recorded and each.extensions for each in experiments)


def test_extensions_are_selected_by_name_or_word() -> None:
    grid = grid_of({"extensions": ["none", "each", "stepwise", "all"]})
    chosen = [cell.experiment.extensions for cell in grid.cells]
    names = [cell.name for cell in grid.cells]
    assert chosen[0] == ()
    assert set(chosen) >= {tuple(EXTENSIONS), *((name,) for name in EXTENSIONS)}
    assert len(chosen) == len(set(chosen))
    assert names[0] == "creek-w5-2000tps-s0"
    assert f"creek-w5-2000tps-{'-'.join(EXTENSIONS)}-s0" in names


def test_toml_and_json_are_equivalent(tmp_path: Path) -> None:
    toml, as_json = tmp_path / "mine.toml", tmp_path / "mine.json"
    toml.write_text('[[block]]\nscheme = ["creek", "smr"]\nduration = "90ms"\n')
    content = {"block": [{"scheme": ["creek", "smr"], "duration": "90ms"}]}
    as_json.write_text(json.dumps(content))
    assert load_grid(str(toml)).cells == load_grid(str(as_json)).cells


@pytest.mark.parametrize(
    ("block", "key", "message"),
    [
        ({"schem": "creek"}, "schem", "unknown key 'schem': expected one of scheme, warehouses"),
        ({"scheme": ["creek", "best"]}, "scheme", "unknown scheme 'best': expected one of"),
        ({"warehouses": 0}, "warehouses", "it must be at least 1"),
        ({"warehouses": 10**9}, "warehouses", "must be from 1 to 100000"),
        ({"warehouses": "5"}, "warehouses", "'5' is not a whole number, such as 5"),
        ({"load_tps": ["many"]}, "load_tps", "'many' is not a number, such as 2000"),
        ({"scheme": "creek", "load_tps": {"a": 1}}, "load_tps", "is not a number"),
        ({"load_tps": "many", "scheme": "none"}, "load_tps", "is not a number"),
        ({"scheme": "none", "load_tps": "many"}, "scheme", "unknown scheme 'none'"),
        ({"scheme": 3}, "scheme", "3 is not a text, such as creek"),
        ({"strong_share": "half"}, "strong_share", "'half' is not a number"),
        ({"load_tps": [100, -1]}, "load_tps", "it must be above 0"),
        ({"load_tps": float("nan")}, "load_tps", "it must be above 0"),
        ({"strong_share": 2}, "strong_share", "it must be between 0 and 1"),
        ({"exec_scale": 0}, "exec_scale", "it must be above 0"),
        ({"replicas": 0}, "replicas", "it must be from 1 to 99"),
        ({"cores": True}, "cores", "True is not a whole number, such as 16"),
        ({"layout": "columns"}, "layout", "unknown layout 'columns'"),
        ({"seed": -1}, "seed", "it must be at least 0"),
        ({"seed": []}, "seed", "the list is empty"),
        ({"duration": 5}, "duration", "5 is not a text; write a number with its unit"),
        ({"duration": "5"}, "duration", "'5' is not a duration"),
        ({"duration": "1s", "warm_up": "2s"}, "warm_up", "2s must be shorter than the duration"),
        ({"duration": "1s", "warm_up": "1s"}, "warm_up", "1s must be shorter than the duration"),
        ({"duration": "0s"}, "duration", "must be longer than 0"),
        ({"warm_up": "3s", "duration": "5s", "seed": -1}, "seed", "it must be at least 0"),
        (
            {"duration": "1s", "transactions": 5},
            "transactions",
            "cannot be combined with 'duration'",
        ),
        ({"transactions": 0}, "transactions", "0 is not a whole number above 0"),
        ({"transactions": 9, "load_tps": "x"}, "load_tps", "'x' is not a number above 0"),
        ({"local_reads": 1}, "local_reads", "1 is not true or false"),
        ({"extensions": "speed"}, "extensions", "unknown extension 'speed': expected one of"),
        ({"extensions": [True]}, "extensions", "True is not a text; write names separated by"),
        ({"estimates": True}, "estimates", "unknown key 'estimates'"),
        ({"regions": 4}, "regions", "unknown regions '4': expected one of 1, 3, 5"),
        ({"clock_skew": 5}, "clock_skew", "5 is not a text; write a number with its unit"),
        ({"clock_skew": "1h"}, "clock_skew", "it must be from 0 to 1000000"),
        ({"faults": ["explode 1 at 1ms"]}, "faults", "unknown fault 'explode'"),
        ({"faults": [["crash 1 at 1ms"]]}, "faults", "is not a text"),
        ({"faults": "crash 4 at 1ms", "replicas": 3}, "faults", "replicas are 0 to 2"),
    ],
)
def test_an_error_names_file_block_and_key(block: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        grid_of({"seed": 1}, block)
    text = str(error.value)
    assert text.startswith(f"mine.toml, block 2, key '{key}': ")
    assert message in text
    assert "\n" not in text


@pytest.mark.parametrize("content", [[], {}, {"block": []}, {"blok": [{}]}, {"block": {}}, 7])
def test_a_grid_is_a_list_of_blocks(content: Any) -> None:
    with pytest.raises(UsageError, match=r"^mine.toml is not a grid"):
        parse_grid("mine.toml", content)


def test_a_block_is_a_table() -> None:
    with pytest.raises(UsageError, match=r"^mine.toml, block 1: not a table"):
        parse_grid("mine.toml", {"block": [3]})


def test_the_number_of_cells_is_limited() -> None:
    with pytest.raises(UsageError, match="exceeds 100000 experiments"):
        grid_of({"seed": list(range(1000)), "load_tps": list(range(1, 1000))})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "[[block", "is not TOML"),
        ("a.json", "{", "is not JSON"),
        ("a.toml", "\udcff", "cannot read the grid"),
    ],
)
def test_an_unreadable_file_is_reported_by_name(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    file = tmp_path / name
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=message) as error:
        load_grid(str(file))
    assert str(file) in str(error.value)


def test_an_unknown_grid_is_rejected_with_the_known_names() -> None:
    with pytest.raises(
        UsageError, match="unknown grid 'papr': expected one of quick, paper, beyond, a TOML"
    ):
        load_grid("papr")
