"""Anomalies of transactions, from the dependencies that reads prove."""
