"""Live clusters on Spark: measurements and checks of a running cluster, from its change feed."""
