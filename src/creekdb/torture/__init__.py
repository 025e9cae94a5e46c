"""Torture of live clusters: random faults on real processes, clients, checks and a report.

`plan` draws the faults of a round from a seed. `round` starts a cluster and its clients, and checks
the run. `nemesis` injects the faults. `campaign` repeats rounds, and `report` draws the timeline.
"""
