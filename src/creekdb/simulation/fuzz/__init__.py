"""Scenario generation from seeds, and campaigns of many seeds."""
