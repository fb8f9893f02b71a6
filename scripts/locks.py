"""Write and audit the locks of packaging/locks, and install the lowest versions.

    python scripts/locks.py write UV           compile build.txt, runtime.txt and test.txt
    python scripts/locks.py lowest UV PYTHON   install the oldest libraries for this Python
    python scripts/locks.py audit PIP_AUDIT    ask an advisory service about runtime.txt

Writing takes no release of the last week, so that a harmful upload has a week to be found. It
prints each package that has changed, with its old and new version. Then it shows that every package
but those of ``SOURCES`` has wheels for every supported Python and architecture.

An audit ends with 0 if no advisory concerns a package, 1 if one does that
``packaging/accepted.toml`` does not accept, 3 if no advisory service has answered.
"""

from __future__ import annotations

import configparser
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).parents[1]
LOCKS = ROOT / "packaging/locks"
SERVICE = ("postgresql", "mysql", "oci", "keystone")
"""Extras that an operator may choose."""
PYTHONS = ("3.11", "3.12", "3.13")
ARCHITECTURES = ("x86_64", "aarch64")
SOURCES = {"simplegeneric"}
"""Packages that have no wheel. They are built with what build.txt pins."""
WEEK = datetime.timedelta(days=7)
ACCEPTED_FOR = datetime.timedelta(days=90)
"""The longest time for which a finding may be accepted."""
PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==(\S+)", re.MULTILINE)


