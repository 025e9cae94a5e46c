"""Parts that every driver of a replica uses, live or simulated. None of them performs I/O."""
