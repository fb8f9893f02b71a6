"""Vendor the browser modules of the window, build its script, and check its types.

    python scripts/window.py vendor
    python scripts/window.py build
    python scripts/window.py lint

``build`` bundles and minifies the modules and the style sheet of ``window`` by esbuild, and writes
``built`` of the feature. That is part of the repository: neither an installation nor the service
needs esbuild.
``built/sources`` has the hash of what the files were built from; a test compares it.

``lint`` checks the JSDoc types of the page by TypeScript, with the published types of the vendored
packages, and that ``built`` is what ``build`` writes. It is skipped with a line where npm or its
registry cannot be reached.

``page/vendor/vendor.json`` pins each package by the integrity of its tarball (the value that npm
publishes). The files are copied unchanged, except that imports by package name become relative
paths: an import map would need an inline script, which the Content-Security-Policy forbids. Source
maps are not served, so the comments that name them are removed. All commands need the program npm,
which the service itself never does, and install packages into ``build/window``.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from typing import Any

from ironic_lite.core import masking
from ironic_lite.domain import holds, states, verbs, versions
from ironic_lite.domain.states import State

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODULES = ROOT / "window"
"""The sources of the script and of the style sheet; no part of the package."""
SERVED = ROOT / "ironic_lite/features/window"
VENDOR = SERVED / "page/vendor"
BUILT = SERVED / "built"
SOURCES = BUILT / "sources"
_SECONDS = 120
_TOOLS = ("typescript@7.0.2", "esbuild@0.28.2")
_INSTALL = (
    "npm",
    "install",
    "--silent",
    "--no-audit",
    "--no-fund",
    "--no-save",
    "--ignore-scripts",
)
_FLAGS = (
    *("--checkJs", "--noEmit", "--strict", "--skipLibCheck", "--noUnusedLocals"),
    *("--exactOptionalPropertyTypes", "--noImplicitReturns", "--noUncheckedIndexedAccess"),
    *("--target", "esnext", "--module", "esnext", "--moduleResolution", "bundler"),
    *("--lib", "esnext,dom,dom.iterable"),
)
_TYPES = {
    "vendor/preact.d.ts": 'export * from "preact";',
    "vendor/hooks.d.ts": 'export * from "preact/hooks";',
    "vendor/signals.d.ts": 'export * from "@preact/signals";',
    "vendor/htm.d.ts": 'import htm from "htm"; export default htm;',
    "facts.d.ts": """
export const VERSION: string;
export const STATES: Record<string, string>;
export const VERBS: {
  target: string; alias?: boolean; needs?: string[]; erases?: boolean; from: string[];
}[];
export const SECRET_KEY: string;
""",
}
"""Declarations beside the page's modules, by path. `facts_module` makes the last one."""


def _tarball(package: str, version: str, integrity: str) -> bytes:
    """Return the tarball of a package.

    :param integrity: ``sha512-`` and base64, as npm publishes it.
    :raises SystemExit: the tarball differs from its integrity.
    """
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["npm", "pack", "--silent", "--pack-destination", folder, f"{package}@{version}"],
            check=True,
            timeout=_SECONDS,
            stdout=subprocess.DEVNULL,
        )
        data = next(pathlib.Path(folder).glob("*.tgz")).read_bytes()
    found = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    if found != integrity:
        sys.exit(f"{package} {version}: integrity is {found}, vendor.json says {integrity}")
    return data


def _member(tarball: bytes, path: str) -> str:
    with tarfile.open(fileobj=io.BytesIO(tarball)) as members:
        found = members.extractfile(f"package/{path}")
        if found is None:
            sys.exit(f"{path} is not a file of its package")
        return found.read().decode()


def _rewritten(text: str, imports: dict[str, str]) -> str:
    for name, path in imports.items():
        text = text.replace(f'from"{name}"', f'from"{path}"')
    lines = text.split("//# sourceMappingURL=")[0].rstrip()
    return f"{lines}\n"


def vendor() -> None:
    """Fetch, verify and write all modules and their licences; record the hashes."""
    pins: list[dict[str, Any]] = json.loads((VENDOR / "vendor.json").read_text())
    licences: dict[str, list[str]] = {}
    tarballs: dict[str, bytes] = {}
    for pin in pins:
        package = pin["package"]
        if package not in tarballs:
            tarballs[package] = _tarball(package, pin["version"], pin["integrity"])
        text = _rewritten(_member(tarballs[package], pin["source"]), pin["imports"])
        (VENDOR / pin["file"]).write_text(text)
        pin["sha512"] = hashlib.sha512(text.encode()).hexdigest()
        licences.setdefault(_member(tarballs[package], "LICENSE").strip(), []).append(
            f"{pin['file']}: {package} {pin['version']}, {pin['licence']}"
        )
    blocks = ("\n".join(files) + "\n\n" + text for text, files in licences.items())
    (VENDOR / "LICENSES").write_text(("\n\n" + "=" * 80 + "\n\n").join(blocks) + "\n")
    (VENDOR / "vendor.json").write_text(json.dumps(pins, indent=2) + "\n")


