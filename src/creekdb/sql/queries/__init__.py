"""Reads of tables: the virtual tables of SQLite, and the registers that a query reads."""
