"""Evaluation pipeline on Spark, from experiment parameters to a report.

    generate   TPC-C's initial data as Parquet
    simulate   a grid of experiments; Spark tasks write one table per kind for all runs
    measure    latency, throughput, accuracy and ratios of all runs
    verify     checkers over all histories
    report     one page with the paper's figures, redrawn
    export     committed state and order of a live cluster, as tables
    watch      throughput, latencies, apologies and hot keys of a live cluster
    audit      checks of a live cluster's history as it grows

Each stage maps tables to tables with declared schemas (`schemas`) and can run alone. All stages
accept runs of a live cluster as well as simulated runs. `read` and `watch_cluster` give
tables to a notebook. No other package imports Spark.
"""

from creekdb.pipeline.tables import Tables as Tables
from creekdb.pipeline.tables import read as read
from creekdb.pipeline.tables import watch_cluster as watch_cluster
