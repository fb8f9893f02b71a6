"""Vendor the browser modules of the window: fetch their npm packages, verify and copy them.

    python scripts/window.py vendor

``page/vendor/vendor.json`` pins each package by the integrity of its tarball (the value that npm
publishes). The files are copied unchanged, except that imports by package name become relative
paths: an import map would need an inline script, which the Content-Security-Policy forbids. Source
maps are not served, so the comments that name them are removed. Needs the program npm, which the
service itself never does.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
from typing import Any

VENDOR = pathlib.Path(__file__).resolve().parents[1] / "ironic_lite/api/window/page/vendor"
_SECONDS = 120


def _tarball(package: str, version: str, integrity: str) -> bytes:
    """Return the tarball of a package.

    :param integrity: ``sha512-`` and base64, as npm publishes it.
    :raises SystemExit: the tarball differs from its integrity.
    """
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["npm", "pack", "--silent", "--pack-destination", folder, f"{package}@{version}"],
            check=True,
            timeout=_SECONDS,
            stdout=subprocess.DEVNULL,
        )
        data = next(pathlib.Path(folder).glob("*.tgz")).read_bytes()
    found = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    if found != integrity:
        sys.exit(f"{package} {version}: integrity is {found}, vendor.json says {integrity}")
    return data


def _member(tarball: bytes, path: str) -> str:
    with tarfile.open(fileobj=io.BytesIO(tarball)) as members:
        found = members.extractfile(f"package/{path}")
        if found is None:
            sys.exit(f"{path} is not a file of its package")
        return found.read().decode()


def _rewritten(text: str, imports: dict[str, str]) -> str:
    for name, path in imports.items():
        text = text.replace(f'from"{name}"', f'from"{path}"')
    lines = text.split("//# sourceMappingURL=")[0].rstrip()
    return f"{lines}\n"


def vendor() -> None:
    """Fetch, verify and write all modules and their licences; record the hashes."""
    pins: list[dict[str, Any]] = json.loads((VENDOR / "vendor.json").read_text())
    licences: dict[str, list[str]] = {}
    tarballs: dict[str, bytes] = {}
    for pin in pins:
        package = pin["package"]
        if package not in tarballs:
            tarballs[package] = _tarball(package, pin["version"], pin["integrity"])
        text = _rewritten(_member(tarballs[package], pin["source"]), pin["imports"])
        (VENDOR / pin["file"]).write_text(text)
        pin["sha512"] = hashlib.sha512(text.encode()).hexdigest()
        licences.setdefault(_member(tarballs[package], "LICENSE").strip(), []).append(
            f"{pin['file']}: {package} {pin['version']}, {pin['licence']}"
        )
    blocks = ("\n".join(files) + "\n\n" + text for text, files in licences.items())
    (VENDOR / "LICENSES").write_text(("\n\n" + "=" * 80 + "\n\n").join(blocks) + "\n")
    (VENDOR / "vendor.json").write_text(json.dumps(pins, indent=2) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["vendor"]:
        sys.exit(f"usage: {sys.argv[0]} vendor")
    vendor()
