"""Redfish trees as bytes: one recorded tree serves all machines of a model.

Only what differs between machines is rendered: the system, its settings, the power of its chassis,
the virtual drives, and documents with MAC addresses.
"""

from __future__ import annotations

import functools
import pathlib
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from tests.recorded import facts, packing, recordings

Json = dict[str, Any]

ROOT = facts.ROOT
OWN = pathlib.Path(__file__).parent / "trees"
"""Recordings of the emulators of the tests; those of real machines are in ``RECORDINGS``."""
ACTIONS = ("#ComputerSystem.Reset", "#VirtualMedia.InsertMedia", "#VirtualMedia.EjectMedia")
"""The actions that a site needs; a BMC answers others with 501."""
_MAC = re.compile(rb"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])")


class Tree:
    """The documents of a model, by path without a slash at its end."""

    def __init__(self, documents: Mapping[str, Json]) -> None:
        self.documents = documents
        self.system = facts.systems(documents)[0]
        self.settings = facts.settings(documents, self.system)
        self.chassis = [
            path
            for path, one in facts.each(documents, documents[self.system], "Links", "Chassis")
            if "PowerState" in one
        ]
        self.media = facts.drives(documents, self.system)
        self.sessions = facts.value(documents[ROOT], "Links", "Sessions", "@odata.id")
        # iLO does not distinguish case.
        made = f"{documents[ROOT].get('Vendor')} {documents[self.system].get('Manufacturer')}"
        self.folds = "HP" in made
        self.vendor = documents[ROOT].get("Vendor") or documents[self.system].get("Manufacturer")
        self._folded = {path.lower(): path for path in documents}
        self.targets = {
            str(action["target"]).rstrip("/"): (name, path)
            for path, one in documents.items()
            for name, action in (one.get("Actions") or {}).items()
            if name in ACTIONS and isinstance(action, dict) and action.get("target")
        }
        self.pages = {path: orjson.dumps(one) for path, one in documents.items()}
        self.etags = {path: etag(page) for path, page in self.pages.items()}
        self.macs = [address.upper() for address in sorted(facts.addresses(documents, self.system))]
        self.with_macs = {path for path, page in self.pages.items() if _MAC.search(page)}

    def find(self, path: str) -> str:
        """Return a path as the tree writes it."""
        plain = path.rstrip("/") or "/"
        return self._folded.get(plain.lower(), plain) if self.folds else plain

    def with_addresses(self, page: bytes, own: Mapping[bytes, bytes]) -> bytes:
        """Return a page with the addresses of a machine."""
        return _MAC.sub(lambda found: own.get(found[0].upper(), found[0]), page)


def etag(page: bytes) -> str:
    """Return a strong tag of a page."""
    return f'"{zlib.crc32(page):08x}"'


@functools.cache
def load(model: str) -> Tree:
    """Return the tree of a model: ``dell``, ``hpe``, ``supermicro``, or the name of a recording."""
    known = recordings.files() | {
        file.name.removesuffix(".json.xz"): file for file in OWN.glob("*.json.xz")
    }
    file = known.get(model) or known.get(f"emulated-{model}")
    if file is None:
        raise ValueError(f"models: there is no tree of {model!r}, only {', '.join(sorted(known))}")
    return Tree(packing.unpack(file.read_bytes())["documents"])


def mix(models: Mapping[str, int], count: int) -> Iterator[str]:
    """Yield the model of each machine, evenly mixed by shares in percent."""
    due = dict.fromkeys(models, 0.0)
    whole = sum(models.values())
    for _ in range(count):
        due = {model: held + models[model] / whole for model, held in due.items()}
        chosen = max(due, key=lambda model: due[model])
        due[chosen] -= 1
        yield chosen
