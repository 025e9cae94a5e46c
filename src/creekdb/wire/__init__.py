"""Messages between processes, their encoding, and the code that clients and replicas share."""
