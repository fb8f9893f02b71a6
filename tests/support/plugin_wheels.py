"""Build driver packages into wheels and install them in a folder, without a network."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

PLUGIN = pathlib.Path(__file__).parents[1] / "plugin"
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def install(folder: pathlib.Path, *names: str) -> pathlib.Path:
    """Build the packages of these names and return the folder they are installed in.

    :param names: of folders in `PLUGIN`, if ``folder`` does not have them.
    """
    target, wheels = folder / "site", folder / "wheels"
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in (one for one in names if not (folder / one).exists()):
        shutil.copytree(PLUGIN / name, folder / name, ignore=unwanted)
    offline = ("--no-index", "--no-deps")
    sources = [str(folder / name) for name in names]
    _run("wheel", *offline, "--no-build-isolation", "--wheel-dir", str(wheels), *sources)
    built = [str(wheel) for wheel in wheels.glob("*.whl")]
    assert len(built) == len(names)
    _run("install", *offline, "--target", str(target), *built)
    return target


def _run(*words: str) -> None:
    done = subprocess.run([*_PIP, *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
