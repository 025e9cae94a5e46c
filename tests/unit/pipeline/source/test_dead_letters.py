"""Names of the files of rejected rows."""

from creekdb.pipeline.source.dead_letters import file_stem


def test_sinks_have_different_files() -> None:
    names = ["a_b", "a b", "a-b", "a/b", "a%b", "ä", "x" * 300, "x" * 301, "..", "~1"]
    stems = [file_stem(name) for name in names]

    assert len(set(stems)) == len(names)
    assert all("/" not in stem and len(stem.encode()) <= 100 for stem in stems)


def test_a_plain_name_is_the_name_of_its_file() -> None:
    assert file_stem("daily.totals_2") == "daily.totals_2"
