"""Generate facts and types for the window, build its files, and check its sources.

    python -m scripts.window generate
    python -m scripts.window build
    python -m scripts.window parts FOLDER
    python -m scripts.window lint

``generate`` writes ``window/facts.ts``, the facts of the domain, and ``window/wire/documents.ts``,
the types of the documents that the API answers with, from its OpenAPI document.

``build`` does that, too, and bundles the modules and the style sheet of ``window`` by esbuild into
``built`` of the feature, each file beside its Brotli form. They are part of the repository: neither
an installation nor the service needs Node. ``built/sources`` has the hash of what the files were
built from; a test compares it.

``parts`` builds the page that shows all parts in all their states.

``lint`` checks types, format, unit tests and that ``built`` is what ``build`` writes. It is skipped
with a line where npm or its registry cannot be reached.

All commands but ``generate`` need npm, and install what ``window/package-lock.json`` pins.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from ironic_lite.core import masking
from ironic_lite.domain import holds, states, verbs, versions
from ironic_lite.domain.states import State

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODULES = ROOT / "window"
"""The sources of the script and of the style sheet; no part of the package."""
BUILT = ROOT / "ironic_lite/features/window/built"
SOURCES = BUILT / "sources"
LOCK = MODULES / "package-lock.json"
FACTS = MODULES / "facts.ts"
DOCUMENTS = MODULES / "wire/documents.ts"
_SECONDS = 300
_INSTALL = ("npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts")
_GENERATED = "// Written by `make window`.\n"

Json = Mapping[str, Any]


# -- facts of the domain ---------------------------------------------------------------------


def facts_module() -> str:
    """Return the source of ``facts.ts``: one exported constant for each fact of the domain."""
    facts: dict[str, tuple[str, Any]] = {
        "VERSION": ("string", f"1.{versions.LAST}"),
        "STATES": ("Record<string, string>", {str(s): states.kind(s).value for s in State}),
        "VERBS": ("Verb[]", [_verb(verb) for verb in verbs.TABLE]),
        "SECRET_KEY": ("string", masking.SECRET_PATTERN),
        "URL_LOGIN": ("string", masking.URL_LOGIN.pattern),
    }
    rows = (
        f"export const {name}: {kind} = {json.dumps(fact)};\n"
        for name, (kind, fact) in facts.items()
    )
    verb = (
        "export interface Verb { target: string; alias?: boolean; needs?: string[]; "
        "erases?: boolean; from: string[] }\n"
    )
    return _GENERATED + verb + "".join(rows)


def _verb(verb: verbs.Verb) -> dict[str, Any]:
    """Return a verb; what is empty or false is left out."""
    earlier = verbs.TABLE[: verbs.TABLE.index(verb)]
    facts = {
        "target": verb.target,
        "alias": any(other.event == verb.event for other in earlier),
        "needs": verb.needs,
        "erases": verb.event in holds.REFUSED[holds.Block.ERASE],
        "from": [str(state) for state in State if verbs.possible(verb, state)],
    }
    return {name: value for name, value in facts.items() if value}


# -- types of the documents of the API -------------------------------------------------------


def documents_module() -> str:
    """Return the source of ``documents.ts``: types of the schemas of the OpenAPI document."""
    from ironic_lite.api import openapi  # noqa: PLC0415
    from tests.support import whole_api  # noqa: PLC0415

    document = openapi.document(whole_api.ROWS, *whole_api.ANSWERS)
    schemas = document["components"]["schemas"]
    named = "".join(
        f"export type {name} = {_type(schema, ';' + chr(10) + '  ')};\n"
        for name, schema in sorted(schemas.items())
    )
    answers = "".join(
        f"  {json.dumps(path)}: {_type(schema)};\n"
        for path, methods in document["paths"].items()
        if (schema := _answer(methods.get("get")))
    )
    about = "/** Answers of GET by the path of their route. */\n"
    return f"{_GENERATED}{named}\n{about}export interface Answers {{\n{answers}}}\n"


def _answer(operation: Json | None) -> Json | None:
    """Return the schema of the answer 200 as JSON of an operation; None without one."""
    content = ((operation or {}).get("responses", {}).get("200") or {}).get("content", {})
    found: Json | None = content.get("application/json", {}).get("schema")
    return found


_PLAIN = {
    "string": "string",
    "boolean": "boolean",
    "number": "number",
    "integer": "number",
    "null": "null",
}


def _type(schema: Json, between: str = "; ") -> str:
    """Return the TypeScript type of a JSON schema; ``unknown`` if the schema allows anything.

    :param between: what stands between the members of an object.
    """
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _union(_type(each) for each in schema[several])
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return _union(_of_kind(kind, schema, between) for kind in kinds)


def _union(kinds: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(kinds)) or "unknown"


def _of_kind(kind: str, schema: Json, between: str) -> str:
    if kind == "array":
        return f"Array<{_type(schema.get('items', {}))}>"
    return _PLAIN.get(kind) or _object(schema, between)


def _object(schema: Json, between: str) -> str:
    required = schema.get("required", ())
    members = [
        f"{_member(name)}{'' if name in required else '?'}: {_type(each)}"
        for name, each in schema.get("properties", {}).items()
    ]
    more = schema.get("additionalProperties")
    if members:
        return f"{{ {between.join(members)} }}"
    return f"Record<string, {_type(more) if isinstance(more, dict) else 'any'}>"


def _member(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else json.dumps(name)


def generate() -> None:
    """Write the generated modules."""
    FACTS.write_text(facts_module())
    DOCUMENTS.write_text(documents_module())


# -- building and checking -------------------------------------------------------------------


def sources_hash() -> str:
    """Return the hash of everything that `build` reads."""
    paths = [path for path in MODULES.glob("*.*") if path.is_file()]
    for folder in ("pages", "parts", "state", "wire"):
        paths += (MODULES / folder).rglob("*.*")
    kept = (".ts", ".tsx", ".css", ".mjs")
    texts = {
        path.relative_to(MODULES).as_posix(): path.read_text()
        for path in [LOCK, *paths]
        if path == LOCK or (path.suffix in kept and not path.stem.endswith(".test"))
    }
    return hashlib.sha256(json.dumps(sorted(texts.items())).encode()).hexdigest()


def build() -> None:
    """Generate the modules and write the built files."""
    generate()
    if missing := install():
        sys.exit(f"the window cannot be built: {missing}")
    bundle(BUILT)
    SOURCES.write_text(f"{sources_hash()}\n")


def bundle(folder: pathlib.Path, *page: str) -> None:
    """Write the bundled files into a folder.

    :param page: ``parts`` for the page of all parts.
    :raises subprocess.CalledProcessError: esbuild has refused a file, and has said why.
    """
    command = ["node", "build.mjs", str(folder.absolute()), *page]
    subprocess.run(command, cwd=MODULES, check=True, timeout=_SECONDS)


def lint() -> int:
    """Check the sources and the built files; return the exit status."""
    if missing := install():
        print(f"SKIPPED: the window's sources are not checked: {missing}", file=sys.stderr)
        return 0
    command = ["npm", "run", "--silent", "check"]
    status = subprocess.run(command, cwd=MODULES, check=False, timeout=_SECONDS).returncode
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        bundle(folder)
        fresh = {path.name: path.read_bytes() for path in folder.iterdir()}
    known = {path.name: path.read_bytes() for path in BUILT.iterdir() if path != SOURCES}
    # Another release of Node may compress in another way.
    for stale in sorted(fresh.keys() ^ known.keys()) + [
        name
        for name in sorted(fresh.keys() & known.keys())
        if fresh[name] != known[name] and not name.endswith(".br")
    ]:
        print(f"{stale} of the window is stale: run `make window`", file=sys.stderr)
        status = 1
    return status


def install() -> str:
    """Install the pinned packages unless they are there.

    :returns: what is missing, "" if nothing is.
    """
    stamp = MODULES / "node_modules/.installed"
    wanted = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return ""
    if not (shutil.which("npm") and shutil.which("node")):
        return "npm and node are not installed"
    try:
        subprocess.run(_INSTALL, cwd=MODULES, check=True, timeout=_SECONDS, capture_output=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return f"{' '.join(_INSTALL)}: {error}"
    stamp.write_text(wanted)
    return ""


def main(words: list[str]) -> int:
    """Run a command; return the exit status."""
    match words:
        case ["generate"]:
            generate()
        case ["build"]:
            build()
        case ["parts", folder]:
            if missing := install():
                sys.exit(f"the page of parts cannot be built: {missing}")
            bundle(pathlib.Path(folder), "parts")
        case ["lint"]:
            return lint()
        case _:
            sys.exit(f"usage: {sys.argv[0]} generate|build|parts FOLDER|lint")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
