"""Dependencies are bounded in setup.cfg and pinned with hashes in packaging/locks, offline."""

from __future__ import annotations

import configparser
import datetime
import importlib.metadata
import importlib.util
import json
import pathlib
import re
import tomllib
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).parents[2]
LOCKS = ("build", "runtime", "test")
ENTRY = re.compile(
    r"(?P<name>[a-z0-9-]+)==(?P<version>[^\s;]+)(?P<marker> ; [^\\\n]+?)? \\\n"
    r"(?:    --hash=sha256:[0-9a-f]{64} \\\n)*    --hash=sha256:[0-9a-f]{64}\n"
)
ALLOWED = re.compile(
    r"Apache(-2\.0| 2\.0| Software License)|MIT(-0| License)?|BSD(-[23]-Clause| License)?|ISC"
    r"|PSF-2\.0|MPL-2\.0|Mozilla Public License 2\.0 \(MPL 2\.0\)|ZPL 2\.1|Zope Public License"
    r"|LicenseRef-Repoze-BSD-derived|LGPL-(2\.1|3\.0)-only|CNRI-Python"
)
"""Licences of packages that the service may need. LGPL packages stay separate files."""
OTHER_PYTHONS = {"legacy-cgi"}
"""Packages that only newer versions of Python need. Python's own licence."""


@pytest.fixture(scope="module")
def locks() -> ModuleType:
    """Return ``scripts/locks.py``."""
    spec = importlib.util.spec_from_file_location("locks", ROOT / "scripts/locks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def declared() -> dict[str, list[Requirement]]:
    """Return the requirements of all our files, by file and section."""
    found = {}
    for file in ("setup.cfg", "cli/setup.cfg"):
        setup = configparser.ConfigParser()
        setup.read(ROOT / file)
        parts = {"install": setup["options"]["install_requires"]}
        if setup.has_section("options.extras_require"):
            parts |= setup["options.extras_require"]
        for part, text in parts.items():
            found[f"{file} {part}"] = [Requirement(line) for line in text.splitlines() if line]
    for file in ("pyproject.toml", "cli/pyproject.toml"):
        system = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))["build-system"]
        found[file] = [Requirement(line) for line in system["requires"]]
    return found


def entries(lock: str) -> dict[str, str]:
    """Return the version of each package of a lock.

    :raises AssertionError: a line is not part of a pin with hashes.
    """
    text = (ROOT / f"packaging/locks/{lock}.txt").read_text(encoding="utf-8")
    pinned = "".join(line for line in text.splitlines(True) if not line.lstrip().startswith("#"))
    assert ENTRY.sub("", pinned) == ""
    return {found["name"]: found["version"] for found in ENTRY.finditer(pinned)}


def test_every_requirement_has_a_lower_and_an_upper_bound() -> None:
    unbounded = {
        f"{place}: {wanted}"
        for place, requirements in declared().items()
        for wanted in requirements
        if {one.operator for one in wanted.specifier} != {">=", "<"}
    }
    assert unbounded == set()


def test_one_package_has_one_range_everywhere() -> None:
    ranges: dict[str, set[str]] = {}
    for requirements in declared().values():
        for wanted in requirements:
            ranges.setdefault(canonicalize_name(wanted.name), set()).add(str(wanted.specifier))
    assert {name: found for name, found in ranges.items() if len(found) > 1} == {}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_pins_with_hashes_alone(lock: str) -> None:
    assert entries(lock)


def test_every_requirement_is_pinned_to_a_version_that_fits() -> None:
    pins = {lock: entries(lock) for lock in LOCKS}
    for place, requirements in declared().items():
        lock = (
            "build"
            if "toml" in place
            else "test"
            if place.split()[1:] in (["test"], ["lint"])
            else "runtime"
        )
        for wanted in requirements:
            version = pins[lock].get(canonicalize_name(wanted.name), "")
            assert version in wanted.specifier if version else False, (
                f"{place}: {wanted}: {version or 'no pin'}"
            )


def test_the_tests_run_on_the_versions_of_the_service() -> None:
    tested = entries("test").items()
    assert entries("runtime").items() <= tested
    assert entries("build").items() <= tested


def test_the_locks_name_no_index() -> None:
    for lock in LOCKS:
        text = (ROOT / f"packaging/locks/{lock}.txt").read_text(encoding="utf-8")
        assert re.findall(r"https?:|file:|index|find-links", text) == []


def licences(name: str) -> list[str]:
    """Return the licences that a package declares, in the most exact of its ways."""
    about = importlib.metadata.metadata(name)
    if "License-Expression" in about:
        return re.split(r" AND | OR ", re.sub(r"[()]", "", about["License-Expression"]))
    marks = [one.split(" :: ") for one in about.get_all("Classifier") or []]
    found = [mark[-1] for mark in marks if mark[0] == "License" and mark[-1] != "OSI Approved"]
    return found or [about["License"].strip() if "License" in about else "none"]


def test_the_licence_of_every_package_of_the_service_is_allowed() -> None:
    names = entries("runtime").keys() - OTHER_PYTHONS
    found = {name: licences(name) for name in names}
    assert {
        name: told for name, told in found.items() if not all(map(ALLOWED.fullmatch, told))
    } == {}


def finding(name: str, *found: str) -> dict[str, object]:
    vulns = [{"id": one, "fix_versions": ["2"], "aliases": []} for one in found]
    return {"name": name, "version": "1", "vulns": vulns}


def test_an_audit_reports_what_is_not_accepted(locks: ModuleType) -> None:
    report = json.dumps({"dependencies": [finding("a"), finding("b", "PYSEC-1", "PYSEC-2")]})
    assert locks.judge(report, {("PYSEC-1", "b")}) == ["b 1: PYSEC-2, fixed in 2"]
    assert locks.judge(report, {("PYSEC-1", "b"), ("PYSEC-2", "b")}) == []


@pytest.mark.parametrize("dependencies", [[], [{"name": "a", "skip_reason": "not found"}]])
def test_an_audit_without_an_answer_is_no_audit(
    locks: ModuleType, dependencies: list[object]
) -> None:
    with pytest.raises(ValueError, match="no answer"):
        locks.judge(json.dumps({"dependencies": dependencies}), set())


def test_an_audit_that_no_service_answers_ends_with_3(
    locks: ModuleType, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "pip-audit"
    program.write_text("#!/bin/sh\necho 'No known vulnerabilities found, 115 skipped' >&2\n")
    program.chmod(0o755)
    assert locks.audit(str(program)) == 3
    out, err = capsys.readouterr()
    assert (out, err[:44]) == ("", "not audited: no advisory service answered: N")


def test_accepted_findings_have_a_reason_and_an_end(locks: ModuleType) -> None:
    locks.accepted(datetime.datetime.now(datetime.UTC).date())
