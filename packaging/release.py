"""Make the files of a release, and verify them.

    release.py make [--key FILE] [--audit none] [--trial]   write dist/VERSION
    release.py verify FOLDER [--key FILE]                   compare with a build of the same commit
    release.py passed NAME                                  record that a gate has passed

``make`` builds the commit that is checked out, not the files of the working tree, and builds it
twice, in another folder, with another umask and time zone. Both must be equal. ``--trial`` reports
what forbids a release, goes on, and writes dist/VERSION-trial.

Exit status: 0; 1 if a file differs; 2 for a wrong command, or if something forbids the release.
"""

from __future__ import annotations

import argparse
import configparser
import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping

import sbom

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "build/gates"
SUMS, SIGNATURE, KEY = "SHA256SUMS", "SHA256SUMS.sig", "release.pub"
GATES = ("lowest", "pythons")
"""Targets of make whose result for this commit a release needs."""
LOCK_DAYS = 45
AUDIT_HOURS = 24
FIRST_YEAR = 1980
"""The first year that a zip archive can have."""
PLACES: tuple[tuple[str, int, str], ...] = (
    ("first", 0o022, "UTC"),
    ("another/place", 0o077, "Asia/Tokyo"),
)
"""Folder, umask and time zone of the two builds."""


class Refused(Exception):
    """Something forbids the release, or a command cannot be carried out."""


