"""Admission, dispatch, deduplication and expiry of client calls."""
