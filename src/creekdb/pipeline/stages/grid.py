"""Grids of experiments: `quick`, `paper`, `beyond`, or a file in TOML or JSON.

A grid is a list of blocks. A block assigns one value or several to fields of an experiment; its
cells are all combinations:

    [[block]]
    scheme = ["creek", "smr"]
    load_tps = [1000, 10000, 30000]
    seed = [0, 1, 2]
    transactions = 4000

Other fields have the defaults of `creekdb.evaluation.Experiment`. Durations are texts with a unit
(`duration = "200ms"`). `transactions` sets the duration in which that many are invoked, at least a
tenth of a second. Before any run starts, errors are reported with file, block and key.

`extensions` selects extensions of Creek beyond the paper: names separated by commas, `all`, `none`,
`each` (one experiment per extension, with it alone) or `stepwise` (one extension after the other).
Without the key, all of them are off.
"""

import json
import math
import re
import tomllib
import zlib
from collections.abc import Callable, Iterator
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from creekdb.errors import BadValue, UnknownName, UsageError
from creekdb.evaluation import Experiment
from creekdb.protocol.extensions import EXTENSIONS, expand_extensions
from creekdb.schemes.registry import SCHEMES
from creekdb.simulation.faults.fields import format_duration, parse_duration_us

BUILT_IN_GRIDS: Final = ("quick", "paper", "beyond")
CELLS_MAX: Final = 100_000
DURATION_US_MIN: Final = 100_000
"""Lower bound for a duration that follows from `transactions`, in microseconds."""

SLUG_CHARS_MAX: Final = 40
_DURATION_FIELDS: Final = {
    "duration": "duration_us",
    "warm_up": "warm_up_us",
    "clock_skew": "clock_skew_us",
}
_FIELDS: Final = tuple(
    next((key for key, name in _DURATION_FIELDS.items() if name == field), field)
    for field in Experiment.__struct_fields__
    if field not in EXTENSIONS
)
_TYPE_NAMES: Final = {int: "a whole number", str: "a text", bool: "true or false"}
GRID_KEYS: Final = (*_FIELDS, "extensions", "transactions")


class Cell(NamedTuple):
    """One run of a grid. Its name is that of the run in all tables."""

    name: str
    experiment: Experiment


class Grid(NamedTuple):
    name: str
    cells: tuple[Cell, ...]


def load_grid(name: str) -> Grid:
    """Load a built-in grid, or the file with that name."""
    if name in BUILT_IN_GRIDS:
        grids = resources.files("creekdb.pipeline.stages") / "grids"
        return parse_grid(name, _parse_text(name, (grids / f"{name}.toml").read_text("utf-8")))
    path = Path(name)
    if not path.exists():
        raise UnknownName("grid", name, (*BUILT_IN_GRIDS, "a TOML or JSON file"))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the grid in {path}: {error}") from error
    return parse_grid(name, _parse_text(name, text))


def _parse_text(name: str, text: str) -> Any:
    is_json = Path(name).suffix == ".json"
    try:
        return json.loads(text) if is_json else tomllib.loads(text)
    except ValueError as error:
        raise UsageError(f"{name} is not {'JSON' if is_json else 'TOML'}: {error}") from error


def parse_grid(name: str, content: Any) -> Grid:
    """Parse and validate a grid; `name` is its source, for errors."""
    blocks = content.get("block") if isinstance(content, dict) else None
    if not isinstance(blocks, list) or not blocks or set(content) != {"block"}:
        raise UsageError(f"{name} is not a grid: it must consist of [[block]] tables only")
    experiments: list[Experiment] = []
    for number, block in enumerate(blocks, 1):
        where = f"{name}, block {number}"
        if not isinstance(block, dict):
            raise UsageError(f"{where}: not a table of keys and values")
        experiments += _block_experiments(where, block)
        if len(experiments) > CELLS_MAX:
            raise UsageError(f"{where}: the grid exceeds {CELLS_MAX} experiments")
    distinct = tuple(dict.fromkeys(experiments))
    return Grid(name, tuple(Cell(cell_name(each), each) for each in distinct))


def _block_experiments(where: str, block: dict[str, Any]) -> Iterator[Experiment]:
    for key in block:
        if key not in GRID_KEYS:
            raise UsageError(f"{where}, key '{key}': {UnknownName('key', key, GRID_KEYS)}")
    if "transactions" in block and "duration" in block:
        raise UsageError(f"{where}, key 'transactions': cannot be combined with 'duration'")
    values = {key: each if isinstance(each, list) else [each] for key, each in block.items()}
    for key, choices in values.items():
        if not choices:
            raise UsageError(f"{where}, key '{key}': the list is empty")
    if "extensions" in values:
        values["extensions"] = _expand_all(where, values["extensions"])
    if math.prod(map(len, values.values())) > CELLS_MAX:
        raise UsageError(f"{where}: the block exceeds {CELLS_MAX} experiments")
    for combination in product(*values.values()):
        yield _build_experiment(where, dict(zip(values, combination, strict=True)))


def _expand_all(where: str, texts: list[Any]) -> list[tuple[str, ...]]:
    try:
        for text in texts:
            if not isinstance(text, str):
                raise BadValue(f"{text!r} is not a text; write names separated by commas")
        return list(dict.fromkeys(each for text in texts for each in expand_extensions(text)))
    except UsageError as error:
        raise UsageError(f"{where}, key 'extensions': {error}") from error


