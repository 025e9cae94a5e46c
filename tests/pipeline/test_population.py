"""TPC-C's initial data as Parquet: reproducible, conforming to the specification, and equivalent to
computed data in a simulation."""

import io
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from creekdb.cli import main
from creekdb.errors import StorageFault, UsageError
from creekdb.evaluation import Experiment, build_simulation
from creekdb.pipeline.spark.frames import spark_schema
from creekdb.pipeline.stages.population import (
    MANIFEST_FILE,
    POPULATION_SCHEMAS,
    LoadedPopulation,
    PopulationReader,
    generate,
    population_file,
    population_files,
    prepare_population_dir,
    read_manifest,
    write_population_file,
)
from creekdb.pipeline.stages.population_checks import (
    check_file,
    find_violations,
    read_population_tables,
)
from creekdb.pipeline.storage import Location
from creekdb.tpcc import Population, datatype_on_population
from creekdb.tpcc.population.column_arrays import compute_columns
from creekdb.tpcc.schema import NULLABLE_COLUMNS, TABLES, TEXT_COLUMNS

SEED = 7
WAREHOUSES = 2
FLIPPED_BITS = 150


@pytest.fixture(scope="session")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Population written by the command, in the shared session, which also checks it."""
    out = tmp_path_factory.mktemp("population")
    output = io.StringIO()
    options = ["--warehouses", str(WAREHOUSES), "--seed", str(SEED), "--out", str(out)]
    with redirect_stdout(output):
        code = main(["pipeline", "generate", *options])
    assert code == 0
    assert "2 warehouses, seed 7" in output.getvalue()
    assert "the rows, keys and references meet the TPC-C specification" in output.getvalue()
    return out


@pytest.fixture
def population(written: Path, tmp_path: Path) -> Path:
    """Copy of the population, to be damaged."""
    return Path(shutil.copytree(written, tmp_path / "population"))


def contents(directory: Path) -> dict[str, bytes]:
    files = sorted(directory.rglob("*.parquet"))
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


def mark_complete(directory: Path, complete: bool = True) -> None:
    manifest = json.loads((directory / MANIFEST_FILE).read_bytes())
    (directory / MANIFEST_FILE).write_text(json.dumps({**manifest, "complete": complete}))


def replace_group(file: Path, number: int, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write a file again, with a change to one of its row groups."""
    with pq.ParquetFile(file) as source:
        groups = [source.read_row_group(each) for each in range(source.num_row_groups)]
    with pq.ParquetWriter(file, groups[0].schema, write_page_checksum=True) as writer:
        for position, group in enumerate(groups):
            writer.write_table(change(group) if position == number else group)


def replace_value(table: pa.Table, column: str, row: int, value: int | None) -> pa.Table:
    values = table.column(column).to_pylist()
    values[row] = value
    index = table.column_names.index(column)
    field = table.schema.field(column)
    return table.set_column(index, field, pa.array(values, field.type))


def flip_last_bit(file: Path, group: int, column: int) -> None:
    """Flip a bit of a value: the last bit of a column chunk."""
    chunk = pq.read_metadata(file).row_group(group).column(column)
    start = chunk.data_page_offset
    if chunk.dictionary_page_offset is not None:
        start = min(start, chunk.dictionary_page_offset)
    content = bytearray(file.read_bytes())
    content[start + chunk.total_compressed_size - 1] ^= 1
    file.write_bytes(content)


# --- files --------------------------------------------------------------------------------------


def test_files_do_not_depend_on_the_order_of_tasks(written: Path, tmp_path: Path) -> None:
    prepare_population_dir(Location.parse(tmp_path), WAREHOUSES, SEED)
    for part in reversed(list(population_files(WAREHOUSES))):
        write_population_file(Population(SEED, WAREHOUSES), part, Location.parse(tmp_path))
    assert contents(tmp_path) == contents(written)


@pytest.mark.parametrize("warehouses", [1, 2, 7, 20, 150, 1_001])
def test_files_cover_every_warehouse_once(warehouses: int) -> None:
    files = list(population_files(warehouses))
    covered = Counter((part.table, w) for part in files for w in part.warehouses)
    tables = [name for name in TABLES if name != "item"]
    assert covered == Counter({*product(tables, range(1, warehouses + 1)), ("item", 1)})
    for part in files:
        assert all(population_file(part.table, w, warehouses) == part for w in part.warehouses)
        groups = part.row_groups
        assert [part.first_unit, *(group.end_unit for group in groups)] == [
            *(group.first_unit for group in groups),
            part.end_unit,
        ]


