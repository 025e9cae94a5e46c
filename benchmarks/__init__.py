"""The costs that must hold, as ratios measured in one run: `python -m benchmarks`.

A ratio compares two things on the same machine within the same seconds, so it means the same on a
slow machine as on a fast one, and on a busy one as on an idle one. Each has a sentence that says
what it is, and most have a bar; a run that misses one exits with 1. Absolute numbers are only
reported.

- `measuring`: how two things are compared
- `scale`: how much is measured
- `result`: one line of the table
- `workloads`: requests, and replicas in the state that is to be measured
- `network`: a cluster in one process, without a simulator, for whole runs
- `shop`, `registers`: data types to execute
- `rivals`: what `live` sets a cluster beside; `floor`: what the machine alone takes
- `order`, `replica`, `execution`, `versions`, `conflicts`, `memory`, `dots`, `heal`, `journal`,
  `simulator`, `fuzzer`, `pipeline`, `pipeline_tables`: the benchmarks
"""
