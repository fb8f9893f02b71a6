"""Archives, sums, signatures and the bill of materials of a release."""

from __future__ import annotations

import datetime
import importlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from types import ModuleType

import pytest

ROOT = pathlib.Path(__file__).parents[2]
NOW = datetime.datetime(2027, 1, 31, tzinfo=datetime.UTC)
COMMIT = "c" * 40
EPOCH = 1_700_000_001


@pytest.fixture(scope="module")
def release() -> ModuleType:
    """Return ``packaging/release.py``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "packaging"))
        return importlib.import_module("release")


@pytest.fixture(scope="module")
def sbom(release: ModuleType) -> ModuleType:
    return sys.modules["sbom"]


def tarred(path: pathlib.Path, names: list[str], *, mode: int, at: int, owner: int) -> pathlib.Path:
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            one = tarfile.TarInfo(name)
            one.size, one.mode, one.mtime, one.uid = len(name), mode, at, owner
            tar.addfile(one, io.BytesIO(name.encode()))
    return path


def zipped(path: pathlib.Path, names: list[str], *, mode: int, year: int) -> pathlib.Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            one = zipfile.ZipInfo(name, (year, 1, 2, 3, 4, 6))
            one.external_attr = (0o100000 | mode) << 16
            archive.writestr(one, name)
    return path


def test_source_distributions_of_two_builders_become_equal(
    release: ModuleType, tmp_path: pathlib.Path
) -> None:
    one = tarred(tmp_path / "a.tar.gz", ["p/b", "p/a"], mode=0o640, at=5, owner=0)
    other = tarred(tmp_path / "b.tar.gz", ["p/a", "p/b"], mode=0o664, at=9, owner=1000)
    for path in (one, other):
        release.normalise(path, EPOCH)
    assert one.read_bytes() == other.read_bytes()
    with tarfile.open(one) as tar:
        found = [(each.name, each.mode, each.mtime, each.uname) for each in tar]
    assert found == [("p/a", 0o644, EPOCH, ""), ("p/b", 0o644, EPOCH, "")]


def test_wheels_of_two_builders_become_equal(release: ModuleType, tmp_path: pathlib.Path) -> None:
    names = ["x-1.dist-info/RECORD", "x/b.py", "x/a.py"]
    one = zipped(tmp_path / "a.whl", names, mode=0o600, year=2027)
    other = zipped(tmp_path / "b.whl", names[::-1], mode=0o644, year=2026)
    for path in (one, other):
        release.normalise(path, EPOCH)
    assert one.read_bytes() == other.read_bytes()
    with zipfile.ZipFile(one) as archive:
        assert archive.namelist() == ["x/a.py", "x/b.py", "x-1.dist-info/RECORD"]
        assert {each.external_attr >> 16 for each in archive.infolist()} == {0o100644}


def test_a_program_stays_executable(release: ModuleType, tmp_path: pathlib.Path) -> None:
    path = tarred(tmp_path / "a.tar.gz", ["p/run"], mode=0o700, at=5, owner=0)
    release.normalise(path, EPOCH)
    with tarfile.open(path) as tar:
        assert tar.getmember("p/run").mode == 0o755


def test_first_member_that_differs_is_named(release: ModuleType, tmp_path: pathlib.Path) -> None:
    one = zipped(tmp_path / "a.whl", ["x", "y", "z"], mode=0o644, year=2027)
    assert release.difference(one, one) is None
    more = zipped(tmp_path / "b.whl", ["x", "y"], mode=0o644, year=2027)
    assert release.difference(one, more) == "z"
    with zipfile.ZipFile(tmp_path / "c.whl", "w") as archive, zipfile.ZipFile(one) as before:
        for each in before.infolist():
            archive.writestr(each, b"!" if each.filename == "y" else before.read(each))
    assert release.difference(one, tmp_path / "c.whl") == "y"


@pytest.fixture
def made(release: ModuleType, tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with two files, their sums, and a signature by a key that is beside it."""
    out, key = tmp_path / "out", tmp_path / "key.pem"
    out.mkdir()
    (out / "a.whl").write_bytes(b"a")
    (out / "b.txt").write_bytes(b"b")
    release.write_sums(out)
    new_key(key)
    release.sign(out, key)
    return out


def new_key(path: pathlib.Path) -> None:
    curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    subprocess.run(["openssl", "genpkey", *curve, "-out", path], check=True, capture_output=True)


def test_sums_and_signature_are_those_that_a_stranger_checks(made: pathlib.Path) -> None:
    page = (ROOT / "docs/verifying.rst").read_text(encoding="utf-8")
    block = re.search(r"code-block:: sh\n\n((?:   .+\n)+)", page)
    assert block is not None
    lines = block[1].splitlines()
    assert len(lines) == 2
    for line in lines:
        subprocess.run(["bash", "-c", line], cwd=made, check=True, capture_output=True)