def test_two_warehouses_are_written_by_parallel_tasks() -> None:
    files = Counter(part.table for part in population_files(2))
    assert [files[table] for table in ("order_line", "customer", "stock")] == [2, 2, 2]


def test_files_of_a_large_population_are_few() -> None:
    files = Counter(part.table for part in population_files(1_000))
    assert files["order_line"] == 200
    assert files["stock"] == files["customer"] == 67
    assert files.total() < 400


def test_the_rows_of_a_warehouse_do_not_depend_on_the_number_of_warehouses(
    written: Path, tmp_path: Path
) -> None:
    part = population_file("customer", 2, 20)
    write_population_file(Population(SEED, 20), part, Location.parse(tmp_path))
    with pq.ParquetFile(tmp_path / part.relative_path) as file:
        assert file.num_row_groups == 3
        second = file.read_row_group(1)
    assert second.equals(pq.read_table(written / "customer" / "part-00002.parquet"))


def test_a_row_group_holds_one_warehouse(written: Path) -> None:
    for table in ("history", "orders", "new_order"):
        with pq.ParquetFile(written / table / "part-00001.parquet") as file:
            for number, w in enumerate((1, 2)):
                keys = file.read_row_group(number, [TABLES[table].key[0]])
                assert set(keys.column(0).to_pylist()) == {w}
            assert file.num_row_groups == WAREHOUSES


def test_files_have_the_declared_schemas(spark: SparkSession, written: Path) -> None:
    for table, frame in read_population_tables(spark, Location.parse(written)).items():
        schema = POPULATION_SCHEMAS[table]
        for file in (written / table).glob("*.parquet"):
            assert pq.read_schema(file).equals(schema)
        expected = [(field.name, field.dataType) for field in spark_schema(schema)]
        assert [(field.name, field.dataType) for field in frame.schema] == expected


def test_declared_types_are_those_of_the_computed_columns() -> None:
    for table in TABLES:
        for name, values in compute_columns(Population(SEED, 1), table, 0, 1).items():
            assert (values.dtype.kind == "S") == (name in TEXT_COLUMNS)
            assert isinstance(values, numpy.ma.MaskedArray) == (name in NULLABLE_COLUMNS)


# --- loaded populations -------------------------------------------------------------------------


def test_loaded_rows_equal_computed_rows(written: Path) -> None:
    computed, read = Population(SEED, WAREHOUSES), LoadedPopulation(written)
    for i in (1, 2, 99_999, 100_000):
        assert read.item(i) == computed.item(i)
    for w in (1, 2):
        assert read.warehouse(w) == computed.warehouse(w)
        for i in (1, 100_000):
            assert read.stock(w, i) == computed.stock(w, i)
    for w, d, n in product((1, 2), (1, 5, 10), (1, 17, 2_100, 2_101, 3_000)):
        assert read.district(w, d) == computed.district(w, d)
        assert read.customer(w, d, n) == computed.customer(w, d, n)
        assert read.history(w, d, n, 1) == computed.history(w, d, n, 1)
        assert read.orders(w, d, n) == computed.orders(w, d, n)
        assert read.last_order(w, d, n) == computed.last_order(w, d, n)
        assert read.new_order(w, d, max(n, 2_101)) == computed.new_order(w, d, max(n, 2_101))
        assert read.line_count(w, d, n) == computed.line_count(w, d, n)
        for number in range(1, computed.line_count(w, d, n) + 1):
            assert read.order_line(w, d, n, number) == computed.order_line(w, d, n, number)
        last_name = computed.customer(w, d, n)[2]
        assert read.customers_named(w, d, last_name) == computed.customers_named(w, d, last_name)


