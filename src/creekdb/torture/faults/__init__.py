"""Faults of a round: their plan, their injection into processes, links and disks, and healing."""
