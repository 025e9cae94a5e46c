"""Build a release, and check it: `make release`. Nothing is uploaded.

1. The source distribution is built from the checkout, and both wheels from the source distribution:
   one pure, one with compiled modules. The tag of the compiled wheel names the oldest C library
   that it runs on (manylinux).
2. Each wheel is installed into an empty environment, which runs the README's example. Then
   the script adds the extra for SQL, and runs the applications of `examples/` on a cluster of
   `creek up`.
3. The container file is linted, if hadolint is installed. The documentation is rendered.
4. `dist/SHA256SUMS` lists the files with their checksums.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.cluster.ports import free_ports
from tests.releases.make import archives

ROOT: Final = Path(__file__).resolve().parent.parent
DIST: Final = ROOT / "dist"
CONSTRAINTS: Final = ROOT / "constraints.txt"
PIP: Final = ("-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check")
START_TIMEOUT_S: Final = 60.0
MODULES: Final = ("creekdb.testing", "creekdb.dbapi", "creekdb.sqlalchemy", "pyspark_creek")
"""Modules that a wheel must contain, besides those that the examples import."""
SQL_CLUSTER: Final = "--datatype sql"
"""Options of `creek up` for examples that need an extra."""
FIRST_PORT: Final = 7100
"""Client port of replica 0 in the README and the examples."""


class ReleaseFailed(Exception):
    """A step failed. The message names it."""


class Step(NamedTuple):
    """Command of an example, and its expected output."""

    line: str
    output: str


class Example(NamedTuple):
    directory: Path
    cluster: str
    """Options of `creek up`."""
    steps: list[Step]


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = project["version"]
    try:
        check_version(version)
        with tempfile.TemporaryDirectory(prefix="creek-release-") as name:
            source, pure, compiled = build(Path(name))
            files = [source, pure, tag_for_distributions(compiled, Path(name))]
            for wheel in files[1:]:
                check_wheel(wheel, Path(name) / f"check-{wheel.stem}")
        lint_container_file()
        run("rendering the documentation", [sys.executable, "-m", "mkdocs", "build", "--quiet"])
    except ReleaseFailed as error:
        print(f"release failed: {error}", file=sys.stderr)
        return 1
    write_checksums(files)
    print(
        f"\nReady: creekdb {version} in dist/, documentation in build/site/. Next:\n"
        f"  1. git tag -s v{version} && git push origin v{version}\n"
        "  2. build wheels for other platforms with cibuildwheel (pyproject.toml configures it)\n"
        "  3. upload the files of dist/SHA256SUMS with twine\n"
        "  4. set the next version in pyproject.toml, with the suffix .dev0"
    )
    return 0


def check_version(version: str) -> None:
    """Require a complete changelog entry and the archive of this release's formats."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if f"## [{version}]" not in changelog:
        raise ReleaseFailed(f"CHANGELOG.md has no section [{version}]; rename [Unreleased]")
    if re.search(r"^## \[Unreleased\]\s*^(?!## )\S", changelog, re.MULTILINE):
        raise ReleaseFailed(
            f"CHANGELOG.md has unreleased changes; move them to [{version}], or set a later version"
        )
    for archive in archives(version).values():
        if not (ROOT / "tests" / "releases" / archive.name).is_file():
            raise ReleaseFailed(
                f"tests/releases/{archive.name} is missing; run 'python -m tests.releases.make'"
            )


