"""Alternatives to Creek, in the same configuration and under the same load."""
