"""Linearizability of the calls on each object."""
