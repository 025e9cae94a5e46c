"""Membership changes of a live cluster."""
