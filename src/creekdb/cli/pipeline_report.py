"""`creek pipeline report`: one page with what was measured and verified."""

import webbrowser
from pathlib import Path

import click
from rich.text import Text

from creekdb.cli.exits import FINE
from creekdb.cli.output import show
from creekdb.cli.pipeline import needed_packages


@click.command(short_help="Make one page of it all.")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--open", "is_opened", is_flag=True, help="Show the page in a browser.")
def report(out: Path, is_opened: bool) -> int:
    """Make one page of what was measured and verified in OUT, with the paper's figures redrawn.

    The page, OUT/report.html, is a single file and needs no network. Pictures of the figures are
    beside it, in OUT/figures, and the paper's statements as a table in OUT/statements.md. It needs
    what measure has left in OUT; what verify has left there is shown if there is any.

    \b
    Example:
      creek pipeline measure runs/quick
      creek pipeline verify runs/quick
      creek pipeline report runs/quick --open
    """
    with needed_packages():
        from creekdb.pipeline.report import write_report  # noqa: PLC0415
    written = write_report(out)
    show(map(Text, [*written.summary, str(written.page)]))
    if is_opened:
        webbrowser.open(written.page.resolve().as_uri())
    return FINE
