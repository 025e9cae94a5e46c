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
- `competitors`: other systems, for `live` and `live_sql`; `comparison`: one load for Creek and etcd
- `hardware_floor`: the machine's own latency; `delayed_links`: links with a latency
- `registry`: the benchmarks of the table, and those that run only by name
- `call_instructions`, `curve`, `geography`, `idle`, `profile`: commands of their own
"""
