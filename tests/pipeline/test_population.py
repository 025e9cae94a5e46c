"""TPC-C's initial data as Parquet: reproducible, conforming to the specification, and equivalent to
computed data in a simulation."""

import io
import shutil
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from creekdb.cli import main
from creekdb.errors import StorageFault, UsageError
from creekdb.evaluation import Experiment, build_simulation
from creekdb.pipeline.stages import population as population_stage
from creekdb.pipeline.stages.population import (
    LoadedPopulation,
    population_files,
    prepare_population_dir,
    write_population_file,
)
from creekdb.pipeline.stages.population_checks import find_problems, read_population_tables
from creekdb.tpcc import Population, datatype_on_population

SEED = 7


@pytest.fixture(scope="session")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Population written by the command, in the shared session, which also checks it."""
    out = tmp_path_factory.mktemp("population")
    output = io.StringIO()
    with redirect_stdout(output):
        code = main(
            ["pipeline", "generate", "--warehouses", "1", "--seed", str(SEED), "--out", str(out)]
        )
    assert code == 0
    assert "1 warehouse, seed 7" in output.getvalue()
    assert "the rows, keys and references meet the TPC-C specification" in output.getvalue()
    return out


@pytest.fixture
def population(written: Path, tmp_path: Path) -> Path:
    """Copy of the population, to be damaged."""
    return Path(shutil.copytree(written, tmp_path / "population"))


def contents(directory: Path) -> dict[str, bytes]:
    files = sorted(directory.rglob("*.parquet"))
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


def test_files_do_not_depend_on_the_order_of_tasks(written: Path, tmp_path: Path) -> None:
    prepare_population_dir(tmp_path, 1, SEED)
    for part in reversed(list(population_files(Population(SEED, 1)))):
        write_population_file((SEED, 1, part, str(tmp_path)))
    assert contents(tmp_path) == contents(written)


def test_additional_warehouses_change_no_file(written: Path, tmp_path: Path) -> None:
    two = Population(SEED, 2)
    prepare_population_dir(tmp_path, 2, SEED)
    for part in population_files(two):
        if part.table in ("stock", "item") and part.number == 1:
            write_population_file((SEED, 2, part, str(tmp_path)))
    assert contents(tmp_path).items() <= contents(written).items()
    assert {part.number for part in population_files(two) if part.table == "order_line"} == {1, 2}


def test_loaded_rows_equal_computed_rows(written: Path) -> None:
    computed, read = Population(SEED, 1), LoadedPopulation(written)
    assert read.warehouse(1) == computed.warehouse(1)
    for i in (1, 2, 99_999, 100_000):
        assert read.item(i) == computed.item(i)
        assert read.stock(1, i) == computed.stock(1, i)
    for d, n in product((1, 5, 10), (1, 17, 2_100, 2_101, 3_000)):
        assert read.district(1, d) == computed.district(1, d)
        assert read.customer(1, d, n) == computed.customer(1, d, n)
        assert read.history(1, d, n, 1) == computed.history(1, d, n, 1)
        assert read.orders(1, d, n) == computed.orders(1, d, n)
        assert read.last_order(1, d, n) == computed.last_order(1, d, n)
        assert read.new_order(1, d, max(n, 2_101)) == computed.new_order(1, d, max(n, 2_101))
        assert read.line_count(1, d, n) == computed.line_count(1, d, n)
        for number in range(1, computed.line_count(1, d, n) + 1):
            assert read.order_line(1, d, n, number) == computed.order_line(1, d, n, number)
        last_name = computed.customer(1, d, n)[2]
        assert read.customers_named(1, d, last_name) == computed.customers_named(1, d, last_name)


@pytest.mark.parametrize("layout", ["rows", "fine"])
def test_a_simulation_on_a_loaded_population_is_equal(written: Path, layout: str) -> None:
    scenario = Experiment(
        load_tps=1500, duration_us=100_000, warehouses=1, seed=SEED, layout=layout
    ).to_scenario()
    read = datatype_on_population(LoadedPopulation(written), layout)
    assert read.name == scenario.datatype
    computed, loaded = (
        build_simulation(scenario).run(),
        build_simulation(scenario, resolved=read).run(),
    )
    assert loaded.trace_hash == computed.trace_hash
    assert loaded.history == computed.history


def test_the_simulate_command_loads_a_population(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", "--workload", "tpcc", "--warehouses", "1", "--duration", "50ms"]
    outputs = []
    for options in ([], ["--population", str(written)]):
        assert main([*command, "--json", "--seed", str(SEED), *options]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert main([*command, "--json", "--population", str(written)]) == 2
    error = capsys.readouterr().err
    assert error.endswith("contains 1 warehouse of seed 7: add --warehouses 1 --seed 7\n")


def _drop_row(table: pa.Table) -> pa.Table:
    return table.slice(1)


def _duplicate_row(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(1), table.slice(1, 1)])


def test_violations_of_the_specification_are_found(spark: SparkSession, population: Path) -> None:
    for table, change in (
        ("stock", _drop_row),
        ("item", _drop_row),
        ("order_line", _drop_row),
        ("customer", _duplicate_row),
        ("new_order", _duplicate_row),
    ):
        file = population / table / "part-00001.parquet"
        pq.write_table(change(pq.read_table(file)), file)
    assert find_problems(read_population_tables(spark, population), 1) == [
        "customer of warehouse 1 has 30000 rows and 29999 keys",
        "item of warehouse 1 has 99999 rows and 99999 keys",
        "lines differ from o_ol_cnt in order 1, 1, 1",
        "new_order and the carrier differ in order 1, 1, 2101",
        "new_order of warehouse 1 has 9000 rows and 8999 keys",
        "stock of warehouse 1 has 99999 rows and 99999 keys",
    ]


def test_a_truncated_or_missing_file_is_reported_by_name(population: Path) -> None:
    file = population / "customer" / "part-00001.parquet"
    file.write_bytes(file.read_bytes()[:-9])
    read = LoadedPopulation(population)
    with pytest.raises(StorageFault, match="damaged") as error:
        read.customer(1, 1, 1)
    assert str(file) in str(error.value)
    file.unlink()
    with pytest.raises(StorageFault, match=r"customer/part-00001.parquet is missing"):
        read.customer(1, 1, 1)


def test_a_file_with_other_rows_or_columns_is_rejected(population: Path) -> None:
    file = population / "district" / "part-00001.parquet"
    table = pq.read_table(file)
    pq.write_table(table.slice(1), file)
    with pytest.raises(StorageFault, match="it has 9 rows"):
        LoadedPopulation(population).district(1, 1)
    pq.write_table(table.drop_columns(["d_ytd"]), file)
    with pytest.raises(StorageFault, match="its columns differ from those of district"):
        LoadedPopulation(population).district(1, 1)


def test_an_incomplete_population_is_not_loaded(tmp_path: Path) -> None:
    prepare_population_dir(tmp_path, 1, SEED)
    with pytest.raises(UsageError, match="is not complete"):
        LoadedPopulation(tmp_path)


def test_a_foreign_directory_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    for force in (False, True):
        with pytest.raises(UsageError, match="not of a population"):
            prepare_population_dir(tmp_path, 1, 0, force)
    with pytest.raises(UsageError, match=r"it has no population.json"):
        LoadedPopulation(tmp_path)


def test_another_population_is_replaced_only_with_force(tmp_path: Path) -> None:
    prepare_population_dir(tmp_path, 1, 0)
    prepare_population_dir(tmp_path, 1, 0)
    (tmp_path / "stock" / "part-00009.parquet").touch()
    with pytest.raises(UsageError, match=r"holds another population \(warehouses 1, seed 0\)"):
        prepare_population_dir(tmp_path, 2, 0)
    prepare_population_dir(tmp_path, 2, 0, force=True)
    assert not any((tmp_path / "stock").iterdir())


@pytest.mark.parametrize("text", ["", "{}", '{"schema_version": 1, "seed": -1}'])
def test_a_damaged_manifest_is_reported_by_name(tmp_path: Path, text: str) -> None:
    prepare_population_dir(tmp_path, 1, 0)
    (tmp_path / population_stage.MANIFEST_FILE).write_text(text)
    with pytest.raises(StorageFault, match=r"population.json is damaged"):
        LoadedPopulation(tmp_path)