def build(scratch: Path) -> list[Path]:
    """Return the source distribution, the pure wheel and the compiled one."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    wheel = [sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", str(DIST)]
    source = build_source_distribution(scratch)
    environment = {**os.environ, "PIP_CONSTRAINT": str(CONSTRAINTS)}
    for name, value in (("pure", "0"), ("compiled", "1")):
        settings = {**environment, "CREEK_USE_MYPYC": value}
        run(f"building the {name} wheel", [*wheel, str(source)], env=settings)
    pure, compiled = sorted(DIST.glob("*.whl"), key=lambda path: not path.stem.endswith("any"))
    return [source, pure, compiled]


def tag_for_distributions(wheel: Path, scratch: Path) -> Path:
    """Replace the wheel by one that states its requirements on the system, and return that.

    Package indices refuse a wheel for `linux` without them.
    """
    auditwheel = Path(sys.executable).with_name("auditwheel")
    if "-linux_" not in wheel.name:
        return wheel
    if not auditwheel.exists():
        print(f"Not tagged: {wheel.name}, because auditwheel is not installed.")
        return wheel
    directory = scratch / "tagged"
    path = os.pathsep.join((str(auditwheel.parent), os.environ.get("PATH", os.defpath)))
    command = [str(auditwheel), "repair", "--wheel-dir", str(directory), str(wheel)]
    run("tagging the compiled wheel", command, env={**os.environ, "PATH": path})
    (tagged,) = directory.glob("*.whl")
    wheel.unlink()
    return Path(shutil.move(tagged, DIST / tagged.name))


def build_source_distribution(scratch: Path) -> Path:
    """Build the source distribution in a copy of the versioned files, so that it has no others."""
    copy = scratch / "checkout"
    copy.mkdir()
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    ).stdout.decode()
    for name in filter(None, names.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    environment = scratch / "build"
    run("creating an environment", [sys.executable, "-m", "venv", str(environment)])
    python = str(environment / "bin" / "python")
    run("installing setuptools", [python, *PIP, "install", *build_requirements()])
    script = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run("building the source distribution", [python, "-c", script, str(DIST)], cwd=copy)
    (source,) = DIST.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archived = {name.partition("/")[2] for name in archive.getnames()}
    sources = [path.relative_to(copy).as_posix() for path in (copy / "src").rglob("*.py")]
    if missing := set(sources) - archived:
        raise ReleaseFailed(f"{source.name} lacks {', '.join(sorted(missing))}")
    return source


def build_requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requirements: list[str] = project["build-system"]["requires"]
    return requirements


def check_wheel(wheel: Path, directory: Path) -> None:
    """Run the README's example and the applications in an environment with only this wheel.

    The example must run without extras: a client and a replica need none.
    """
    run("creating an environment", [sys.executable, "-m", "venv", str(directory)])
    python = str(directory / "bin" / "python")
    install = [python, *PIP, "install", "--constraint", str(CONSTRAINTS)]
    run(f"installing {wheel.name}", [*install, str(wheel)])
    build_kind = "interpreted" if wheel.stem.endswith("any") else "compiled"
    shown = output_of(["creek", "--version"], directory, ROOT.parent)
    if not shown.endswith(f", {build_kind}\n"):
        raise ReleaseFailed(f"{wheel.name} is not {build_kind}: it shows '{shown.strip()}'")
    script = f"from importlib.util import find_spec; assert all(map(find_spec, {MODULES}))"
    output_of(["python", "-c", script], directory, ROOT.parent)
    for example in examples(directory / "readme"):
        if example.cluster == SQL_CLUSTER:
            run("installing the extra for SQL", [*install, f"creekdb[sql] @ {wheel.as_uri()}"])
        check_example(example, directory)
        print(f"  {wheel.name}: {example.directory.name} runs as documented")


def examples(readme_directory: Path) -> Iterator[Example]:
    """Return the README's example, and those of `examples/` as their READMEs show them."""
    readme_directory.mkdir()
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("fifteen lines\n")[2]
    found = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", section, re.DOTALL)
    assert found is not None
    (readme_directory / "example.py").write_text(found[1], encoding="utf-8")
    yield Example(readme_directory, "", [Step("python example.py", found[2])])
    for page in sorted((ROOT / "examples").glob("*/README.md")):
        text = page.read_text(encoding="utf-8")
        steps = [
            Step(line, output)
            for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
            for line, _, output in (part.partition("\n") for part in block.split("$ ")[1:])
        ]
        up = re.search(r"^creek up *(--datatype \S+)?", text, re.MULTILINE)
        assert up is not None
        yield Example(page.parent, up[1] or "", steps)


def check_example(example: Example, environment: Path) -> None:
    port = free_ports()
    with cluster(example, environment, port):
        for step in example.steps:
            line = step.line
            if example.directory.name == "readme":
                program = example.directory / "example.py"
                program.write_text(at_port(program.read_text(encoding="utf-8"), port))
            shown = output_of(["sh", "-c", line], environment, example.directory, port)
            if shown != step.output:
                raise ReleaseFailed(f"'{line}' in {example.directory} printed:\n{shown}")


@contextmanager
def cluster(example: Example, environment: Path, port: int) -> Iterator[None]:
    """Run `creek up` until the block ends."""
    log = environment / f"{example.directory.name}.log"
    words = ["creek", "up", *example.cluster.split(), "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [environment / "bin" / words[0], *words[1:]],
            cwd=example.directory,
            env=clean_environment(environment, port),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            while "is the leader" not in log.read_text(errors="replace"):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise ReleaseFailed(f"'{' '.join(words)}' did not start:\n{log.read_text()}")
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait()


def at_port(text: str, port: int) -> str:
    return re.sub(r"127\.0\.0\.1:710(\d)", lambda found: f"127.0.0.1:{port + int(found[1])}", text)


def clean_environment(environment: Path, port: int = FIRST_PORT) -> dict[str, str]:
    """Return variables with which commands use only the packages of the environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    kept.pop("CREEK_COMPILED", None)
    path = os.pathsep.join((str(environment / "bin"), os.environ.get("PATH", os.defpath)))
    runtime = environment / "run"
    runtime.mkdir(exist_ok=True)
    return {
        **kept,
        "PATH": path,
        "CREEK_AT": f"127.0.0.1:{port}",
        "CREEK_PORT": str(port),
        "XDG_RUNTIME_DIR": str(runtime),
    }


def output_of(
    command: list[str], environment: Path, directory: Path, port: int = FIRST_PORT
) -> str:
    variables = clean_environment(environment, port)
    program = shutil.which(command[0], path=variables["PATH"])
    assert program is not None
    completed = subprocess.run(
        [program, *command[1:]],
        cwd=directory,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if completed.returncode != 0:
        raise ReleaseFailed(f"'{' '.join(command)}' failed:\n{completed.stdout}")
    return completed.stdout


def lint_container_file() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        print("Not linted: deploy/Containerfile, because hadolint is not installed.")
        return
    run("linting deploy/Containerfile", [str(hadolint), str(ROOT / "deploy" / "Containerfile")])


def write_checksums(files: list[Path]) -> None:
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files]
    (DIST / "SHA256SUMS").write_text("".join(f"{line}\n" for line in lines))
    print("\n".join(("", *lines)))


def run(what: str, command: list[str], cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    print(f"{what[0].upper()}{what[1:]} ...", flush=True)
    completed = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if completed.returncode != 0:
        raise ReleaseFailed(f"{what} failed:\n{completed.stdout}")


if __name__ == "__main__":
    sys.exit(main())
