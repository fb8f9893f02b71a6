"""Tests use the public interface of the product; few attributes with an underscore are read."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Sequence

from tests.support import source_trees

TESTS = pathlib.Path(__file__).parents[1]
MOST = 32
"""Number of reads that may remain; lower it with each that goes."""
FOREIGN = re.compile(r"(?<!self)(?<!cls)\._[A-Za-z]")
PUBLIC = {"_exit", "_replace", "_asdict", "_fields", "_make"}
"""Public names of the standard library: of ``os`` and of named tuples."""


def own(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the private names that a module defines: functions, and attributes of ``self``."""
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    set_here = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and inherits(node.value)
    }
    return names | set_here


def inherits(value: ast.expr) -> bool:
    """Return whether an attribute's owner is the object itself: ``self``, ``cls``, ``super()``."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def reads(path: pathlib.Path) -> list[str]:
    """Return the private attributes of other objects that a module reads or sets."""
    text = path.read_text(encoding="utf-8")
    if not FOREIGN.search(text):
        return []
    nodes = source_trees.nodes(path)
    known = own(nodes) | PUBLIC
    return [
        f"{path.relative_to(TESTS)}:{node.lineno} {ast.unparse(node)}"
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in known
        and not inherits(node.value)
    ]


def test_private_attributes_that_tests_read_become_fewer() -> None:
    found = [line for path in sorted(TESTS.rglob("*.py")) for line in reads(path)]
    assert len(found) <= MOST, "\n".join(found)
