"""Durable state of a replica: data directory, journal and checkpoints."""
