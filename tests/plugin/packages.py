"""Builds packages of drivers into wheels and installs them apart, without a network."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def install(folder: pathlib.Path, *names: str) -> pathlib.Path:
    """Build the packages of these names and return the folder they are installed in."""
    target = folder / "site"
    for name in names:
        source = folder / name
        unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
        shutil.copytree(HERE / name, source, ignore=unwanted)
        wheels = folder / f"{name}-wheels"
        offline = ("--no-index", "--no-deps")
        _run("wheel", *offline, "--no-build-isolation", "--wheel-dir", str(wheels), str(source))
        (wheel,) = wheels.glob("*.whl")
        _run("install", *offline, "--target", str(target), str(wheel))
    return target


def _run(*words: str) -> None:
    done = subprocess.run([*_PIP, *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
