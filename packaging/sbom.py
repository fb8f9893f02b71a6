"""The bill of materials of a release, as CycloneDX 1.6: Python packages and scripts of the window.

Everything comes from the locks, from the metadata of the packages in this environment, which must
have the same versions, and from ``window/package-lock.json``. The same commit gives the same bytes.
"""

from __future__ import annotations

import configparser
import importlib.metadata
import json
import pathlib
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

Json = dict[str, Any]
PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==(\S+)", re.MULTILINE)
LICENCES = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "ZPL 2.1": "ZPL-2.1",
    "Zope Public License": "ZPL-2.1",
}
"""SPDX names of licences that metadata write otherwise. "BSD License" stays a name."""
SPDX = re.compile(r"(Apache-2\.0|MIT(-0)?|BSD-[23]-Clause|MPL-2\.0|ZPL-2\.1|LGPL-[23]\.[01]-only)")
SERVICE = ("postgresql", "mysql", "oci", "keystone")
TARGET = {
    "extra": "",
    "python_version": "3.11",
    "python_full_version": "3.11.0",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "os_name": "posix",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
}
"""The machine for which the graph of dependencies is made, whatever this machine is."""
NOT_HERE = {"legacy-cgi": "PSF-2.0"}
"""Licences of packages that only newer versions of Python than this one need."""


def licence(name: str) -> Json:
    """Return the licence of an installed package.

    :raises SystemExit: the package declares none.
    """
    if name in NOT_HERE:
        return {"license": {"id": NOT_HERE[name]}}
    about = importlib.metadata.metadata(name)
    if "License-Expression" in about:
        return {"expression": about["License-Expression"]}
    marks = [one.split(" :: ") for one in about.get_all("Classifier") or []]
    found = [mark[-1] for mark in marks if mark[0] == "License" and mark[-1] != "OSI Approved"]
    text = found[0] if found else about["License"].strip() if "License" in about else ""
    if not text:
        raise SystemExit(f"sbom: {name} declares no licence")
    text = LICENCES.get(text, text)
    return {"license": {"id": text} if SPDX.fullmatch(text) else {"name": text}}


def component(kind: str, name: str, version: str, *licences: Json) -> Json:
    """Return a library; ``kind`` is the type of its package URL."""
    url = f"pkg:{kind}/{name.replace('@', '%40')}@{version}"
    found: Json = {"type": "library", "bom-ref": url, "name": name, "version": version}
    return {**found, "licenses": list(licences), "purl": url}


def outdated(root: pathlib.Path) -> list[str]:
    """Return a line for each package of this environment that is not of the locks' version."""
    found = []
    for lock in ("build", "runtime"):
        for name, pinned in pins(root, lock).items():
            here = pinned if name in NOT_HERE else importlib.metadata.version(name)
            if here != pinned:
                found.append(f"{name} is {here} here, and {pinned} in packaging/locks: make venv")
    return found


def pins(root: pathlib.Path, lock: str) -> dict[str, str]:
    """Return name and version of each package of a lock."""
    text = (root / f"packaging/locks/{lock}.txt").read_text(encoding="utf-8")
    return dict(PIN.findall(text))


def direct(root: pathlib.Path) -> list[str]:
    """Return the requirements of the service with all its extras, and of the commands."""
    found = []
    for file in ("setup.cfg", "cli/setup.cfg"):
        setup = configparser.ConfigParser()
        setup.read(root / file, encoding="utf-8")
        found.append(setup["options"]["install_requires"])
        extras = setup["options.extras_require"] if file == "setup.cfg" else {}
        found += [extras[name] for name in SERVICE if name in extras]
    return [line for part in found for line in part.splitlines() if line]


def references(requirements: Iterable[str], parts: Mapping[str, Json]) -> list[str]:
    """Return the references of the packages of the lock that requirements name."""
    wanted = (Requirement(text) for text in requirements)
    names = {
        canonicalize_name(one.name)
        for one in wanted
        if one.marker is None or one.marker.evaluate(TARGET)
    }
    return sorted(parts[name]["bom-ref"] for name in names if name in parts)


def document(root: pathlib.Path, version: str, stamp: str, audit: str) -> Json:
    """Return the bill of materials.

    :param stamp: the time of the commit.
    :param audit: ``passed``, or ``none`` for a release that was not audited.
    """
    pinned = pins(root, "runtime")
    scripts = json.loads((root / "window/package-lock.json").read_text(encoding="utf-8"))
    own = f"pkg:pypi/ironic-lite@{version}"
    parts = {name: component("pypi", name, pinned[name], licence(name)) for name in sorted(pinned)}
    vendored = [
        component(
            "npm",
            path.removeprefix("node_modules/"),
            one["version"],
            {"expression": one["license"]},
        )
        for path, one in sorted(scripts["packages"].items())
        if path and not one.get("dev")
    ]
    top = references(direct(root), parts) + [one["bom-ref"] for one in vendored]
    graph: list[Json] = [{"ref": own, "dependsOn": top}]
    for name, part in parts.items():
        wanted = [] if name in NOT_HERE else importlib.metadata.requires(name) or []
        graph.append({"ref": part["bom-ref"], "dependsOn": references(wanted, parts)})
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + stamp)}",
        "version": 1,
        "metadata": {
            "timestamp": stamp,
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "ironic-lite",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": own,
            },
            "properties": [{"name": "ironic-lite:audit", "value": audit}],
        },
        "components": [*parts.values(), *vendored],
        "dependencies": graph,
    }
