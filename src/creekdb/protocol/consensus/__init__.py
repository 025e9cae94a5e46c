"""Indirect Multi-Paxos (Section 5): consensus on batches of identifiers, instance by instance.

`acceptor` promises and votes, `learner` counts votes and keeps the decisions, `leader` proposes.
They share a process but not their state; `creekdb.protocol.broadcast.cab` joins them.
"""
