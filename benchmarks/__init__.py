"""Costs with upper bounds, as ratios measured in one run: `python -m benchmarks`.

A ratio compares two costs on the same machine within the same seconds. So it has the same meaning
on slow and fast, busy and idle machines. Every result has a sentence that explains it, and most
have an upper bound, the *bar*. A run with a missed bar exits with 1. Absolute numbers are only
reported.

- `timing`: comparison of two costs
- `scale`: sizes of the measurements
- `result`: one line of the table
- `workloads`: requests, and replicas in the state to measure
- `network`: a cluster in one process, without a simulator, for whole runs
- `shop`, `registers`: data types to execute
- `competitors`: the systems that `live` compares with; `hardware_floor`: the machine's own latency
- `order`, `replica`, `execution`, `versions`, `conflicts`, `memory`, `dots`, `heal`, `journal`,
  `simulator`, `fuzzer`, `pipeline`, `pipeline_tables`: the benchmarks
"""
