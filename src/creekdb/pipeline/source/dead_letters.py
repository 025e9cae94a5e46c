"""Files of rejected rows, one JSON object per line.

A file is named after its sink, its batch and the number of its first row. The cluster keeps
rejected rows until their file is complete. A repeated batch writes the same file again.
"""

import json
import re
from itertools import groupby

from creekdb.client.sinks import RejectedRow, Sink
from creekdb.pipeline.source.row_plan import RowPlan
from creekdb.pipeline.storage import Location
from creekdb.wire.json_values import to_json


async def write_dead_letters(sink: Sink, plan: RowPlan, directory: str) -> int:
    """Write the rejected rows that the cluster keeps. Return their number."""
    count = 0
    while rejected := await sink.rejected():
        for batch, rows in groupby(rejected, lambda row: row.batch):
            group = list(rows)
            name = f"{file_stem(sink.name)}-{batch}-{group[0].number}.jsonl"
            (Location.parse(directory) / name).write_bytes(_encode(sink.name, plan, group))
        await sink.clear_rejected(rejected[-1])
        count += len(rejected)
    return count


def file_stem(sink: str) -> str:
    """Return the name of a sink as part of a file name."""
    return re.sub(r"[^\w.]+", "_", sink)


def _encode(sink: str, plan: RowPlan, rows: list[RejectedRow]) -> bytes:
    lines = []
    for each in rows:
        content = {
            "sink": sink,
            "batch": each.batch,
            "error": each.error,
            "row": {name: to_json(value) for name, value in plan.column_values(each.row).items()},
        }
        lines.append(json.dumps(content, ensure_ascii=False))
    return ("\n".join(lines) + "\n").encode()
