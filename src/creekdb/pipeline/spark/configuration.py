"""Settings of a Spark session, and their precedence.

    1. options of the command: `--master`, `--conf`, `--driver-memory`, ...
    2. settings of `spark-submit`, or of PYSPARK_SUBMIT_ARGS
    3. `spark-defaults.conf` in SPARK_CONF_DIR or SPARK_HOME/conf
    4. defaults of Creek

Creek adds a default only for a key that no other source sets. Defaults that name directories of the
driver apply to local masters only, since the executors of a cluster have other directories.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from creekdb.errors import UsageError

LOCAL_MASTER: Final = "local[*]"
TASK_ATTEMPTS_MAX: Final = 3
"""Attempts of a task whose process was lost, on a local master."""
HEAP_DIVISOR: Final = 4
"""Divisor of the machine's memory for the Java heap. Python processes use the rest."""
HEAP_MIB_MIN: Final = 1024
HEAP_MIB_MAX: Final = 4096
SOCKET_DIRECTORY_LENGTH_MAX: Final = 60
"""Upper bound for the directory of Unix sockets, in bytes. Spark appends 42 of at most 107."""

ENVIRONMENT_NAME: Final = "environment"
"""Name under which executors unpack the archive of packages."""
ENVIRONMENT_PYTHON: Final = f"./{ENVIRONMENT_NAME}/bin/python"
DEFAULT_PYTHON: Final = "python3"
"""Interpreter of executors on other machines, found on their PATH."""

SMALL_JOB_JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options that halve the CPU time of jobs of some seconds. Long jobs need the full compiler."""
CHECKSUM_SETTINGS: Final = {"parquet.page.verify-checksum.enabled": "true"}
SESSION_DEFAULTS: Final = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""Defaults that a session can set at run time, on any server."""

