"""What the exit codes mean."""

SUCCESS = 0
FAILURE = 1
"""A checker, or the fuzzer, found something that must not be; or what was asked was not done."""
USAGE_ERROR = 2
IO_ERROR = 3
INTERRUPTED = 130
PIPE_CLOSED = 141
"""Whoever read the output has seen enough: as a shell says of a command that SIGPIPE ended."""