def facts_module() -> str:
    """Return the source of ``facts.js``: one exported constant for each fact of the domain."""
    facts = {
        "VERSION": f"1.{versions.LAST}",
        "STATES": {str(state): states.kind(state).value for state in State},
        "VERBS": [_verb(verb) for verb in verbs.TABLE],
        "SECRET_KEY": masking.SECRET_PATTERN,
    }
    return "".join(f"export const {name} = {json.dumps(fact)};\n" for name, fact in facts.items())


def _verb(verb: verbs.Verb) -> dict[str, Any]:
    """Return a verb; what is empty or false is left out."""
    facts = {
        "target": verb.target,
        "alias": any(one.event == verb.event for one in verbs.TABLE[: verbs.TABLE.index(verb)]),
        "needs": verb.needs,
        "erases": verb.event in holds.REFUSED[holds.Block.ERASE],
        "from": [str(state) for state in State if verbs.possible(verb, state)],
    }
    return {name: value for name, value in facts.items() if value}


def sources_hash() -> str:
    """Return the hash of everything that `build` reads."""
    paths = MODULES.rglob("*.js")
    texts = {path.relative_to(MODULES).as_posix(): path.read_text() for path in paths}
    texts |= {"facts.js": facts_module(), "style.css": (MODULES / "style.css").read_text()}
    return hashlib.sha256(json.dumps([_TOOLS, sorted(texts.items())]).encode()).hexdigest()


def build() -> int:
    """Write the built files; return the exit status."""
    folder = ROOT / "build/window"
    if missing := _install(folder):
        sys.exit(f"the window cannot be built: {missing}")
    for name, text in _built(folder).items():
        (BUILT / name).write_text(text)
    SOURCES.write_text(f"{sources_hash()}\n")
    return 0


def _built(folder: pathlib.Path) -> dict[str, str]:
    """Return the built files by name.

    :param folder: has the installed packages.
    :raises subprocess.CalledProcessError: esbuild has refused a file, and has said why.
    """
    page = _copied(folder)
    (page / "facts.js").write_text(facts_module())
    command = ["../node_modules/.bin/esbuild", "--bundle", "--minify", "--format=esm"]
    # Imports of vendored modules stay: relative to the folder of the output, which is the page's.
    command += ["--target=es2022", "--log-level=warning", f"--external:{page}/vendor/*"]
    found = {}
    for name in ("main.js", "style.css"):
        full = [*command, name, f"--outfile=built-{name}"]
        subprocess.run(full, cwd=page, check=True, timeout=_SECONDS)
        found[name] = (page / f"built-{name}").read_text()
    return found


def _copied(folder: pathlib.Path) -> pathlib.Path:
    """Copy the modules beside the installed packages, and return the copy."""
    page = folder / "page"
    shutil.rmtree(page, ignore_errors=True)
    shutil.copytree(MODULES, page)
    return page


def lint() -> int:
    """Check the types of the page's modules and the built files; return the exit status."""
    folder = ROOT / "build/window"
    if missing := _install(folder):
        print(f"SKIPPED: the window's types are not checked: {missing}", file=sys.stderr)
        return 0
    status = 0
    for name, text in _built(folder).items():
        if (BUILT / name).read_text() != text:
            print(f"{name} of the window is stale: run `make window`", file=sys.stderr)
            status = 1
    page = _copied(folder)
    for name, text in _TYPES.items():
        (page / name).parent.mkdir(exist_ok=True)
        (page / name).write_text(text)
    command = ["node_modules/.bin/tsc", *_FLAGS, "page/main.js"]
    types = subprocess.run(command, cwd=folder, check=False, timeout=_SECONDS).returncode
    return types or status


def _install(folder: pathlib.Path) -> str:
    """Install TypeScript, esbuild and the vendored packages unless they are there.

    :returns: what is missing, "" if nothing is.
    """
    pins: list[dict[str, Any]] = json.loads((VENDOR / "vendor.json").read_text())
    wanted = sorted({*_TOOLS, *(f"{pin['package']}@{pin['version']}" for pin in pins)})
    stamp = folder / "installed"
    if stamp.is_file() and stamp.read_text().split() == wanted:
        return ""
    if not (shutil.which("npm") and shutil.which("node")):
        return "npm and node are not installed"
    folder.mkdir(parents=True, exist_ok=True)
    command = [*_INSTALL, "--prefix", str(folder), *wanted]
    try:
        subprocess.run(command, check=True, timeout=_SECONDS, capture_output=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return f"{' '.join(command)}: {error}"
    stamp.write_text("\n".join(wanted))
    return ""


if __name__ == "__main__":
    if sys.argv[1:] == ["vendor"]:
        vendor()
    elif sys.argv[1:] == ["build"]:
        sys.exit(build())
    elif sys.argv[1:] == ["lint"]:
        sys.exit(lint())
    else:
        sys.exit(f"usage: {sys.argv[0]} vendor|build|lint")