def test_a_changed_a_missing_and_a_further_file_are_named(
    release: ModuleType, made: pathlib.Path
) -> None:
    assert list(release.wrong_sums(made)) == []
    (made / "a.whl").write_bytes(b"A")
    (made / "b.txt").rename(made / "c.txt")
    assert list(release.wrong_sums(made)) == [
        "a.whl: another SHA-256 than in SHA256SUMS",
        "b.txt: missing",
        "c.txt: not in SHA256SUMS",
    ]


def test_a_signature_of_another_key_or_text_is_refused(
    release: ModuleType, made: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    public = made / "release.pub"
    assert release.signature_fault(made, public) is None
    new_key(tmp_path / "other.pem")
    other = tmp_path / "other.pub"
    command = ("openssl", "pkey", "-in", tmp_path / "other.pem", "-pubout", "-out", other)
    subprocess.run(command, check=True)
    assert "not the signature" in release.signature_fault(made, other)
    (made / "SHA256SUMS").write_text("")
    assert "not the signature" in release.signature_fault(made, public)
    (made / "SHA256SUMS.sig").unlink()
    assert "missing" in release.signature_fault(made, public)


# -- what forbids a release ------------------------------------------------------------------


@pytest.fixture
def checkout(release: ModuleType, tmp_path: pathlib.Path) -> pathlib.Path:
    """A repository that nothing keeps from a release."""
    for name, text in {
        "setup.cfg": "[metadata]\nversion = 1.2.0\n",
        "CHANGELOG.rst": "Changelog\n\n1.2.0 (2027-01-31)\n==================\n",
        "packaging/locks/runtime.txt": "",
        "tests/compat/1.2/wire.txt": "",
        ".gitignore": "build/\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    at = {"GIT_COMMITTER_DATE": (NOW - datetime.timedelta(days=10)).isoformat()}
    for words in (
        ("init", "--quiet"),
        ("add", "--all"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "x"),
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, env={**os.environ, **at})
    (tmp_path / "build/gates").mkdir(parents=True)
    for gate in (*release.GATES, "audit"):
        (tmp_path / f"build/gates/{gate}.json").write_text(
            f'{{"commit": "{COMMIT}", "at": "{(NOW - datetime.timedelta(hours=3)).isoformat()}"}}'
        )
    return tmp_path


def refused(release: ModuleType, root: pathlib.Path, *, days: int = 0, audit: str = "") -> str:
    now = NOW + datetime.timedelta(days=days)
    return "\n".join(release.refusals(root, COMMIT, now, audit))


def test_nothing_forbids_a_release_that_is_ready(
    release: ModuleType, checkout: pathlib.Path
) -> None:
    assert refused(release, checkout) == ""


def test_each_refusal_is_a_line(release: ModuleType, checkout: pathlib.Path) -> None:
    shutil.rmtree(checkout / "build")
    said = refused(release, checkout, days=60).splitlines()
    assert [line.partition(" ")[0] for line in said] == ["packaging/locks", "make", "make", "make"]
    assert "70 days old" in said[0]
    assert refused(release, checkout, audit="none").splitlines() == [
        f"make {gate} has not passed for this commit" for gate in release.GATES
    ]
    (checkout / "CHANGELOG.rst").write_text("1.2.0 (unreleased)\n")
    (checkout / "tests/compat/1.2").rename(checkout / "tests/compat/1.1")
    text = refused(release, checkout)
    for part in ("changes: commit them", "CHANGELOG.rst does not", "tests/compat/1.2 is missing"):
        assert part in text
    (checkout / "setup.cfg").write_text("[metadata]\nversion = 1.3.0.dev0\n")
    assert "1.3.0.dev0 is no version of a release" in refused(release, checkout)


# -- the bill of materials -------------------------------------------------------------------


def test_bill_lists_every_pinned_package_and_script_once(sbom: ModuleType) -> None:
    stamp = "2027-01-31T00:00:00+00:00"
    bill = sbom.document(ROOT, "1.0.0", stamp, "none")
    assert bill == sbom.document(ROOT, "1.0.0", stamp, "none")
    urls = [one["purl"] for one in bill["components"]]
    assert len(set(urls)) == len(urls)
    names = {one["name"] for one in bill["components"] if one["purl"].startswith("pkg:pypi/")}
    assert names == set(sbom.pins(ROOT, "runtime"))
    assert any(url.startswith("pkg:npm/%40preact/signals@") for url in urls)
    assert all(one["licenses"] for one in bill["components"])
    assert bill["metadata"]["properties"] == [{"name": "ironic-lite:audit", "value": "none"}]
    graph = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    assert set(graph) == {bill["metadata"]["component"]["bom-ref"]} | {
        url for url in urls if url.startswith("pkg:pypi/")
    }
    assert {one for found in graph.values() for one in found} <= set(urls)
    wsme = next(url for url in urls if url.startswith("pkg:pypi/wsme@"))
    assert any(one.startswith("pkg:pypi/simplegeneric@") for one in graph[wsme])
