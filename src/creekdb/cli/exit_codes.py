"""Exit codes of the `creek` command."""

from creekdb.errors import CreekError

SUCCESS = 0
FAILURE = 1
"""A checker or the fuzzer found a violation, or the requested action was not performed."""
USAGE_ERROR = 2
IO_ERROR = 3
INCOMPLETE = 4
"""A search or a checker did not come to a verdict, and no violation was found."""
APOLOGY = 5
"""A call had a successful response, and its final one is an error."""
INTERRUPTED = 130
PIPE_CLOSED = 141
"""The reader of the output closed the pipe; the code that a shell reports for SIGPIPE."""


class CommandFailed(CreekError):
    """The requested action was not performed, or failed."""

    def __init__(self, message: str, exit_code: int = FAILURE) -> None:
        super().__init__(message)
        self.exit_code = exit_code