def run(
    *command: str | pathlib.Path,
    cwd: pathlib.Path = ROOT,
    env: Mapping[str, str] | None = None,
    umask: int = -1,
) -> str:
    """Run a command and return its output.

    :raises Refused: it has failed.
    """
    given = [str(one) for one in command]
    done = subprocess.run(
        given, cwd=cwd, env=env, umask=umask, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Refused(f"{' '.join(given)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


# -- archives that are equal wherever they are built -----------------------------------------


def normalise(path: pathlib.Path, epoch: int) -> None:
    """Write an archive again: sorted, with one owner and time, and modes 0644 and 0755."""
    if path.suffix == ".whl":
        _normalise_zip(path, epoch)
    else:
        _normalise_tar(path, epoch)


def _mode(mode: int) -> int:
    return 0o755 if mode & 0o100 else 0o644


def _normalise_tar(path: pathlib.Path, epoch: int) -> None:
    packed = io.BytesIO()
    with (
        tarfile.open(path) as old,
        gzip.GzipFile("", "wb", 9, packed, epoch) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for one in sorted(old.getmembers(), key=lambda member: member.name):
            fresh = tarfile.TarInfo(one.name)
            fresh.type, fresh.size, fresh.linkname = one.type, one.size, one.linkname
            fresh.mode, fresh.mtime = 0o755 if one.isdir() else _mode(one.mode), epoch
            new.addfile(fresh, old.extractfile(one) if one.isfile() else None)
    path.write_bytes(packed.getvalue())


def _normalise_zip(path: pathlib.Path, epoch: int) -> None:
    packed = io.BytesIO()
    at = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
    time = max(at.timetuple()[:6], (FIRST_YEAR, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w") as new:
        # The metadata of a wheel stand last, as its format recommends.
        names = sorted(old.namelist(), key=lambda name: (".dist-info/" in name, name))
        for name in names:
            fresh = zipfile.ZipInfo(name, time)
            fresh.create_system = 3  # Unix: the attributes are a mode
            fresh.external_attr = (0o100000 | _mode(old.getinfo(name).external_attr >> 16)) << 16
            fresh.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(fresh, old.read(name), compresslevel=9)
    path.write_bytes(packed.getvalue())


def members(path: pathlib.Path) -> Iterator[tuple[str, object]]:
    """Yield the members of an archive with all that can differ; one member for another file."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for one in archive.infolist():
                yield one.filename, (one.date_time, one.external_attr, archive.read(one))
    elif path.suffix == ".gz":
        with tarfile.open(path) as tar:
            for member in tar:
                found = tar.extractfile(member) if member.isfile() else None
                about = (member.mode, member.mtime, member.uid, member.type, member.linkname)
                yield member.name, (about, found.read() if found else b"")
    else:
        yield "its content", path.read_bytes()


def difference(one: pathlib.Path, other: pathlib.Path) -> str | None:
    """Return what differs first in two files, None if they are equal."""
    if one.read_bytes() == other.read_bytes():
        return None
    try:
        first, second = dict(members(one)), dict(members(other))
    except (OSError, tarfile.TarError, zipfile.BadZipFile, EOFError) as why:
        return f"it cannot be read: {why}"
    found = [name for name in sorted({*first, *second}) if first.get(name) != second.get(name)]
    return found[0] if found else "the order or the compression of its members"


# -- building --------------------------------------------------------------------------------


def export(commit: str, folder: pathlib.Path) -> int:
    """Write the files of a commit, with a note of the commit; return its time."""
    folder.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="tar")
    epoch = int(run("git", "show", "--no-patch", "--format=%ct", commit))
    (folder / "packaging/COMMIT").write_text(f"{commit}\n{epoch}\n", encoding="utf-8")
    return epoch


def version_of(folder: pathlib.Path) -> str:
    """Return the version of the package in a checkout."""
    setup = configparser.ConfigParser()
    setup.read(folder / "setup.cfg", encoding="utf-8")
    return setup["metadata"]["version"]


def check_environment(source: pathlib.Path) -> None:
    """Check that this environment has the versions of a checkout's locks.

    :raises Refused: it has others, so its files would be others.
    """
    if found := sbom.outdated(source):
        raise Refused("; ".join(found))


def build(source: pathlib.Path, out: pathlib.Path, epoch: int, *, umask: int, zone: str) -> None:
    """Build the source distribution, and both wheels from it."""
    variables = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "TZ": zone, "PYTHONHASHSEED": "0"}
    make = (sys.executable, "-m", "build", "--no-isolation", "--outdir", out)
    run(*make, "--sdist", source, env=variables, umask=umask)
    (sdist,) = out.glob("*.tar.gz")
    normalise(sdist, epoch)
    with tempfile.TemporaryDirectory(dir=source.parent) as unpacked:
        with tarfile.open(sdist) as tar:
            tar.extractall(unpacked, filter="data")
        (top,) = pathlib.Path(unpacked).iterdir()
        for project in (top, top / "cli"):
            run(*make, "--wheel", project, env=variables, umask=umask)
    for wheel in out.glob("*.whl"):
        normalise(wheel, epoch)


def add_lists(source: pathlib.Path, out: pathlib.Path, epoch: int, audit: str) -> None:
    """Add the locks and the bill of materials."""
    version = version_of(source)
    name = f"ironic-lite-{version}"
    shutil.copyfile(source / "packaging/locks/runtime.txt", out / f"{name}-requirements.txt")
    shutil.copyfile(source / "packaging/locks/build.txt", out / f"{name}-build.txt")
    stamp = datetime.datetime.fromtimestamp(epoch, datetime.UTC).isoformat()
    bill = sbom.document(source, version, stamp, audit)
    (out / f"{name}-python.cdx.json").write_text(
        json.dumps(bill, indent=1) + "\n", encoding="utf-8"
    )


def build_twice(commit: str, audit: str, out: pathlib.Path) -> None:
    """Build a commit into a folder that does not exist yet.

    :raises Refused: the second build differs.
    """
    with tempfile.TemporaryDirectory() as place:
        made = []
        for name, umask, zone in PLACES:
            source = pathlib.Path(place, name, "source")
            made.append(source.with_name("made"))
            epoch = export(commit, source)
            check_environment(source)
            build(source, made[-1], epoch, umask=umask, zone=zone)
            add_lists(source, made[-1], epoch, audit)
        first, second = made
        for path in sorted(first.iterdir()):
            found = difference(path, second / path.name)
            if found:
                raise Refused(f"two builds of {path.name} differ: {found}")
        out.mkdir(parents=True)
        for path in sorted(first.iterdir()):
            shutil.copyfile(path, out / path.name)


# -- what forbids a release ------------------------------------------------------------------


def refusals(root: pathlib.Path, commit: str, now: datetime.datetime, audit: str) -> Iterator[str]:
    """Yield a line for all that forbids the release of a commit."""
    version = version_of(root)
    if run("git", "status", "--porcelain", cwd=root):
        yield "the working tree has changes: commit them"
    if "dev" in version:
        yield f"{version} is no version of a release"
    changes = (root / "CHANGELOG.rst").read_text(encoding="utf-8")
    top = re.search(r"^(\d\S*) \((.*)\)$", changes, re.MULTILINE)
    if not top or top[1] != version or not re.fullmatch(r"\d{4}-\d\d-\d\d", top[2]):
        yield f"CHANGELOG.rst does not begin with {version} and its date"
    changed = int(run("git", "log", "-1", "--format=%ct", "--", "packaging/locks", cwd=root) or 0)
    days = (now - datetime.datetime.fromtimestamp(changed, datetime.UTC)).days
    if days > LOCK_DAYS:
        yield f"packaging/locks are {days} days old, more than {LOCK_DAYS}: make lock"
    minor = ".".join(version.split(".")[:2])
    if not (root / "tests/compat" / minor).is_dir():
        yield f"tests/compat/{minor} is missing: python -m tests.compat write {minor}"
    for gate in GATES:
        if passed(root, gate).get("commit") != commit:
            yield f"make {gate} has not passed for this commit"
    audited = passed(root, "audit").get("at")
    limit = now - datetime.timedelta(hours=AUDIT_HOURS)
    if audit != "none" and (not audited or datetime.datetime.fromisoformat(audited) < limit):
        yield f"make audit has not passed in the last {AUDIT_HOURS} hours; AUDIT=none goes without"


def passed(root: pathlib.Path, gate: str) -> Mapping[str, str]:
    """Return commit and time of the last success of a gate; empty if there is none."""
    path = root / RESULTS.relative_to(ROOT) / f"{gate}.json"
    found: Mapping[str, str] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def record(gate: str) -> None:
    """Record that a gate has passed for the commit that is checked out."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC).isoformat()
    about = {"commit": head() if (ROOT / ".git").exists() else "", "at": now}
    (RESULTS / f"{gate}.json").write_text(json.dumps(about), encoding="utf-8")


def head() -> str:
    """Return the commit that is checked out."""
    return run("git", "rev-parse", "HEAD").strip()


# -- sums and signatures ---------------------------------------------------------------------


def digest(path: pathlib.Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_sums(out: pathlib.Path) -> None:
    """Write SHA256SUMS of all files of a folder."""
    lines = [f"{digest(path)}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / SUMS).write_text("".join(lines), encoding="utf-8")


def sign(out: pathlib.Path, key: pathlib.Path) -> None:
    """Sign SHA256SUMS by a private key, and add the public one."""
    run("openssl", "dgst", "-sha256", "-sign", key, "-out", out / SIGNATURE, out / SUMS)
    run("openssl", "pkey", "-in", key, "-pubout", "-out", out / KEY)


def wrong_sums(out: pathlib.Path) -> Iterator[str]:
    """Yield a line for each file that SHA256SUMS does not name, or names with another sum.

    :raises Refused: there is no SHA256SUMS.
    """
    try:
        lines = (out / SUMS).read_text(encoding="utf-8").splitlines()
    except OSError as why:
        raise Refused(f"{out}: no files of a release: {why}") from None
    sums = {name: found for found, name in (line.split("  ", 1) for line in lines)}
    there = {path.name for path in out.iterdir()} - {SUMS, SIGNATURE, KEY}
    for name in sorted({*sums, *there}):
        if name not in sums:
            yield f"{name}: not in {SUMS}"
        elif name not in there:
            yield f"{name}: missing"
        elif digest(out / name) != sums[name]:
            yield f"{name}: another SHA-256 than in {SUMS}"


def signature_fault(out: pathlib.Path, key: pathlib.Path | None) -> str | None:
    """Return the fault of the signature, None if it is right.

    :param key: the public key that is trusted; None for that of the folder, which proves nothing.
    """
    if not (out / SIGNATURE).exists():
        return f"{SIGNATURE}: missing, so nothing is signed" if key else None
    command = ["openssl", "dgst", "-sha256", "-verify", str(key or out / KEY)]
    command += ["-signature", str(out / SIGNATURE), str(out / SUMS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"{SIGNATURE}: not the signature of this key"


# -- the commands ----------------------------------------------------------------------------


def make(key: pathlib.Path | None, audit: str, trial: bool) -> int:
    """Write all files of a release; return the exit status."""
    commit = head()
    found = list(refusals(ROOT, commit, datetime.datetime.now(datetime.UTC), audit))
    for line in found:
        print(f"{'trial' if trial else 'refused'}: {line}", file=sys.stderr)
    if found and not trial:
        return 2
    out = ROOT / "dist" / f"{version_of(ROOT)}{'-trial' if trial else ''}"
    shutil.rmtree(out, ignore_errors=True)
    build_twice(commit, audit, out)
    write_sums(out)
    if key is not None:
        sign(out, key)
    print((out / SUMS).read_text(encoding="utf-8"), end="")
    print(f"{out}: {'signed' if key else 'NOT SIGNED'}")
    return 0


def verify(out: pathlib.Path, key: pathlib.Path | None) -> int:
    """Check sums and signature, build the same commit, and compare; return the exit status."""
    wrong = [*wrong_sums(out), *filter(None, [signature_fault(out, key)])]
    if wrong:
        print("\n".join(wrong))
        return 1
    (sdist,) = out.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        note = next(one for one in tar if one.name.endswith("/packaging/COMMIT"))
        noted = tar.extractfile(note)
        assert noted is not None
        commit = noted.read().decode().split()[0]
    (bill,) = out.glob("*-python.cdx.json")
    (audit,) = json.loads(bill.read_text(encoding="utf-8"))["metadata"]["properties"]
    with tempfile.TemporaryDirectory() as place:
        source, made = pathlib.Path(place, "source"), pathlib.Path(place, "made")
        epoch = export(commit, source)
        check_environment(source)
        build(source, made, epoch, umask=0o022, zone="UTC")
        add_lists(source, made, epoch, audit["value"])
        differ = 0
        for path in sorted({*made.iterdir(), *(made / one.name for one in out.iterdir())}):
            if path.name in (SUMS, SIGNATURE, KEY):
                continue
            both = path.exists() and (out / path.name).exists()
            found = difference(out / path.name, path) if both else "it is in one of them alone"
            print(f"{path.name}: {f'differs: {found}' if found else 'same'}")
            differ += bool(found)
    return 1 if differ else 0


def main(arguments: list[str]) -> int:
    """Run a command; return the exit status."""
    parser = argparse.ArgumentParser(description="Make and verify the files of a release.")
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("make", help="write dist/VERSION")
    made.add_argument("--trial", action="store_true", help="report what forbids it, and go on")
    made.add_argument("--audit", choices=("passed", "none"), default="passed")
    verified = commands.add_parser("verify", help="compare with a build of the same commit")
    verified.add_argument("folder", type=pathlib.Path)
    for one in (made, verified):
        one.add_argument("--key", type=pathlib.Path, help="private to sign, public to verify")
    commands.add_parser("passed", help="record that a gate has passed").add_argument("gate")
    given = parser.parse_args(arguments)
    try:
        match given.command:
            case "make":
                return make(given.key, given.audit, given.trial)
            case "verify":
                return verify(given.folder, given.key)
        record(given.gate)
        return 0
    except Refused as why:
        print(f"refused: {why}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
