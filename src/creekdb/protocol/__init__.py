"""Replication protocol as pure state machines: broadcasts, consensus, membership, checkpoints."""
