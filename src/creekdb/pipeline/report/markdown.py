"""The paper's statements beside what was measured, as a table in Markdown: for documents."""

from creekdb.pipeline.report.judging import Judged
from creekdb.pipeline.report.statements import grouped

HEAD = (
    "| | paper | accepted | measured | seeds | |",
    "|---|---|---|---|---|---|",
)


def table(judged: list[Judged]) -> str:
    lines: list[str] = []
    for section, rows in grouped(judged):
        lines += [f"**Section {section}**", "", *HEAD]
        for row in rows:
            cells = (row[name] for name in ("what", "paper", "band", "measured", "seeds", "mark"))
            lines.append(f"| {' | '.join(map(_escaped, cells))} |")
        lines.append("")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
