"""Report: one page with the paper's figures redrawn, and picture files of them.

    write_report    from the tables of an output directory to `report.html` and `figures/`

The page opens without a network. It names the source of each number, and marks missing numbers.

    evidence     reads the tables; lookups by setup      charts/       Vega-Lite specifications
    queries      numbers derived from the evidence       figures       Figure 1
    quantities   units and bands                         variations    Section 6.3
    paper        statements of the paper                 timelines     Section 6.4
    claims       comparison with those statements        live_runs     live runs and counterparts
    checks       verdicts of the checkers                partitions    runs with a split network
    beyond       Creek's extensions                      bars          bounds that they should meet
    summary      headline and key numbers                frontier      latency against executions
    formatting   numbers and names as text
    page         template, provenance and files
"""

from creekdb.pipeline.report.page import write_report as write_report
