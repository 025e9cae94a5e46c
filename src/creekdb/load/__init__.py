"""Load for live clusters: who asks, how much, and what it took.

A load is driven from one process with as little work for each call as possible, so that it is the
cluster that is measured. It speaks to replicas as clients do (`creekdb.wire.messages`).
"""
