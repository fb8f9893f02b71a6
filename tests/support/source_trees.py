"""Syntax trees of source files, parsed once for all rules of a test process."""

from __future__ import annotations

import ast
import functools
import pathlib
from collections.abc import Sequence


@functools.cache
def tree(path: pathlib.Path) -> ast.Module:
    """Return the syntax tree of a file; nobody may change it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes(path: pathlib.Path) -> Sequence[ast.AST]:
    """Return all nodes of a file's syntax tree."""
    return tuple(ast.walk(tree(path)))