def _build_experiment(where: str, chosen: dict[str, Any]) -> Experiment:
    fields = {
        _DURATION_FIELDS.get(key, key): _parse_value(where, key, value)
        for key, value in chosen.items()
        if key not in ("transactions", "extensions")
    } | dict.fromkeys(chosen.get("extensions", ()), True)
    if "transactions" in chosen:
        fields["duration_us"] = _duration_for_transactions_us(where, chosen)
    _check_durations(where, fields)
    try:
        return msgspec.convert(fields, Experiment)
    except (msgspec.ValidationError, UsageError) as error:
        key, reason = _invalid_key(fields, error)
        raise UsageError(f"{where}, key '{key}': {reason}") from error


def _check_durations(where: str, fields: dict[str, Any]) -> None:
    """Raise UsageError if the measurement window would be empty."""
    duration_us = fields.get("duration_us", Experiment().duration_us)
    if duration_us == 0:
        raise UsageError(f"{where}, key 'duration': must be longer than 0")
    warm_up_us = fields.get("warm_up_us", 0)
    if not warm_up_us < duration_us:
        raise UsageError(
            f"{where}, key 'warm_up': {format_duration(warm_up_us)} must be shorter than the "
            f"duration of {format_duration(duration_us)}"
        )


def _parse_value(where: str, key: str, value: Any) -> Any:
    try:
        match key:
            case "faults":
                if not isinstance(value, str):
                    raise BadValue(f"{value!r} is not a text; write 'crash 1 at 2s; heal at 3s'")
                return tuple(each.strip() for each in value.split(";") if each.strip())
            case "duration" | "warm_up" | "clock_skew":
                if not isinstance(value, str):
                    raise BadValue(f"{value!r} is not a text; write a number with its unit")
                return parse_duration_us(value)
            case _:
                return value
    except UsageError as error:
        raise UsageError(f"{where}, key '{key}': {error}") from error


def _invalid_key(fields: dict[str, Any], error: Exception) -> tuple[str, str]:
    """Return the key that is invalid by itself, or else in combination, with the reason."""
    keys = {field: key for key, field in _DURATION_FIELDS.items()}
    durations = {field: fields[field] for field in _DURATION_FIELDS.values() if field in fields}
    for field, value in (*durations.items(), *fields.items()):
        try:
            msgspec.convert({**durations, field: value}, Experiment)
        except msgspec.ValidationError:
            return keys.get(field, field), _type_mismatch(field, value)
        except UsageError as own_error:
            return keys.get(field, field), str(own_error)
    combined = ("faults", "warm_up", "duration")
    return next(key for key in combined if _DURATION_FIELDS.get(key, key) in fields), str(error)


def _type_mismatch(field: str, value: Any) -> str:
    default = getattr(Experiment(), field)
    example = "" if default is None or default is False else f", such as {default}"
    return f"{value!r} is not {_TYPE_NAMES.get(type(default), 'a number')}{example}"


def _duration_for_transactions_us(where: str, chosen: dict[str, Any]) -> int:
    """Return the time to invoke that many transactions, rounded up to milliseconds."""
    number = chosen["transactions"]
    if type(number) is not int or number < 1:
        raise UsageError(f"{where}, key 'transactions': {number!r} is not a whole number above 0")
    load_tps = chosen.get("load_tps", Experiment().load_tps)
    if not isinstance(load_tps, int | float) or not load_tps > 0:
        raise UsageError(f"{where}, key 'load_tps': {load_tps!r} is not a number above 0")
    return max(DURATION_US_MIN, math.ceil(number / load_tps * 1000) * 1000)


# --- names --------------------------------------------------------------------------------------


def cell_name(experiment: Experiment) -> str:
    """Return a readable name that is equal for equal experiments in all grids."""
    default = Experiment()
    scheme = experiment.scheme if experiment.scheme in SCHEMES else _slug(experiment.scheme)
    parts = [scheme, f"w{experiment.warehouses}", f"{_number_text(experiment.load_tps)}tps"]
    for field, text in _NAME_PARTS.items():
        value = getattr(experiment, field)
        if value != getattr(default, field):
            parts.append(text(value))
    parts += experiment.extensions
    return "-".join((*parts, f"s{experiment.seed}"))


def _number_text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _slug(text: str) -> str:
    """Return the characters that are valid in file names, and a checksum of the whole text."""
    words = "_".join(re.findall(r"[a-z0-9]+", text.lower()))[:SLUG_CHARS_MAX].rstrip("_")
    return f"{words}_{zlib.crc32(text.encode()):08x}"


_NAME_PARTS: Final[dict[str, Callable[[Any], str]]] = {
    "strong_share": lambda share: f"strong{_number_text(share)}",
    "exec_scale": lambda scale: f"x{_number_text(scale)}",
    "replicas": "n{}".format,
    "cores": "c{}".format,
    "layout": str,
    "local_reads": lambda _: "local",
    "decided_only": lambda _: "decided",
    "regions": "regions{}".format,
    "clock_skew_us": lambda skew_us: f"skew{format_duration(skew_us)}",
    "recorded": lambda _: "recorded",
    "faults": lambda faults: _slug("; ".join(faults)),
    "duration_us": format_duration,
    "warm_up_us": lambda warm_up_us: f"after{format_duration(warm_up_us)}",
}
"""Texts for the fields of an experiment that differ from their defaults."""
