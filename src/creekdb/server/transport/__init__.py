"""Connections of a replica to peers and clients."""
