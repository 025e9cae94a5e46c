"""Statements that change rows or the schema: their plans, their writes and their constraints."""
