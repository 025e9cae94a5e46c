"""A live replica: the same protocol as in the simulator, on real sockets, disks and clocks.

wire      frames, and what is said in them
journal   what must survive a crash; groups: on their way to the disk; folder: whose it is
segments  how it lies on disk; segment_writer, calls, ring: how it gets there
driver    feeds the replica and carries out its effects
config    how a replica is set up
peers     connections to the other replicas
clients   connections of clients, and what they may ask
security  TLS, and what is counted of it; certificates: made for a trial
waiting   calls that come after what has not arrived yet
once      a call that is asked again is not executed again
execution where operations run; gate: in a thread of their own; watchdog: for too long
copies    of the committed state, in pieces; taking: how one is taken
backup    a copy in a file; restore: a new cluster that begins with one
retelling what was committed, as a journal tells
digests   do the replicas agree?
bounds    how much may wait for a majority
upkeep    what is looked after from time to time
loop      the event loop
metrics   what is counted; exposition: as Prometheus reads it
logs      what is told to who looks after a replica; watch: what has changed
server    all of it together, in one process
"""
