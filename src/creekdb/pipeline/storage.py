"""Directories and files in any file system that Arrow and Spark can access.

A location is a local path, or a URI such as `s3a://bucket/runs` or `hdfs://host/runs`. Spark reads
and writes `uri`; everything else goes through Arrow. A file is complete or absent: it is written
under another name and renamed, or, in an object store, becomes visible with its last byte.
"""

import posixpath
import re
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from creekdb.atomic_write import atomic_write
from creekdb.errors import StorageFault, UsageError
from creekdb.pipeline.schemas import PARQUET_OPTIONS

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
_ARROW_SCHEMES: Final = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "wasbs": "abfss"}
"""Names of file systems in Arrow, by their names in Hadoop."""


LocationLike: TypeAlias = "str | Path | Location"
"""A location, or its name."""


class Location:
    """A directory or a file, by path or URI."""

    def __init__(self, filesystem: pa.fs.FileSystem, path: str, text: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._text = text

    @classmethod
    def parse(cls, text: LocationLike) -> "Location":
        """Return the location with that name; raise UsageError if its file system is unknown."""
        if isinstance(text, Location):
            return text
        name = str(text)
        scheme = _SCHEME.match(name)
        if scheme is None or scheme[1] == "file":
            path = name[scheme.end() :] if scheme else name
            return cls(pa.fs.LocalFileSystem(), str(Path(path).absolute()), name)
        arrow_name = f"{_ARROW_SCHEMES.get(scheme[1], scheme[1])}://{name[scheme.end() :]}"
        try:
            filesystem, path = pa.fs.FileSystem.from_uri(arrow_name)
        except (OSError, ValueError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0]
            raise UsageError(
                f"cannot use {name}: no access to a file system '{scheme[1]}' ({reason}); name a "
                "local directory, or a URI of a file system that Arrow can access"
            ) from error
        return cls(filesystem, path, name.rstrip("/"))

    def __truediv__(self, name: str) -> "Location":
        return Location(
            self._filesystem, posixpath.join(self._path, name), posixpath.join(self._text, name)
        )

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Location({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and self.uri == other.uri

    def __hash__(self) -> int:
        return hash(self.uri)

    def __reduce__(self) -> Any:
        return _restore, (self.uri, self._text)

    @property
    def name(self) -> str:
        return posixpath.basename(self._path)

    @property
    def uri(self) -> str:
        """Absolute name for Spark, whose default file system may not be the local one."""
        return f"file://{self._path}" if self.is_local else self._text

    @property
    def is_local(self) -> bool:
        return isinstance(self._filesystem, pa.fs.LocalFileSystem)

    @property
    def local_path(self) -> Path:
        """Path in the local file system; raises UsageError for any other location."""
        if not self.is_local:
            raise UsageError(f"cannot use {self}: it must be a local directory; copy it first")
        return Path(self._path)

    def exists(self) -> bool:
        return self._type is not pa.fs.FileType.NotFound

    def is_directory(self) -> bool:
        return self._type is pa.fs.FileType.Directory

    def is_file(self) -> bool:
        return self._type is pa.fs.FileType.File

    @property
    def _type(self) -> pa.fs.FileType:
        return self._filesystem.get_file_info(self._path).type

    def names(self) -> list[str]:
        """Return the sorted names in a directory, without hidden ones; none if it is absent."""
        selector = pa.fs.FileSelector(self._path, allow_not_found=True)
        infos = self._filesystem.get_file_info(selector)
        return sorted(each.base_name for each in infos if not each.base_name.startswith((".", "_")))

    def read_bytes(self) -> bytes:
        with self._filesystem.open_input_stream(self._path) as stream:
            content: bytes = stream.read()
        return content

    def read_table(self, columns: list[str] | None = None, **options: Any) -> pa.Table:
        """Read a Parquet file, or all files of a directory; raise StorageFault by its name."""
        try:
            return pq.read_table(
                self._path,
                columns=columns,
                filesystem=self._filesystem,
                page_checksum_verification=True,
                **options,
            )
        except FileNotFoundError as error:
            raise StorageFault(f"{self} is missing") from error
        except (OSError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0]
            raise StorageFault(
                f"{self} is damaged: {reason}; remove it and create it anew"
            ) from error

    def open_parquet(self) -> pq.ParquetFile:
        """Open a Parquet file to read single row groups."""
        source = self._filesystem.open_input_file(self._path)
        try:
            return pq.ParquetFile(source, page_checksum_verification=True)
        except BaseException:
            source.close()
            raise

    def read_schema(self) -> pa.Schema:
        """Read the schema of a complete Parquet file; a truncated file lacks it."""
        try:
            return pq.read_schema(self._path, filesystem=self._filesystem)
        except (OSError, pa.ArrowException) as error:
            raise StorageFault(f"{self} is damaged: {str(error).splitlines()[0]}") from error

    def write_bytes(self, content: bytes | pa.Buffer) -> None:
        """Write a file, in place of an earlier one."""
        if self.is_local:
            path = self.local_path
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path, shared=True) as partial:
                partial.write_bytes(content)
            return
        partial_path = self._path
        if isinstance(self._filesystem, pa.fs.HadoopFileSystem):
            partial_path = posixpath.join(posixpath.dirname(self._path), f".{self.name}.partial")
        with self._filesystem.open_output_stream(partial_path) as stream:
            stream.write(content)
        if partial_path != self._path:
            self._filesystem.move(partial_path, self._path)

    def write_table(self, table: pa.Table) -> None:
        """Write a Parquet file with checksums, in place of an earlier one."""
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer, **PARQUET_OPTIONS)
        self.write_bytes(buffer.getvalue())

    def make_directory(self) -> None:
        self._filesystem.create_dir(self._path, recursive=True)

    def remove(self) -> None:
        """Remove a file, or a directory with its content, if it exists."""
        kind = self._type
        if kind is pa.fs.FileType.Directory:
            self._filesystem.delete_dir(self._path)
        elif kind is not pa.fs.FileType.NotFound:
            self._filesystem.delete_file(self._path)


def _restore(uri: str, text: str) -> Location:
    """Return the location in another process, whose working directory may differ."""
    location = Location.parse(uri)
    return Location(location._filesystem, location._path, text)
