"""The pipeline on Spark: parameters in, evidence out.

    generate   TPC-C's initial data as Parquet
    simulate   a grid of experiments, each a task of Spark, each leaving a run folder
    measure    latencies, throughput, accuracy and ratios of all runs
    verify     the checkers over all histories
    report     one page with the paper's figures, redrawn
    export     what a live cluster has committed, as tables

Every stage is a function from tables to tables with declared schemas (`schemas`), can be run alone,
and takes runs of a live cluster as it takes simulated ones. Only this room knows Spark.
"""
