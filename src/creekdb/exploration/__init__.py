"""Exhaustive exploration of small clusters of real replicas, for `creek explore`."""
