"""Writers of `format("creek")`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

from creekdb.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType


def batch_writer(
    options: Mapping[str, str], schema: "StructType", overwrite: bool
) -> "DataSourceWriter":
    """Return the writer of `df.write`."""
    _refuse()


def stream_writer(
    options: Mapping[str, str], schema: "StructType", overwrite: bool
) -> "DataSourceStreamWriter":
    """Return the writer of `df.writeStream`."""
    _refuse()


def _refuse() -> NoReturn:
    raise UsageError("format creek cannot write yet; call operations by creekdb.connect instead")
