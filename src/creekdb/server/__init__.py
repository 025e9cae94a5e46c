"""A live replica: the same protocol as in the simulator, on real sockets, disks and clocks.

In the order a call meets them: `clients` (a connection), `desk` (what may be asked), `traffic`,
`driver` (feeds the replica and carries out its effects) with `execution` (where operations run) and
`journal` (what must survive a crash), and `peers` (the other replicas). `server` is all of it
together, in one process.
"""
