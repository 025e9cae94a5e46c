"""Histories of calls in files."""
