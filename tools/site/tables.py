"""Reference of the tables of the pipeline, generated from their schemas."""

from collections.abc import Mapping

import pyarrow as pa

from creekdb.pipeline.schemas import EXPORT_SCHEMAS, RESULT_SCHEMAS, RUN_SCHEMAS, description
from creekdb.pipeline.stages.population import POPULATION_SCHEMAS

SECTIONS: Mapping[str, tuple[str, Mapping[str, pa.Schema]]] = {
    "Runs": (
        "`creek pipeline simulate` and the import of live runs write these tables. A table is a "
        "directory with one Parquet file per batch of runs.",
        RUN_SCHEMAS,
    ),
    "Results": (
        "`creek pipeline measure` and `creek pipeline verify` compute these tables from those of "
        "the runs. A table without the file `_SUCCESS` is incomplete.",
        RESULT_SCHEMAS,
    ),
    "Exports": ("`creek export` writes the state of a cluster and its order.", EXPORT_SCHEMAS),
    "TPC-C": (
        "`creek pipeline generate` writes the initial rows of the nine tables of TPC-C, with the "
        "columns of its specification.",
        POPULATION_SCHEMAS,
    ),
}


def tables() -> str:
    """Return all tables with their columns as Markdown."""
    parts = []
    for title, (text, schemas) in SECTIONS.items():
        parts += [f"## {title}", text]
        for name, schema in schemas.items():
            parts += [f"### `{name}`", _columns(schema)]
    return "\n\n".join(parts)


def _columns(schema: pa.Schema) -> str:
    lines = ["| column | type | null | |", "|---|---|---|---|"]
    for field in schema:
        nullable = "yes" if field.nullable else ""
        text = description(field).replace("|", "&#124;")
        lines.append(f"| `{field.name}` | {field.type} | {nullable} | {text} |")
    return "\n".join(lines)
