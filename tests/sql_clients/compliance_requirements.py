"""Features that the compliance suite of SQLAlchemy may expect of the dialect, and its failures."""

from typing import Any, Final

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

MISSING: Final[Any] = exclusions.closed()
ROW_IDS: Final = "expects the row ids 1, 2, …; those of Creek derive from the request"
LIKE_SQLITE: Final = "fails on plain SQLite too, with the default requirements of the suite"
NO_TABLE_AS: Final = "uses CREATE TABLE AS without requiring it; the types must be declared"
EXPECTED_FAILURES: Final[dict[str, str]] = {
    "ComponentReflectionTest::test_get_foreign_keys": LIKE_SQLITE,
    "ComponentReflectionTest::test_get_multi_foreign_keys": LIKE_SQLITE,
    "ComponentReflectionTest::test_get_multi_unique_constraints": LIKE_SQLITE,
    "ComponentReflectionTest::test_get_pk_constraint": LIKE_SQLITE,
    "ComponentReflectionTest::test_get_table_options": LIKE_SQLITE,
    "ComponentReflectionTest::test_get_view_names": LIKE_SQLITE,
    "ComponentReflectionTest::test_metadata": LIKE_SQLITE,
    "ComponentReflectionTest::test_multi_get_table_options": LIKE_SQLITE,
    "QuotedNameArgumentTest::test_get_table_options": LIKE_SQLITE,
    "IdentityAutoincrementTest::test_autoincrement_with_identity": ROW_IDS,
    "LastrowidTest::test_autoincrement_on_insert": ROW_IDS,
    "ReturningTest::test_autoincrement_on_insert_implicit_returning": ROW_IDS,
    "ReturningTest::test_imv_returning_datatypes": ROW_IDS,
    "ReturningTest::test_insert_w_floats": ROW_IDS,
    "TableViaSelectTest::test_without_metadata": NO_TABLE_AS,
}
"""Failed tests by name, without parameters, with the reason."""


class Requirements(SuiteRequirements):
    """Features that the dialect lacks, by the name of the suite's requirement."""

    @property
    def schemas(self) -> Any:
        """A database has one schema."""
        return MISSING

    @property
    def temporary_tables(self) -> Any:
        """All tables are replicated."""
        return MISSING

    temporary_views = temp_table_names = temp_table_reflection = has_temp_table = temporary_tables
    temp_table_reflect_indexes = create_temp_table_as = temporary_tables

    @property
    def parens_in_union_contained_select_w_limit_offset(self) -> Any:
        """SQLite has no parentheses around parts of a compound SELECT."""
        return MISSING

    parens_in_union_contained_select_wo_limit_offset = (
        parens_in_union_contained_select_w_limit_offset
    )

    @property
    def create_or_replace_view(self) -> Any:
        """SQLite has no CREATE OR REPLACE."""
        return MISSING

    materialized_views = identity_columns = create_or_replace_view

    @property
    def create_table_as(self) -> Any:
        """The types of the columns must be declared."""
        return MISSING
