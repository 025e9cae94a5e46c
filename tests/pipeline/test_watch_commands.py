"""Arguments, rejections and exit codes of `creek pipeline watch`, `audit` and `verify --servers`.

The commands fail before Spark starts. `test_live_source.py` runs them on Spark.
"""

import asyncio
from pathlib import Path

import msgspec
import pytest

from creekdb.cli import main
from creekdb.pipeline.watch.following import MANIFEST, Manifest
from tests.cluster.in_process_cluster import running_cluster

NOWHERE = ("--servers", "127.0.0.1:1", "--patience", "0")


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Fail if a command starts Spark, and use another default output directory."""
    monkeypatch.setattr("creekdb.pipeline.spark.session.starting_session", None)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("watch", "--start", "0"), 2, "--start is '0': it must be earliest, latest or an index"),
        (("watch", "--for", "soon", *NOWHERE), 2, "--for is 'soon'"),
        (("watch", "--step", "0"), 2, "--step and --window must be more than 0"),
        (("watch", "--servers", "a:1,a:1"), 2, "server a:1 is named twice"),
        (("watch", "--servers", "nowhere"), 2, "nowhere"),
        (("audit", "--token-file", "/nowhere/token"), 2, "cannot read the token file"),
        (("audit", "--datatype", "nosuch"), 2, "nosuch"),
        (("audit", "--clock-error", "much"), 2, "--clock-error"),
        (("verify",), 2, "OUT is missing; name an output of 'simulate', or a live cluster"),
        (("verify", "runs", "--for", "1s"), 2, "--datatype and --for are for a live cluster"),
        (("verify", "--strict", *NOWHERE[:2]), 2, "--strict is for runs; omit it with --servers"),
        (("watch", *NOWHERE), 1, "cannot watch the cluster: no replica can be reached"),
        (("audit", *NOWHERE), 1, "cannot audit the cluster: no replica can be reached"),
        (("audit", "--datatype", "kv", *NOWHERE), 1, "no replica can be reached: 127.0.0.1:1"),
        (("verify", *NOWHERE[:2]), 1, "cannot audit the cluster: no replica can be reached"),
    ],
)
def test_a_mistake_is_one_line_before_spark_starts(
    arguments: tuple[str, ...], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", *arguments]) == code

    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert "Traceback" not in output.err


async def test_a_cluster_that_cannot_be_followed_is_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        running_cluster(tmp_path / "off", 1) as off,
        running_cluster(tmp_path / "on", 1, keep_changes="1h") as on,
    ):
        (without,), (server,) = off.addresses(), on.addresses()
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "file").touch()
        for kind, cluster in (("watch", "one"), ("audit", "two")):
            manifest = msgspec.json.encode(Manifest(kind, cluster, (server,)))
            (tmp_path / kind).mkdir()
            (tmp_path / kind / MANIFEST).write_bytes(manifest)
        (tmp_path / "damaged").mkdir()
        (tmp_path / "damaged" / MANIFEST).write_bytes(b"{")
        cases = [
            (("watch", "--servers", without), 1, f"cannot follow {without}: "),
            (("watch", "--servers", f"{server},{without}"), 1, f"cannot follow {without}: "),
            (("watch", "--servers", server, "--out", "full"), 2, "holds other files"),
            (("audit", "--servers", server, "--out", "watch"), 2, "'creek pipeline watch'; name"),
            (("audit", "--servers", server, "--out", "audit"), 1, "audit follows cluster two"),
            (("audit", "--servers", server, "--out", "damaged"), 3, "watch.json is damaged"),
            (
                ("audit", "--servers", server, "--datatype", "kv", "--start", "latest"),
                2,
                "cannot replay the history",
            ),
        ]
        results = [
            (await asyncio.to_thread(main, ["pipeline", *arguments]), capsys.readouterr().err)
            for arguments, _, _ in cases
        ]

    for (arguments, code, message), (result, error) in zip(cases, results, strict=True):
        assert message in error, arguments
        assert (result, error.count("\n")) == (code, 1), error
