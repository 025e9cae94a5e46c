"""Change feed of a replica: committed requests with their writes, kept beside the journal."""
