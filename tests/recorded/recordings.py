"""Recordings of machines: where they are, and which of them a run of the tests takes."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
from typing import Any

from tests.recorded import packing

Json = dict[str, Any]

FOLDERS = "RECORDINGS"
"""Environment variable: further folders of recordings, separated by colons."""
ALL = "RECORDED_ALL"
"""Environment variable: take all recordings, not only those of ``QUICK``."""

QUICK = ("emulated-dell", "sushy-tools")
"""Recordings of each run of the suite."""
_RESULTS = pathlib.Path(__file__).parent / "results.json"
_SUFFIX = ".json.xz"
_OWN = pathlib.Path(__file__).parent / "machines"


@dataclasses.dataclass(frozen=True)
class Recording:
    """A machine's documents by path, and what is known of their origin."""

    name: str
    machine: str
    documents: dict[str, Json]
    about: Json

    @property
    def shown(self) -> dict[str, str]:
        """Return the facts that the documentation shows."""
        return {name: str(self.about.get(name, "")) for name in ("firmware", "source", "licence")}


def files() -> dict[str, pathlib.Path]:
    """Return the files of all recordings that are there, by name."""
    others = os.environ.get(FOLDERS, "").split(":")
    folders = [_OWN, *(pathlib.Path(one) for one in others if one)]
    found = (file for folder in folders for file in folder.glob(f"*{_SUFFIX}"))
    return {file.name.removesuffix(_SUFFIX): file for file in found}


def names() -> list[str]:
    """Return the names of the recordings that this run takes."""
    wanted = sorted(files())
    return wanted if os.environ.get(ALL) else [name for name in wanted if name in QUICK]


@functools.cache
def results() -> dict[str, Json]:
    """Return the entries of the file of results by the name of the recording."""
    if not _RESULTS.exists():
        return {}
    return {one["name"]: one for one in json.loads(_RESULTS.read_bytes())["machines"]}


def verdict(name: str, operation: str) -> str | None:
    """Return the known verdict of an operation, None for a machine that is new."""
    found = results().get(name, {}).get("verdicts", {}).get(operation)
    return None if found is None else str(found)


@functools.cache
def load(name: str) -> Recording:
    """Return a recording; a test copies its documents before it changes them."""
    whole = packing.unpack(files()[name].read_bytes())
    documents = whole.pop("documents")
    return Recording(name, whole["machine"], documents, whole)
