"""The type checker finds misspelt node columns and step keys; loose types have one definition."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CODE = """
from ironic_lite.records import Node, StoredStep

def use(node: Node, step: StoredStep) -> None:
    print(node.power_state, step["interface"])
    node.last_error = None
    {line}
"""


def check(folder: pathlib.Path, line: str) -> str:
    """Return what ``mypy --strict`` prints about the line."""
    source = folder / "snippet.py"
    source.write_text(CODE.format(line=line))
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(source)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout


def test_mypy_accepts_columns_and_keys_that_exist(tmp_path: pathlib.Path) -> None:
    assert "Success: no issues found" in check(tmp_path, "print(node.lessee, step['step'])")


@pytest.mark.parametrize("line", ["print(node.powr_state)", "node.powr_state = None"])
def test_mypy_finds_a_misspelt_node_column(tmp_path: pathlib.Path, line: str) -> None:
    assert 'error: "Node" has no attribute "powr_state"' in check(tmp_path, line)


@pytest.mark.parametrize("line", ["print(step['interfce'])", "step['interfce'] = 'bios'"])
def test_mypy_finds_a_misspelt_step_key(tmp_path: pathlib.Path, line: str) -> None:
    assert 'error: TypedDict "StoredStep" has no key "interfce"' in check(tmp_path, line)


LOOSE = re.compile(r"\b(?:dict|Mapping)\[str, (?:Any|object)\]|^(?:Json|Row)(?:View)? ?(?::.*)?=")
DEFINED = {
    "ironic_lite/core/json_types.py": 4,
    "ironic_lite/api/wire/request.py": 1,  # a WSGI environment, which is no JSON
}


def test_loose_types_are_defined_in_one_module() -> None:
    found = {}
    for file in sorted((ROOT / "ironic_lite").rglob("*.py")):
        name = str(file.relative_to(ROOT))
        # The errors are below core, so they cannot import its names.
        if not name.startswith("ironic_lite/errors/"):
            found[name] = sum(bool(LOOSE.search(line)) for line in file.read_text().splitlines())
    assert {name: count for name, count in found.items() if count} == DEFINED
