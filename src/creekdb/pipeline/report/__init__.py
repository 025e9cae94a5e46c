"""The report: one page with the paper's figures redrawn, and pictures of them beside it.

    write_report    from the tables of an output folder to `report.html` and `figures/`

A page opens without a network, says where each number is from, and says so where there is none.

    reading     the tables                    theme       colours and dashes
    evidence    questions to them             curves      the lines of Figure 1
    found       numbers found in them         charts/     Vega-Lite
    quantities  units, and bands              figures, variations, timelines    what is drawn
    paper/      what the paper states         live        live runs beside their twins
    judging     whether that holds            headline, statements, checks, made_with, page
    partitions  runs with faults
"""

from creekdb.pipeline.report.page import write_report as write_report
