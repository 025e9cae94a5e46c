"""TPC-C: the data type, its initial data, what its clients ask for, and what must always hold."""
