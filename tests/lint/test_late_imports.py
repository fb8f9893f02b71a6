"""Modules that are loaded late have the names that are taken from them: mypy does not see these."""

from __future__ import annotations

import ast
import importlib
import pathlib
from collections.abc import Iterator

from tests.support import source_trees

ROOT = pathlib.Path(__file__).parents[2]
LOADERS = {"load", "import_module"}


def loaded(node: ast.AST) -> str | None:
    """Return the module of ours that a call of a loader names."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    first = node.args[0]
    if not isinstance(node.func, ast.Attribute) or not isinstance(first, ast.Constant):
        return None
    module = str(first.value)
    return module if node.func.attr in LOADERS and module.startswith("ironic_lite.") else None


def taken_names(tree: list[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield each module that is loaded late with a name that is taken from it."""
    variables: dict[str, str] = {}
    for node in tree:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            module = loaded(node.value)
            if module is not None:
                variables[node.targets[0].id] = module
    for node in tree:
        if isinstance(node, ast.Attribute):
            module = loaded(node.value)
            if module is None and isinstance(node.value, ast.Name):
                module = variables.get(node.value.id)
            if module is not None:
                yield module, node.attr


def test_late_modules_have_the_names_that_are_used() -> None:
    found = {
        taken
        for path in (ROOT / "ironic_lite").rglob("*.py")
        for taken in taken_names(list(source_trees.nodes(path)))
    }
    assert len(found) > 10
    missing = {
        f"{module}.{name}"
        for module, name in found
        if not hasattr(importlib.import_module(module), name)
    }
    assert missing == set()
