"""Function names say their object: few of them are a single word."""

from __future__ import annotations

import ast
import pathlib

from tests.support import source_trees

PACKAGE = pathlib.Path(__file__).parents[2] / "ironic_lite"
MOST_SINGLE_WORDS = 0.45
"""Share of all functions; methods of an interface, such as ``reboot``, may be one word."""


def test_most_function_names_have_more_than_one_word() -> None:
    names = [
        node.name.strip("_")
        for path in PACKAGE.rglob("*.py")
        for node in source_trees.nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not node.name.startswith("__")
    ]
    single = [name for name in names if "_" not in name]
    assert len(single) / len(names) < MOST_SINGLE_WORDS
