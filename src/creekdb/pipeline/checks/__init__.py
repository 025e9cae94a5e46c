"""Checkers of runs: as relational queries on tables of any length, and on one history in memory."""
