"""Mutants of SQL. Named tests detect them."""

from tests.mutants.catalogue import MutantWithTests, tested

CHANGES = "tests/unit/sql/test_changes.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    tested(
        "sql_failed_statement_keeps_its_rows",
        "a statement that raises has no effect",
        "tests/unit/sql/test_engine.py",
        "sql/changes.py",
        "            changer.writer.undo()\n",
        "            pass\n",
    ),
    tested(
        "sql_replace_keeps_rows_in_the_way",
        "OR REPLACE deletes the rows in the way",
        CHANGES,
        "sql/changes.py",
        "                self.writer.delete(self.table, existing)\n",
        "                pass\n",
    ),
    tested(
        "sql_row_ids_ignore_the_replica",
        "replicas draw different row ids at the same time",
        "tests/unit/sql/test_row_ids.py",
        "sql/row_ids.py",
        "replica = transaction.replica & (2**REPLICA_BITS - 1)",
        "replica = 0",
    ),
    tested(
        "sql_keys_ignore_the_collation",
        "values that are equal under the collation have one key",
        "tests/unit/sql/test_key_codec.py",
        "sql/key_codec.py",
        "        return text.translate(_FOLD)\n",
        "        return text\n",
    ),
    tested(
        "sql_parents_without_check",
        "a child needs its parent",
        "tests/unit/sql/test_foreign_keys.py",
        "sql/changes.py",
        "            self._foreign_keys.check()\n",
        "            pass\n",
    ),
)
