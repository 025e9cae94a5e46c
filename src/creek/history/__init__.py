"""What clients and replicas saw: the schema and, in time, the run folders."""
