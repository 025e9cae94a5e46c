"""History recorder, counters, samples and the trace hash of a run."""
