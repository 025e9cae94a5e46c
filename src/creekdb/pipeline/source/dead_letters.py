"""Files of rejected rows, one JSON object per line.

A file is named after its sink, its batch and the number of its first row. The cluster keeps
rejected rows until their file is complete. A repeated batch writes the same file again.

Different sinks have different files. The name of a sink that is not plain, or long, is shortened to
plain characters, and followed by a hash.
"""

import hashlib
import json
import re
from itertools import groupby
from typing import Final

from creekdb.client.sinks import RejectedRow, Sink
from creekdb.pipeline.source.row_plan import RowPlan
from creekdb.pipeline.storage import Location
from creekdb.wire.json_values import to_json

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.]{1,100}")
_SHORT_CHARS: Final = 60


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
    """Return the name of a sink as part of a file name, which no other sink has."""
    if _PLAIN_NAME.fullmatch(sink):
        return sink
    digest = hashlib.blake2b(sink.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    short = re.sub(r"[^A-Za-z0-9_.]+", "_", sink)[:_SHORT_CHARS]
    return f"{short}~{digest}"


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
