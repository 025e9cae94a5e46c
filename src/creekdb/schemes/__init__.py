"""Replication schemes: Creek, basic Creek and the systems that the paper compares them with."""
