"""Live replica: the protocol of the simulator on real sockets, disks and clocks.

A call passes these packages in this order:

- `transport`: client connections, peer links and listeners.
- `calls`: admission control, dispatch, and the routing of responses.
- `runtime`: the driver, which feeds the replica and applies its effects, and the executors, which
  run operations.
- `storage`: the journal, which holds the records that must survive a crash.

`security`, `membership`, `backup` and `observability` support them. `runtime.server` assembles all
parts in one process.
"""
