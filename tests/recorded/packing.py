"""Packing of a tree that another program recorded into the form of ``tools/record_bmc``.

``python -m tests.recorded.packing FOLDER FILE --machine NAME ...`` reads the two usual forms:
folders with one ``index.json`` each, or JSON files that contain their own ``@odata.id``.
"""

from __future__ import annotations

import argparse
import collections
import json
import lzma
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tools.record_bmc import anonymize, walk

Json = dict[str, Any]

ROOT = "/redfish/v1"
FACTS = ("machine", "firmware", "source", "licence")
"""What a recording contains beside its documents."""

_ROOTS = ("/redfish", "/registries", "/schemas")


def read(folder: pathlib.Path) -> Iterator[tuple[str, Json]]:
    """Yield path and document of a recording in a folder."""
    for file in sorted(folder.rglob("*json*")):
        if not file.is_file():
            continue
        try:
            document = json.loads(file.read_bytes())
        except ValueError:
            continue
        if isinstance(document, dict):
            yield place(file.relative_to(folder).as_posix(), document), document


def place(file: str, document: Json) -> str:
    """Return the path of a document, by the name of its file or by its ``@odata.id``."""
    if not file.endswith("index.json"):
        return str(document.get("@odata.id", "")).partition("#")[0].rstrip("/")
    path = "/" + file.removesuffix("index.json").rstrip("/")
    return (path if path.startswith(_ROOTS) else ROOT + path).rstrip("/")


def pack(found: Iterable[tuple[str, Json]], facts: Mapping[str, Any]) -> bytes:
    """Return the file of a recording."""
    kept: dict[str, Json] = {}
    dropped: collections.Counter[str] = collections.Counter()
    for path, document in found:
        why = _left_out(path, document)
        if why is None:
            kept[path] = walk.without_registry_texts(document)
        else:
            dropped[why] += 1
    whole = {**facts, "left_out": dict(dropped), "documents": anonymize.anonymized(kept)}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


def _left_out(path: str, document: Json) -> str | None:
    """Return the reason why a document is not kept, None if it is kept."""
    entries = document.get("RegistryEntries")
    if isinstance(entries, dict):
        bios = "Attributes" in entries and "bios" in path.lower()
        return walk.left_out(path) if bios else "registries of messages"
    if "error" in document and "@odata.id" not in document:
        return "answers with an error"
    return walk.left_out(path) if path.startswith("/") else "files without a path"


def unpack(raw: bytes) -> Json:
    """Return the content of a packed file."""
    whole: Json = json.loads(lzma.decompress(raw))
    return whole


def main() -> None:
    """Pack a folder into a file."""
    parser = argparse.ArgumentParser(description="Pack a recorded tree of Redfish documents.")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    for name in FACTS:
        parser.add_argument(f"--{name}", required=True)
    asked = parser.parse_args()
    facts = {name: vars(asked)[name] for name in FACTS}
    asked.file.write_bytes(pack(read(asked.folder), facts))


if __name__ == "__main__":
    main()
