"""Indirect Multi-Paxos (Section 5): consensus on batches of identifiers, instance by instance.

`acceptor` promises and votes, `learner` counts votes and retains the decisions, `leader` proposes,
and `omega` elects the leader. The roles share a process but no state.
`creekdb.protocol.broadcast.cab` combines them.
"""
