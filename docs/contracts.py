"""The import contracts of ``pyproject.toml``, as a drawing and a table for the documentation."""

from __future__ import annotations

import pathlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PROJECT = pathlib.Path(__file__).parents[1] / "pyproject.toml"
WIDTH = 76

Contract = Mapping[str, Any]


def contracts(kind: str) -> list[Contract]:
    """Return the contracts of one type, in the order of the file."""
    settings = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]
    return [contract for contract in settings["contracts"] if contract["type"] == kind]


def drawing() -> str:
    """Return a literal block with one stack of boxes for each package that has layers."""
    lines: list[str] = []
    for contract in contracts("layers"):
        for package in contract["containers"]:
            lines += ["", f"{package}/", *stack(contract["layers"])]
    return "::\n\n" + "\n".join(f"   {line}".rstrip() for line in lines[1:])


def stack(layers: Sequence[str]) -> Iterator[str]:
    """Give the lines of one stack: the layer that imports all others is on top."""
    edge = f"+{'-' * (WIDTH - 2)}+"
    yield edge
    for layer in layers:
        # Round brackets mark a module that may be missing.
        plain = layer.translate({ord("("): None, ord(")"): None})
        for line in wrapped(re.findall(r"\w+(?: [|:])?", plain)):
            yield f"| {line:<{WIDTH - 4}} |"
        yield edge


def wrapped(words: Sequence[str]) -> Iterator[str]:
    """Give the words of a layer in lines that fit into a box."""
    line = ""
    for word in words:
        longer = f"{line} {word}" if line else word
        if len(longer) > WIDTH - 4:
            yield line
            longer = word
        line = longer
    yield line


def fences() -> Iterator[tuple[str, str, str]]:
    """Give each restricted library: its names, its importers, the name of the contract."""
    for contract in contracts("forbidden"):
        forbidden = ", ".join(f"``{name}``" for name in contract["forbidden_modules"])
        if contract["source_modules"] == ["ironic_lite"]:
            importers = {entry.split(" -> ")[0] for entry in contract.get("ignore_imports", ())}
            names = sorted({name.removesuffix(".**") for name in importers})
            where = ", ".join(f"``{name}``" for name in names) or "no module"
        else:
            sources = ", ".join(f"``{name}``" for name in contract["source_modules"])
            where = f"all but {sources}"
        yield forbidden, where, contract["name"]
