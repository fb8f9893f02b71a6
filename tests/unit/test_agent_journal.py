"""The journal in the logs of a ramdisk: which file, how much, and archives of bad will."""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest

from ironic_lite.drivers.agent import journal


def packed(**files: bytes) -> bytes:
    """Return an archive; ``__`` in a name is a slash."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name.replace("__", "/").replace("_log", ".log"))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def test_journal_is_preferred_to_other_files() -> None:
    found = journal.tail(packed(var__log__syslog=b"x\n", journal=b"one\ntwo\n", df=b"z"))
    assert found == ["one", "two"]
    assert journal.tail(packed(df=b"z", var__log__syslog=b"x\n")) == ["x"]
    assert journal.tail(packed(df=b"z")) == []


def test_long_journal_is_cut_at_a_line() -> None:
    lines = [f"line {number}" for number in range(100_000)]
    found = journal.tail(packed(journal="\n".join(lines).encode()))
    assert found == lines[-len(found) :]
    assert journal.TAIL - 20 < sum(len(line) + 1 for line in found) <= journal.TAIL + 1


def test_damaged_archive_gives_what_can_be_read() -> None:
    whole = packed(journal=b"one\n", later=bytes(100_000))
    assert journal.tail(whole[:-20]) in (["one"], [])
    for data in (b"", b"no archive", gzip.compress(b"no tar"), packed()):
        assert journal.tail(data) == []


def test_text_that_is_no_text_is_replaced() -> None:
    assert journal.tail(packed(journal=b"a\xff\n")) == ["a\N{REPLACEMENT CHARACTER}"]


def test_archive_that_unpacks_to_very_much_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_MOST", 1024 * 1024)
    assert journal.tail(packed(big=bytes(8 * 1024 * 1024), journal=b"never reached\n")) == []


def test_link_in_an_archive_leads_nowhere() -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        link = tarfile.TarInfo("journal")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert journal.tail(made.getvalue()) == []
