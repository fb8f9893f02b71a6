"""Files and functions stay readable, modules say what they are; ruff holds other bounds."""

from __future__ import annotations

import ast
import functools
import pathlib

from tests.support import source_trees

ROOT = pathlib.Path(__file__).parents[2]
FILE_LINES = 900
"""A file is a subject; a longer one has probably two."""
FUNCTION_LINES = 40
NAMELESS = {"utils", "common", "helpers", "helper", "manager", "misc", "base2"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def paths() -> dict[str, pathlib.Path]:
    """Return our modules by name; migrations, behind a link, are tables."""
    folders = [ROOT / name for name in ("ironic_lite", "benchmarks", "cli", "demo", "tools")]
    found = sorted(path for folder in folders for path in folder.rglob("*.py"))
    names = {str(path.relative_to(ROOT)): path for path in found}
    return {name: path for name, path in names.items() if "migrations" not in name}


@functools.cache
def modules() -> dict[str, str]:
    """Return the source of our modules by name."""
    return {name: path.read_text() for name, path in paths().items()}


def functions() -> dict[str, Function]:
    """Return every function, nested ones and methods too, by ``path:line name``."""
    return {
        f"{name}:{node.lineno} {node.name}": node
        for name, path in paths().items()
        for node in source_trees.nodes(path)
        if isinstance(node, Function)
    }


def length(function: Function) -> int:
    """Count the lines from ``def`` to the end, without the docstring."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        assert first.end_lineno is not None
        lines -= first.end_lineno - first.lineno + 1
    return lines


def test_a_file_fits_in_the_head() -> None:
    lines = {path: len(source.splitlines()) for path, source in modules().items()}
    assert {path: count for path, count in lines.items() if count > FILE_LINES} == {}


def test_a_function_fits_on_a_screen() -> None:
    lines = {where: length(function) for where, function in functions().items()}
    assert {where: count for where, count in lines.items() if count > FUNCTION_LINES} == {}


def test_a_module_says_first_what_it_is_for() -> None:
    trees = {name: source_trees.tree(path) for name, path in paths().items()}
    silent = {name for name, tree in trees.items() if not ast.get_docstring(tree)}
    assert {path for path in silent if modules()[path].strip()} == set()


def test_a_module_has_a_name_of_its_own() -> None:
    parts = {path: set(pathlib.Path(path).with_suffix("").parts) for path in modules()}
    assert {path for path, names in parts.items() if names & NAMELESS} == set()