_LOOPBACK_DEFAULTS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_JAVA_PROCESS_KEYS: Final = (
    "spark.driver.memory",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraJavaOptions",
)
"""Settings that only the start of the Java process can apply."""
_SUBMIT_FLAGS: Final = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--executor-memory": "spark.executor.memory",
    "--archives": "spark.archives",
    "--py-files": "spark.submit.pyFiles",
    "--remote": "spark.remote",
}
_PROPERTY = re.compile(r"((?:\\.|[^\s=:\\])+)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)
_LOCAL_MASTER_URL = re.compile(r"local(\[.*\])?")


class SparkOptions(NamedTuple):
    """Options of a Spark session. Each overrides the settings of `spark-submit` and of files."""

    master: str | None = None
    """URL of the Spark master; None for that of `spark-submit` or the files, or else this host."""
    remote: str | None = None
    """URL of a Spark Connect server, in place of a master; None for SPARK_REMOTE."""
    conf: Mapping[str, str] = {}
    """Settings of Spark by key."""
    py_files: tuple[str, ...] = ()
    """Modules and archives of modules for the executors."""
    archives: tuple[str, ...] = ()
    """Archives that executors unpack: `FILE#NAME`."""
    driver_memory: str | None = None
    """Heap of the driver, such as `2g`."""
    small_job: bool = True
    """True for a job of some seconds: on a local master, Java compiles less."""

    @classmethod
    def parse(cls, value: "SparkOptions | str") -> "SparkOptions":
        """Return the options; a text is the URL of a master."""
        return value if isinstance(value, SparkOptions) else cls(master=value)


class Configuration(NamedTuple):
    """Settings of one session: those of the user, and the defaults that Creek adds to them."""

    master: str
    chosen: Mapping[str, str]
    """Settings of the command."""
    defaults: Mapping[str, str]
    """Settings that Creek adds."""
    python: str
    """Interpreter of the executors."""

    @property
    def is_local(self) -> bool:
        return is_local(self.master)

    @property
    def settings(self) -> dict[str, str]:
        """Settings that Creek passes to Spark, which loads those of the user's files itself."""
        return {**self.defaults, **self.chosen}

    @property
    def launch_settings(self) -> dict[str, str]:
        """Settings of the Java process. Every later session in it inherits them."""
        needed = ("spark.master", *_JAVA_PROCESS_KEYS)
        defaults = {key: value for key, value in self.defaults.items() if key in needed}
        return {**defaults, **self.chosen}

    def describe(self) -> list[str]:
        """Return the settings that Creek adds, one line each."""
        added = {**self.defaults, "PYSPARK_PYTHON": self.python}
        return [f"{key}={value}" for key, value in sorted(added.items())]


def is_local(master: str) -> bool:
    return _LOCAL_MASTER_URL.fullmatch(master) is not None


def parse_conf(settings: Iterable[str]) -> dict[str, str]:
    """Parse texts of the form KEY=VALUE."""
    conf = {}
    for each in settings:
        key, separator, value = each.partition("=")
        if not separator or not key.strip():
            raise UsageError(
                f"invalid setting '{each}': expected KEY=VALUE; "
                "for example spark.executor.memory=2g"
            )
        conf[key.strip()] = value.strip()
    return conf


def resolve(
    options: SparkOptions,
    name: str,
    inherited: Mapping[str, str],
    scratch: Path,
    environ: Mapping[str, str] = os.environ,
    java_defaults: Mapping[str, str] | None = None,
    sockets: Path | None = None,
) -> Configuration:
    """Return the configuration of a session named `name`.

    `inherited`: settings of `spark-submit` and of files. `scratch`: directory of the driver for
    files of the session. `java_defaults`: defaults for a new Java process; None if one runs, whose
    settings can no longer change. `sockets`: directory of Unix sockets, by default `scratch`.
    """
    chosen = _chosen_settings(options)
    if java_defaults is None and (late := [key for key in _JAVA_PROCESS_KEYS if key in chosen]):
        raise UsageError(
            f"cannot set {', '.join(late)}: the Java process of Spark already runs; set it where "
            "that process starts, such as in the command of spark-submit"
        )
    given = options.master or chosen.get("spark.master") or inherited.get("spark.master")
    master = given or LOCAL_MASTER
    defaults = {
        "spark.app.name": name,
        **SESSION_DEFAULTS,
        **{f"spark.hadoop.{key}": value for key, value in CHECKSUM_SETTINGS.items()},
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(_LOOPBACK_DEFAULTS if _is_on_this_host(master) else {}),
        **(_local_defaults(scratch, sockets or scratch) if is_local(master) else {}),
        **(java_defaults or {}),
    }
    if not (is_local(master) and options.small_job):
        defaults.pop("spark.driver.extraJavaOptions", None)
    known = {**inherited, **chosen}
    defaults = {key: value for key, value in defaults.items() if key not in known}
    if options.master is not None or given is None:
        chosen.pop("spark.master", None)
        master = defaults["spark.master"] = _with_task_retries(master)
    return Configuration(
        master=master,
        chosen=chosen,
        defaults=defaults,
        python=_executor_python(master, known, environ),
    )


def java_process_defaults(log_config: Path | None, heap_mib: int | None = None) -> dict[str, str]:
    """Return the defaults for a new Java process of the driver."""
    logging = {"spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile=file:{log_config}"}
    return {
        "spark.driver.memory": f"{heap_mib or default_heap_mib()}m",
        "spark.driver.extraJavaOptions": SMALL_JOB_JAVA_OPTIONS,
        **(logging if log_config is not None else {}),
    }


def _chosen_settings(options: SparkOptions) -> dict[str, str]:
    chosen = dict(options.conf)
    if options.master is not None:
        chosen["spark.master"] = options.master
    if options.driver_memory is not None:
        chosen["spark.driver.memory"] = options.driver_memory
    if options.archives:
        chosen["spark.archives"] = ",".join(options.archives)
    return chosen


def _with_task_retries(master: str) -> str:
    """Enable retries of tasks with lost processes on a local master."""
    match = re.fullmatch(r"local\[([^,\]]+)\]", master)
    return f"local[{match[1]},{TASK_ATTEMPTS_MAX}]" if match else master


def _is_on_this_host(master: str) -> bool:
    return is_local(master) or "//127.0.0.1" in master or "//localhost" in master


def _local_defaults(scratch: Path, sockets: Path) -> dict[str, str]:
    """Return defaults for a local master. Tasks import modules from the same paths as this one."""
    cwd = os.getcwd()
    defaults = {
        "spark.sql.shuffle.partitions": str(2 * _core_count()),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    if {"", cwd} & {*sys.path}:
        defaults["spark.executorEnv.PYTHONPATH"] = cwd
    if len(os.fsencode(sockets)) <= SOCKET_DIRECTORY_LENGTH_MAX:
        defaults["spark.python.unix.domain.socket.enabled"] = "true"
        defaults["spark.python.unix.domain.socket.dir"] = str(sockets)
    return defaults


def _executor_python(master: str, known: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """Return the interpreter of the executors. Those of a local master use that of the driver."""
    if configured := known.get("spark.pyspark.python"):
        return configured
    if is_local(master):
        return sys.executable
    if configured := environ.get("PYSPARK_PYTHON"):
        return configured
    return ENVIRONMENT_PYTHON if has_environment(known) else DEFAULT_PYTHON


def has_environment(settings: Mapping[str, str]) -> bool:
    """True if an archive of packages is sent under the name of an environment."""
    archives = ",".join(
        settings.get(key, "") for key in ("spark.archives", "spark.yarn.dist.archives")
    )
    return any(each.strip().endswith(f"#{ENVIRONMENT_NAME}") for each in archives.split(","))


# --- settings of spark-submit and of files ------------------------------------------------------


def settings_before_start(environ: Mapping[str, str], conf_dir: Path) -> dict[str, str]:
    """Return the settings that Spark's launcher will load: of its files and of PYSPARK_SUBMIT_ARGS.

    Once the Java process runs, its own settings are authoritative.
    """
    return {
        **read_spark_defaults(conf_dir / "spark-defaults.conf"),
        **_parse_submit_arguments(environ.get("PYSPARK_SUBMIT_ARGS", "")),
    }


def configuration_directory(environ: Mapping[str, str], spark_home: Path) -> Path:
    if configured := environ.get("SPARK_CONF_DIR"):
        return Path(configured)
    return Path(environ.get("SPARK_HOME") or spark_home) / "conf"


def has_logging_configuration(conf_dir: Path) -> bool:
    """True if the directory configures Spark's log, which then replaces Creek's configuration."""
    suffixes = (".properties", ".xml", ".yaml", ".yml", ".json")
    return any(each.suffix in suffixes for each in conf_dir.glob("log4j2*"))


def read_spark_defaults(file: Path) -> dict[str, str]:
    """Read a properties file of Spark. Keys of other programs are ignored, as Spark does."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
    settings = {}
    for line in _logical_lines(text):
        if match := _PROPERTY.fullmatch(line):
            key, value = (re.sub(r"\\(.)", r"\1", part) for part in match.groups())
            settings[key] = value.strip()
    return {key: value for key, value in settings.items() if key.startswith("spark.")}


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines without comments; a backslash at the end continues a line."""
    continued = ""
    for line in text.splitlines():
        line = continued + line.lstrip()
        continued = ""
        if not line or line[0] in "#!":
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            continued = line[:-1]
        else:
            yield line
    if continued:
        yield continued


def _parse_submit_arguments(text: str) -> dict[str, str]:
    settings = {}
    arguments = iter(shlex.split(text))
    for each in arguments:
        flag, separator, value = each.partition("=")
        if flag in ("--conf", "-c"):
            key, _, value = (value if separator else next(arguments, "")).partition("=")
            settings[key] = value
        elif flag in _SUBMIT_FLAGS:
            settings[_SUBMIT_FLAGS[flag]] = value if separator else next(arguments, "")
    return settings


# --- defaults of this machine -------------------------------------------------------------------


def _core_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_heap_mib() -> int:
    return min(max(_memory_mib() // HEAP_DIVISOR, HEAP_MIB_MIN), HEAP_MIB_MAX)


def _memory_mib() -> int:
    """Return the memory limit of this process: the cgroup's, or else that of the machine."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        allowed = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        allowed = "max"
    return min(total, int(allowed) if allowed.isdecimal() else total) // 2**20
