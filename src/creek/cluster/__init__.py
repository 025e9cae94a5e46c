"""A live replica: the same protocol as in the simulator, on real sockets, disks and clocks.

wire      frames, and what is said in them
journal   what must survive a crash
driver    feeds the replica and carries out its effects
peers     connections to the other replicas
clients   connections of clients, and what they may ask
once      a call that is asked again is not executed again
server    all of it together, in one process
"""