def requirements(file: str, *extras: str) -> list[str]:
    """Return the requirements of a setup.cfg with these extras."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / file)
    parts = [setup["options"]["install_requires"]]
    parts += [setup["options.extras_require"][extra] for extra in extras]
    return [line for part in parts for line in part.splitlines() if line]


def pins(lock: pathlib.Path) -> dict[str, str]:
    """Return name and version of each package of a lock."""
    return dict(PIN.findall(lock.read_text(encoding="utf-8"))) if lock.exists() else {}


def index() -> list[str]:
    """Return the arguments by which uv uses the index that pip uses."""
    pip = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    found = subprocess.run(pip, capture_output=True, text=True, check=False).stdout.strip()
    url = os.environ.get("PIP_INDEX_URL") or found
    return ["--default-index", url] if url else []


def compile_lock(uv: str, name: str, wanted: list[str], *, within: pathlib.Path | None) -> None:
    """Write one lock and print what has changed in it.

    :param within: a lock whose versions this one must have.
    """
    lock = LOCKS / f"{name}.txt"
    before = pins(lock)
    newest = datetime.datetime.now(datetime.UTC).date() - WEEK
    command = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", PYTHONS[0]]
    command += ["--generate-hashes", "--no-annotate", "--upgrade", "--no-config"]
    command += ["--custom-compile-command", "make lock", "--exclude-newer", newest.isoformat()]
    command += ["--output-file", str(lock), *index(), "-"]
    if within:
        command += ["--constraints", str(within)]
    text = "\n".join(wanted)
    subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.DEVNULL)
    after = pins(lock)
    for package in sorted({*before, *after}):
        if before.get(package) != after.get(package):
            print(name, package, before.get(package, "-"), after.get(package, "-"))


def check_wheels(uv: str, lock: pathlib.Path) -> None:
    """Show that a lock can be installed from wheels on every Python and architecture.

    :raises subprocess.CalledProcessError: a package has none; uv has named it.
    """
    for python in PYTHONS:
        for architecture in ARCHITECTURES:
            target = [
                "--python-version",
                python,
                "--python-platform",
                f"{architecture}-manylinux_2_28",
            ]
            with tempfile.TemporaryDirectory() as folder:
                command = [uv, "pip", "install", "--quiet", "--dry-run", "--no-config", "--no-deps"]
                command += [*target, *index(), "--only-binary", ":all:", "--target", folder]
                command += [one for name in sorted(SOURCES) for one in ("--no-binary", name)]
                subprocess.run([*command, "--requirements", str(lock)], check=True)
    print(f"{lock.name}: wheels for Python {', '.join(PYTHONS)} on {', '.join(ARCHITECTURES)}")


def write(uv: str) -> None:
    """Write all locks; the test environment has the versions of the service."""
    LOCKS.mkdir(parents=True, exist_ok=True)
    system = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    compile_lock(uv, "build", system["requires"], within=None)
    build, runtime = LOCKS / "build.txt", LOCKS / "runtime.txt"
    service = requirements("setup.cfg", *SERVICE) + requirements("cli/setup.cfg")
    compile_lock(uv, "runtime", service, within=None)
    everything = [*service, *requirements("setup.cfg", "test", "lint")]
    everything += [f"{name}=={version}" for name, version in pins(build).items()]
    compile_lock(uv, "test", everything, within=runtime)
    check_wheels(uv, runtime)


def lowest(uv: str, python: str) -> None:
    """Install this checkout for tests, each library in the oldest version that setup.cfg allows."""
    command = [uv, "pip", "install", "--quiet", "--no-config", "--python", python, *index()]
    command += ["--resolution", "lowest-direct", "--only-binary", ":all:"]
    built = ("ironic-lite", "ironic-lite-cli", *sorted(SOURCES))
    command += [one for name in built for one in ("--no-binary", name)]
    command += ["--editable", f".[{','.join((*SERVICE, 'test', 'lint'))}]", "--editable", "./cli"]
    subprocess.run(command, check=True, cwd=ROOT)


def accepted(today: datetime.date) -> set[tuple[str, str]]:
    """Return ID and package of the findings that packaging/accepted.toml accepts today.

    :raises SystemExit: an entry is outdated, or is meant for more than 90 days.
    """
    rows = tomllib.loads((ROOT / "packaging/accepted.toml").read_text(encoding="utf-8"))
    for row in rows.get("accepted", []):
        if not row["reason"] or not today <= row["until"] <= today + ACCEPTED_FOR:
            raise SystemExit(
                f"packaging/accepted.toml: {row['id']} of {row['package']}: a reason is needed, "
                f"and 'until' must be a date of the next {ACCEPTED_FOR.days} days"
            )
    return {(row["id"], row["package"]) for row in rows.get("accepted", [])}


def judge(report: str, known: set[tuple[str, str]]) -> list[str]:
    """Return a line for each finding in a report of pip-audit that is not accepted.

    :raises ValueError: the report is not complete: no service has answered for all packages.
    """
    rows = json.loads(report)["dependencies"]
    skipped = [row["name"] for row in rows if "vulns" not in row]
    if skipped or not rows:
        raise ValueError(f"no answer for {', '.join(skipped) or 'any package'}")
    return [
        f"{row['name']} {row['version']}: {finding['id']}, fixed in "
        f"{', '.join(finding['fix_versions']) or 'no release'}"
        for row in rows
        for finding in row["vulns"]
        if not {(one, row["name"]) for one in (finding["id"], *finding.get("aliases", []))} & known
    ]


def audit(program: str) -> int:
    """Audit the packages of the service and return the exit status."""
    known = accepted(datetime.datetime.now(datetime.UTC).date())
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        # Without --strict, a package unknown to the service counts as one without findings.
        command = [
            program,
            "--strict",
            "--disable-pip",
            "--progress-spinner",
            "off",
            "--format",
            "json",
        ]
        command += ["--output", str(report), "--requirement", str(LOCKS / "runtime.txt")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            findings = judge(report.read_text(encoding="utf-8"), known)
        except (OSError, ValueError, KeyError) as error:
            reason = next((line for line in reversed(done.stderr.splitlines()) if line), error)
            print(f"not audited: no advisory service answered: {reason}", file=sys.stderr)
            return 3
    print("\n".join(findings) or "no advisory concerns a package of runtime.txt")
    return 1 if findings else 0


def main(arguments: list[str]) -> int:
    """Run one of the commands."""
    match arguments:
        case ["write", uv]:
            write(uv)
            return 0
        case ["lowest", uv, python]:
            lowest(uv, python)
            return 0
        case ["audit", program]:
            return audit(program)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
