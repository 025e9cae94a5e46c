"""Event heap, clocks, seeds, scenarios, and the cluster with its nodes."""
