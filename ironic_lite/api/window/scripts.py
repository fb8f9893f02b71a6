"""The modules of the page, served as one script.

A browser loads one script sooner than a chain of modules, and one text compresses better than its
parts. The modules stay small files for people. The rules that make joining simple are checked here:
imports and exports stand at the start of a line, a module imports what another exports by the same
name, and no two modules declare the same name. Spaces and signs that JavaScript does not need are
removed.
"""

from __future__ import annotations

import collections
import math
import posixpath
import re
from collections.abc import Mapping

_IMPORT = re.compile(r'^import (?:\{([^}]+)\}|(\w+)) from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|let|class|function\*?) (\w+))", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_NAME = re.compile(r"^(?:async )?(?:const|let|class|function\*?) (\w+)", re.MULTILINE)
_NUMBER = re.compile(r"^const ([A-Z][A-Z_]*) = (\d[\d_]*(?: \* \d[\d_]*)*);.*\n", re.MULTILINE)

_PART = re.compile(
    r"""(?P<kept>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*\""""
    # A slash begins a pattern after these signs, and divides after others.
    r"""|(?:(?<=[=(,:!&|?\n])|(?<=[=(,:!&|?][ ]))/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\n[])+/)"""
    r"""|(?P<edge>[`{}])|(?P<code>[^'"`{}/]+|/)"""
)
_TEXT = re.compile(r"(?:\\.|\$(?!\{)|[^\\`$])*(?P<edge>`|\$\{)", re.DOTALL)
"""The text of a template up to its end, or to an expression in it."""
_ENDS = re.compile(r"(?<=>)\n|\n(?=<|/?>|\$\{)")
_BEFORE_ATTRIBUTE = re.compile(r"\n(?=[\w-]+=)")
"""Ends of lines beside tags and before expressions: htm drops them."""
_QUOTES = re.compile(r'(?<=[\w-]=)"([\w#/-]*\w)"(?=[ >])')
"""Those of an attribute that htm reads without them, too."""
_CLOSING = re.compile(r"</\w+\s*>")
"""Closing tags: htm does not read their names."""
_SPACES = re.compile(r"(?<![\w$]) +| +(?![\w$])|(?<=[;,(\[=>])\n|\n(?=[?:)\].])")
"""Spaces beside signs, and ends of lines that end no statement."""
_LAST_COMMAS = re.compile(r",(?=[)\]])")
_PARENTHESES = re.compile(r"(?<![\w$])\((\w+)\)(?==>)")
"""Those around the only argument of a function."""
_CAST = re.compile(r"(?<=[=(,:!&|?;])\(([a-z][\w.]*)\)(?!=>)")
"""Those around a name, which a comment has told TypeScript the type of."""
_NOTHING = re.compile(r"\breturn undefined(?=[;\n]|$)")
_LAST_SIGN = re.compile(r"[;,]?\n?$")
"""Signs that JavaScript does not need before a closing brace."""
_CONST = re.compile(r"\bconst\b")
"""TypeScript has checked that nothing is assigned to it; one word compresses better than two."""
_JOINED = re.compile(r"([+-]) \1")
_STATEMENTS = re.compile(r";let\b ?|\blet\b|[;\n()[\]]")
"""What begins or ends a statement or an expression, in code without braces and templates."""


def squeezed(text: str) -> str:
    """Return a script, whose comments are removed, without spaces and signs that it does not need.

    A constant becomes a variable, and declarations in a row become one.
    Lines end where they may end a statement without a semicolon, but not after a brace.

    :raises ValueError: a sign would become another one without the space.
    """
    out: list[str] = []
    inside: list[str] = []  # the templates and braces around a place
    declares = [False]  # whether each open statement, from the outermost to the innermost, is one
    at = 0
    while at < len(text):
        in_template = inside[-1:] == ["`"]
        part = (_TEXT if in_template else _PART).match(text, at)
        if part is None:
            raise ValueError(f"this cannot be squeezed: {text[at : at + 80]}")
        if in_template:
            text_of_tags = _CLOSING.sub("</>", _ENDS.sub("", part[0]))
            out.append(_QUOTES.sub(r"\1", _BEFORE_ATTRIBUTE.sub(" ", text_of_tags)))
        else:
            out.append(_one_declaration(_short(part), declares))
        at, edge = part.end(), part["edge"]
        if edge == "}" or (in_template and edge == "`"):
            inside.pop()
            declares.pop()
        elif edge:
            inside.append(edge[-1])
            declares.append(False)
    return "".join(out)


def _one_declaration(code: str, declares: list[bool]) -> str:
    """Return code in which a declaration goes on where another would follow it."""

    def word(found: re.Match[str]) -> str:
        text = found[0]
        if text in "([":
            declares.append(False)
        elif text in ")]":
            declares.pop()
        elif text.startswith(";let") and declares[-1]:
            return ","
        else:
            declares[-1] = "let" in text
        return text

    return _STATEMENTS.sub(word, code)


def _short(part: re.Match[str]) -> str:
    code = part["code"]
    if code is None:
        return part[0]
    if _JOINED.search(code):
        raise ValueError(f"this cannot be squeezed: {code}")
    short = _LAST_COMMAS.sub("", _SPACES.sub("", _CONST.sub("let", code)))
    short = _NOTHING.sub("return", _CAST.sub(r"\1", _PARENTHESES.sub(r"\1", short)))
    if part.string[part.start() - 1 : part.start()] in {"{", "}"}:
        short = short.removeprefix("\n")
    if part.string[part.end() : part.end() + 1] == "}":
        short = _LAST_SIGN.sub("", short)
    return short


def joined(modules: Mapping[str, str]) -> str:
    """Return modules as one, each after those that it imports; numbers with a name are in place.

    :param modules: texts by path. Imports of other paths stay, and are named once.
    :raises ValueError: a module breaks a rule of joining, or modules import each other.
    """
    exports = {name: set(_EXPORT.findall(text)) for name, text in modules.items()}
    needs: dict[str, set[str]] = {name: set() for name in modules}
    kept: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    for module, text in modules.items():
        for listed, default, source in _IMPORT.findall(text):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(module), source))
            names = {one.strip() for one in listed.split(",") if one.strip()}
            if path not in modules:
                kept[path, default] |= names
            elif default or names - exports[path]:
                raise ValueError(f"{module}: {path} does not export all of {default or listed}")
            needs[module] |= {path} & modules.keys()
    bodies = {name: _EXPORT.sub("", _IMPORT.sub("", text)) for name, text in modules.items()}
    _check(bodies)
    numbers = {
        name: str(math.prod(int(factor) for factor in value.split("*")))
        for name, value in _NUMBER.findall("\n".join(bodies.values()))
    }
    if numbers:
        uses = re.compile(rf"\b(?:{'|'.join(numbers)})\b")
        for name, body in bodies.items():
            bodies[name] = uses.sub(lambda use: numbers[use[0]], _NUMBER.sub("", body))
    imports = [_import(path, default, names) for (path, default), names in sorted(kept.items())]
    return "\n".join([*imports, *(bodies[name] for name in _order(needs))])


def _import(path: str, default: str, names: set[str]) -> str:
    what = default or f"{{ {', '.join(sorted(names))} }}"
    return f'import {what} from "./{path}";'


def _order(needs: Mapping[str, set[str]]) -> list[str]:
    """Return paths, each after those that it needs; of several, the first by its file name.

    All processes of a service must serve the same bytes. This order also compresses better than one
    by folders.
    """
    order: list[str] = []
    while len(order) < len(needs):
        ready = [name for name in needs.keys() - set(order) if needs[name] <= set(order)]
        if not ready:
            raise ValueError(f"modules import each other: {sorted(needs.keys() - set(order))}")
        order.append(min(ready, key=lambda name: (posixpath.basename(name), name)))
    return order


def _check(bodies: Mapping[str, str]) -> None:
    declared: dict[str, str] = {}
    for module, body in bodies.items():
        if left := _LEFT.search(body):
            raise ValueError(f"{module}: this cannot be joined: {left[0]}")
        for name in _NAME.findall(body):
            if name in declared:
                raise ValueError(f"{module}: {name} is declared in {declared[name]}, too")
            declared[name] = module
