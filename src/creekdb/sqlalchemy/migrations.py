"""Alembic on the dialect. The entry point `creekdb` of `alembic.plugins` names this module.

A migration is one transaction, so that all its statements take effect or none. Everything else is
as for SQLite, including the batch mode for changes that ALTER TABLE does not support.
"""

from typing import Any


def setup(plugin: Any) -> None:
    """Do nothing, since the import of this module registers its class.

    Alembic may call this function before the import of this module has ended.
    """


from alembic.ddl.sqlite import SQLiteImpl  # noqa: E402


class CreekImpl(SQLiteImpl):
    """Operations of migrations. Alembic registers the class by the name of its dialect."""

    __dialect__ = "creek"

    transactional_ddl = True