def test_rows_are_loaded_from_a_file_of_several_warehouses(tmp_path: Path) -> None:
    computed = Population(SEED, 20)
    prepare_population_dir(Location.parse(tmp_path), 20, SEED)
    for table in ("orders", "order_line", "district"):
        part = population_file(table, 5, 20)
        assert part.warehouses.start < 5
        write_population_file(computed, part, Location.parse(tmp_path))
    mark_complete(tmp_path)
    read = LoadedPopulation(tmp_path)
    assert read.district(5, 3) == computed.district(5, 3)
    for number in range(1, computed.line_count(5, 3, 42) + 1):
        assert read.order_line(5, 3, 42, number) == computed.order_line(5, 3, 42, number)


def test_only_the_row_group_of_a_warehouse_is_read(population: Path) -> None:
    file = population / "orders" / "part-00001.parquet"
    flip_last_bit(file, group=1, column=3)
    read = LoadedPopulation(population)
    assert read.orders(1, 1, 1) == Population(SEED, WAREHOUSES).orders(1, 1, 1)
    with pytest.raises(StorageFault, match="checksum"):
        read.orders(2, 1, 1)


@pytest.mark.parametrize("layout", ["rows", "fine"])
def test_a_simulation_on_a_loaded_population_is_equal(written: Path, layout: str) -> None:
    scenario = Experiment(
        load_tps=1500, duration_us=100_000, warehouses=WAREHOUSES, seed=SEED, layout=layout
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
    command = ["simulate", "--workload", "tpcc", "--warehouses", "2", "--duration", "50ms"]
    outputs = []
    for options in ([], ["--population", str(written)]):
        assert main([*command, "--json", "--seed", str(SEED), *options]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert main([*command, "--json", "--population", str(written)]) == 2
    error = capsys.readouterr().err
    assert error.endswith("contains 2 warehouses of seed 7: add --warehouses 2 --seed 7\n")


# --- checks -------------------------------------------------------------------------------------


def _drop_row(table: pa.Table) -> pa.Table:
    return table.slice(1)


def _duplicate_row(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(1), table.slice(1, 1)])


def _reverse_rows(table: pa.Table) -> pa.Table:
    return table.take(list(range(table.num_rows - 1, -1, -1)))


def test_violations_of_the_specification_are_found(spark: SparkSession, population: Path) -> None:
    for table, change in (
        ("stock", _drop_row),
        ("item", _drop_row),
        ("order_line", _drop_row),
        ("customer", _duplicate_row),
        ("new_order", _duplicate_row),
    ):
        replace_group(population / table / "part-00001.parquet", 0, change)
    assert find_violations(spark, Location.parse(population)) == [
        "customer of warehouse 1 has 30000 rows and 29999 keys",
        "item of warehouse 1 has 99999 rows and 99999 keys",
        "lines differ from o_ol_cnt in order 1, 1, 1",
        "new_order and the carrier differ in order 1, 1, 2101",
        "new_order of warehouse 1 has 9000 rows and 8999 keys",
        "stock of warehouse 1 has 99999 rows and 99999 keys",
    ]


@pytest.mark.parametrize(
    ("table", "group", "change", "problems"),
    [
        (
            "history",
            1,
            lambda rows: replace_value(rows, "h_number", 0, 2),
            ["history of warehouse 2 has keys that are not consecutive"],
        ),
        ("history", 1, _reverse_rows, ["history of warehouse 2 is not in the order of its keys"]),
        (
            "district",
            0,
            lambda rows: replace_value(rows, "d_w_id", 19, 9),
            [
                "district of warehouse 2 has 9 rows and 9 keys",
                "district of warehouse 9 has 1 rows outside its row group",
            ],
        ),
        (
            "orders",
            0,
            lambda rows: replace_value(rows, "o_ol_cnt", 1, -1),
            ["lines differ from o_ol_cnt in order 1, 1, 2"],
        ),
        (
            "orders",
            0,
            lambda rows: replace_value(rows, "o_ol_cnt", 1, 10**15),
            ["lines differ from o_ol_cnt in order 1, 1, 2"],
        ),
        (
            "orders",
            0,
            lambda rows: replace_value(rows, "o_c_id", 5_999, 3_001),
            ["not all customers have an order in district 1, 2"],
        ),
        (
            "orders",
            0,
            lambda rows: replace_value(rows, "o_carrier_id", 0, None),
            ["new_order and the carrier differ in order 1, 1, 1"],
        ),
        (
            "orders",
            0,
            _drop_row,
            [
                "lines differ from o_ol_cnt in order 1, 1, 1",
                "not all customers have an order in district 1, 1",
                "orders of warehouse 1 has 29999 rows and 29999 keys",
            ],
        ),
        (
            "order_line",
            0,
            _reverse_rows,
            ["order_line of warehouse 1 is not in the order of its keys"],
        ),
    ],
)
def test_a_violation_is_reported_once(
    population: Path,
    table: str,
    group: int,
    change: Callable[[pa.Table], pa.Table],
    problems: list[str],
) -> None:
    replace_group(population / table / "part-00001.parquet", group, change)
    checked = "order_line" if table == "orders" else table
    assert (
        check_file(Location.parse(population), population_file(checked, 1, WAREHOUSES), WAREHOUSES)
        == problems
    )


def test_missing_and_unexpected_files_are_found(spark: SparkSession, population: Path) -> None:
    stock = population / "stock"
    (stock / "part-00002.parquet").rename(stock / "part-00003.parquet")
    assert find_violations(spark, Location.parse(population)) == [
        f"{stock / 'part-00002.parquet'} is missing",
        "stock/part-00003.parquet is not a file of this population",
    ]


def test_a_flipped_bit_is_reported_with_the_name_of_the_file(
    spark: SparkSession, population: Path
) -> None:
    file = population / "customer" / "part-00002.parquet"
    column = POPULATION_SCHEMAS["customer"].names.index("c_data")
    flip_last_bit(file, group=0, column=column)
    (problem,) = find_violations(spark, Location.parse(population))
    assert problem.startswith(f"{file} is damaged: ")
    assert "checksum" in problem
    assert problem.endswith("; repeat the 'creek pipeline generate' that wrote it")
    with pytest.raises(StorageFault, match="checksum") as error:
        LoadedPopulation(population).customer(2, 1, 1)
    assert str(error.value) == problem


@pytest.mark.parametrize("table", ["district", "new_order"])
def test_no_flipped_bit_changes_a_loaded_value(population: Path, table: str) -> None:
    part = population_file(table, 1, WAREHOUSES)
    file, groups = population / part.relative_path, range(len(part.row_groups))
    original, expected = file.read_bytes(), pq.read_table(file)
    choice, detected = random.Random(SEED), 0
    for _ in range(FLIPPED_BITS):
        damaged = bytearray(original)
        damaged[choice.randrange(len(damaged))] ^= 1 << choice.randrange(8)
        file.write_bytes(damaged)
        try:
            with PopulationReader(Location.parse(population), part) as reader:
                loaded = pa.concat_tables([reader.read_group(each) for each in groups])
        except StorageFault:
            detected += 1
        else:
            assert loaded.equals(expected)
    assert detected > FLIPPED_BITS / 2


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
    with pytest.raises(StorageFault, match="it has 19 rows instead of 20"):
        LoadedPopulation(population).district(1, 1)
    pq.write_table(table.drop_columns(["d_ytd"]), file)
    with pytest.raises(StorageFault, match="its columns differ from those of district"):
        LoadedPopulation(population).district(1, 1)


def test_missing_order_lines_are_rejected(population: Path) -> None:
    replace_group(population / "order_line" / "part-00001.parquet", 0, _drop_row)
    with pytest.raises(StorageFault, match=r"order_line.* is damaged: it has"):
        LoadedPopulation(population).order_line(1, 1, 1, 1)


def test_a_file_with_other_row_groups_is_rejected(population: Path) -> None:
    file = population / "history" / "part-00001.parquet"
    pq.write_table(pq.read_table(file), file)
    with pytest.raises(StorageFault, match="it has 1 row groups"):
        LoadedPopulation(population).history(1, 1, 1, 1)


# --- directories --------------------------------------------------------------------------------


def test_an_incomplete_population_is_not_read(spark: SparkSession, population: Path) -> None:
    prepare_population_dir(Location.parse(population), WAREHOUSES, SEED)
    for read in (
        lambda: LoadedPopulation(population),
        lambda: read_population_tables(spark, Location.parse(population)),
        lambda: find_violations(spark, Location.parse(population)),
    ):
        with pytest.raises(UsageError, match="is not complete"):
            read()


def test_a_failed_generation_is_not_complete(spark: SparkSession, tmp_path: Path) -> None:
    prepare_population_dir(Location.parse(tmp_path), 1, SEED)
    blocked = tmp_path / "warehouse" / "part-00001.parquet"
    blocked.mkdir()
    with pytest.raises(StorageFault) as error:
        generate(spark, Location.parse(tmp_path), 1, SEED)
    assert str(error.value) == (
        f"cannot write {blocked}: Is a directory; name a directory that all executors can write"
    )
    with pytest.raises(UsageError, match="is not complete"):
        LoadedPopulation(tmp_path)
    assert not list(tmp_path.rglob("*.partial"))


def test_files_that_the_driver_does_not_have_are_reported(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_population_dir(Location.parse(tmp_path), 1, SEED)
    monkeypatch.setattr(Location, "names", lambda location: [])
    with pytest.raises(StorageFault, match="name a directory that all executors share"):
        generate(spark, Location.parse(tmp_path), 1, SEED)
    with pytest.raises(UsageError, match="is not complete"):
        LoadedPopulation(tmp_path)


def test_a_directory_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFault, match=r"cannot write .*population\.json: Not a directory; "):
        prepare_population_dir(Location.parse(tmp_path / "file" / "population"), 1, SEED)


def test_a_new_generation_removes_the_files_of_an_interrupted_one(tmp_path: Path) -> None:
    prepare_population_dir(Location.parse(tmp_path), 1, SEED)
    (tmp_path / "stock" / "part-00001.parquet").touch()
    (tmp_path / "stock" / ".part-00001.parquet.0123.partial").touch()
    prepare_population_dir(Location.parse(tmp_path), 1, SEED)
    assert not any((tmp_path / "stock").iterdir())


def test_another_schema_version_is_replaced_only_with_force(tmp_path: Path) -> None:
    prepare_population_dir(Location.parse(tmp_path), 1, SEED)
    manifest = json.loads((tmp_path / MANIFEST_FILE).read_bytes())
    (tmp_path / MANIFEST_FILE).write_text(json.dumps({**manifest, "schema_version": 1}))
    for read in (
        lambda: LoadedPopulation(tmp_path),
        lambda: prepare_population_dir(Location.parse(tmp_path), 1, SEED),
    ):
        with pytest.raises(UsageError, match="was written in schema version 1"):
            read()
    prepare_population_dir(Location.parse(tmp_path), 1, SEED, force=True)
    assert json.loads((tmp_path / MANIFEST_FILE).read_bytes()) == manifest


def test_a_foreign_directory_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    for force in (False, True):
        with pytest.raises(UsageError, match="not of a population"):
            prepare_population_dir(Location.parse(tmp_path), 1, 0, force)
    with pytest.raises(UsageError, match=r"it has no population.json"):
        LoadedPopulation(tmp_path)


def test_another_population_is_replaced_only_with_force(tmp_path: Path) -> None:
    prepare_population_dir(Location.parse(tmp_path), 1, 0)
    prepare_population_dir(Location.parse(tmp_path), 1, 0)
    (tmp_path / "stock" / "part-00009.parquet").touch()
    with pytest.raises(UsageError, match=r"holds another population \(warehouses 1, seed 0\)"):
        prepare_population_dir(Location.parse(tmp_path), 2, 0)
    prepare_population_dir(Location.parse(tmp_path), 2, 0, force=True)
    assert not any((tmp_path / "stock").iterdir())


@pytest.mark.parametrize("text", ["", "{}", '{"schema_version": 1, "seed": -1}'])
def test_a_damaged_manifest_is_reported_by_name(tmp_path: Path, text: str) -> None:
    prepare_population_dir(Location.parse(tmp_path), 1, 0)
    (tmp_path / MANIFEST_FILE).write_text(text)
    for read in (
        lambda: LoadedPopulation(tmp_path),
        lambda: prepare_population_dir(Location.parse(tmp_path), 1, 0),
    ):
        with pytest.raises(StorageFault, match=r"population.json is damaged"):
            read()
    prepare_population_dir(Location.parse(tmp_path), 1, 0, force=True)
    assert read_manifest(Location.parse(tmp_path))["complete"] is False
