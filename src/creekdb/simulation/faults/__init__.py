"""Fault types, the fault language, and the injector of faults and membership changes."""
