"""Spark sessions, Java discovery, and frames with declared schemas."""
