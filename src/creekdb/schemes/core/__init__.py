"""Shared parts of the schemes: contract, ordering, execution, responses, stable prefix."""
