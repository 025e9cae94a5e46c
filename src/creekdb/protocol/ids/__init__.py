"""Identifiers of requests, and sets of them as version vectors."""
