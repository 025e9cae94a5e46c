"""Configurations of the cluster, their changes, and the recovery of a replica from disk loss."""
