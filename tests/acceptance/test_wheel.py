"""The wheel carries all it needs: from an empty environment elsewhere, the service starts."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import venv
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence

import psutil
import pytest
from packaging import requirements

from tests.support.ports import free_port
from tests.support.service import PATIENCE

# One worker builds once and installs once.
pytestmark = pytest.mark.xdist_group("wheel")

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = ("ironic_lite", "alembic", "etc")
FILES = (
    *("setup.cfg", "pyproject.toml", "tox.ini", "MANIFEST.in", "Makefile", "LICENSE"),
    *("README.rst", "CHANGELOG.rst", "CONTRIBUTING.rst"),
)
SCRIPTS = (
    *("ironic-lite", "ironic-lite-api", "ironic-lite-conductor", "ironic-lite-dbsync"),
    "ironic-lite-netboot",
    "ironic-lite-status",
)


def run(*command: str | pathlib.Path, cwd: pathlib.Path, timeout: float = 300) -> str:
    """Run a command as somebody would who has never seen this checkout; return what it says."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=stranger(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def stranger() -> dict[str, str]:
    ours = (
        "PYTHONPATH",
        "PYTHONHOME",
        "VIRTUAL_ENV",
        "COVERAGE_",
        "PYTEST_",
        "OS_",
        "IRONIC_LITE",
    )
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[pathlib.Path]:
    """A folder with a short name: the path of a unix socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="wheel-") as folder:
        yield pathlib.Path(folder)


@pytest.fixture(scope="module")
def wheel(elsewhere: pathlib.Path) -> pathlib.Path:
    """Build from a copy, so that nothing left in build/ gets in and nothing is left behind."""
    return build(elsewhere, "wheel", SOURCES)


def build(elsewhere: pathlib.Path, kind: str, sources: Sequence[str]) -> pathlib.Path:
    """Build a distribution from a copy of these folders and the files beside them."""
    source, made = elsewhere / f"source-{kind}", elsewhere / kind
    source.mkdir()
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in sources:
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=unwanted)
    for name in FILES:
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "build", f"--{kind}", "--outdir", made, cwd=source)
    (built,) = made.iterdir()
    return built


@pytest.fixture(scope="module")
def environment(elsewhere: pathlib.Path, wheel: pathlib.Path) -> pathlib.Path:
    """An environment with nothing in it but the wheel and what it depends on.

    What it depends on has been had from a registry before, for the environment of the tests, and is
    linked from there, file by file: all that the wheel's metadata ask for, and nothing else.
    """
    folder = elsewhere / "venv"
    venv.create(folder, symlinks=True)
    packages = folder / sysconfig.get_path("purelib", vars={"base": ""}).lstrip("/")
    owners = importlib.metadata.packages_distributions()
    for dist in dependencies(wheel):
        link(dist, packages, owners)
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--python",
        folder / "bin/python",
        "install",
        "--quiet",
    )
    run(*pip, "--no-deps", "--no-index", "--no-compile", wheel, cwd=elsewhere)
    return folder


def dependencies(wheel: pathlib.Path) -> Iterable[importlib.metadata.Distribution]:
    """Return the distributions that a wheel asks for, and those that these ask for.

    :raises AssertionError: one of them is not of a version that is asked for.
    """
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        told = importlib.metadata.PathDistribution(zipfile.Path(archive, name).parent)  # type: ignore[arg-type]
        left = [(requirements.Requirement(one), "") for one in told.requires or ()]
    found: dict[str, importlib.metadata.Distribution] = {}
    seen: set[tuple[str, str]] = set()
    while left:
        wanted, extra = left.pop()
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
            continue
        dist = found.setdefault(wanted.name, importlib.metadata.distribution(wanted.name))
        assert wanted.specifier.contains(dist.version, prereleases=True), str(wanted)
        for part in {"", *wanted.extras} - {one for name, one in seen if name == wanted.name}:
            seen.add((wanted.name, part))
            left += [(requirements.Requirement(one), part) for one in dist.requires or ()]
    return found.values()


def link(
    dist: importlib.metadata.Distribution,
    packages: pathlib.Path,
    owners: Mapping[str, Sequence[str]],
) -> None:
    """Link what a distribution has installed into another environment, but for its scripts.

    A folder is linked as a whole where no other distribution has files in it.

    :param owners: the distributions that have files in a folder of packages.
    """
    for file in dist.files or ():
        if ".." in file.parts:
            continue
        shared = len(set(owners.get(file.parts[0], ()))) > 1
        part = file if shared else pathlib.PurePosixPath(file.parts[0])
        place = packages / part
        if not place.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(pathlib.Path(str(dist.locate_file(part))))


def test_the_wheel_carries_code_migrations_sample_and_unit_files(
    wheel: pathlib.Path,
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    migrations = {
        f"ironic_lite/db/migrations/{path.relative_to(ROOT / 'alembic')}"
        for pattern in ("*.py", "*.mako", "versions/*.py")
        for path in (ROOT / "alembic").glob(pattern)
    }
    units = {
        f"ironic_lite/etc/{path.relative_to(ROOT / 'etc')}"
        for folder in ("systemd", "ironic-lite/examples")
        for path in (ROOT / "etc" / folder).iterdir()
    }
    code = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "ironic_lite").rglob("*.py")
        if "migrations" not in path.parts
    }
    assert "ironic_lite/db/migrations/env.py" in migrations
    folders = [ROOT / "ironic_lite/features/window" / name for name in ("page", "built")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    window = {str(path.relative_to(ROOT)) for path in files}
    assert "ironic_lite/features/window/built/LICENSES" in window
    wanted = migrations | units | code | window
    wanted |= {
        "ironic_lite/py.typed",
        "ironic_lite/etc/ironic-lite/ironic-lite.conf.sample",
    }
    assert wanted - inside == set()


def test_source_distribution_has_pages_examples_and_the_builder_of_ramdisks(
    elsewhere: pathlib.Path,
) -> None:
    folders = (*SOURCES, "docs", "packaging", "scripts")
    built = build(elsewhere, "sdist", folders)
    with tarfile.open(built) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        str(path.relative_to(ROOT))
        for folder in ("docs", "etc", "packaging", "scripts")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path)
    }
    assert "scripts/ramdisk.sh" in wanted
    assert {*wanted, *FILES} - inside == set()


def test_the_wheel_brings_no_second_package(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ironic_lite"}


def test_every_command_is_installed_and_says_its_version(
    environment: pathlib.Path, wheel: pathlib.Path
) -> None:
    version = wheel.name.split("-")[1]
    for script in SCRIPTS:
        said = run(environment / "bin" / script, "--version", cwd=environment)
        assert said.strip().endswith(version), script


def test_the_installed_service_starts_and_stops(
    environment: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    port = free_port()
    settings = elsewhere / "test.conf"
    settings.write_text(f"[DEFAULT]\nstate_path = {elsewhere}/state\n[api]\nport = {port}\n")
    with service(environment / "bin/ironic-lite", settings) as process:
        assert status(f"http://127.0.0.1:{port}/v1/nodes", process) == 200
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        _, alive = psutil.wait_procs(children, timeout=PATIENCE)
        assert alive == []


@contextlib.contextmanager
def service(command: pathlib.Path, settings: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the service in a session of its own; whatever happens, none of it stays behind."""
    process = subprocess.Popen(
        [command, "--config-file", settings],
        cwd=settings.parent,
        env=stranger(),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)


def status(url: str, process: subprocess.Popen[bytes]) -> int:
    """Return the status of the first answer of ``url``."""
    deadline = time.monotonic() + PATIENCE  # the first start compiles all modules
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                found = answer.status
                assert isinstance(found, int)
                return found
        except urllib.error.HTTPError as answer:
            return answer.code
        except OSError:
            # Nothing listens yet: ask again soon, until the deadline.
            time.sleep(0.05)
    raise AssertionError(f"no answer of {url}; exit status {process.poll()}")
