"""Reliable broadcast (Section 3.2) and conditional atomic broadcast (Sections 3.3 and 5)."""
