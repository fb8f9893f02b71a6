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


GOOD = "print(node.lessee, step['step'])"
BAD_COLUMNS = ("print(node.powr_state)", "node.powr_state = None")
BAD_KEYS = ("print(step['interfce'])", "step['interfce'] = 'bios'")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What ``mypy --strict`` prints about each line; one run checks all, as its start is long."""
    folder = tmp_path_factory.mktemp("snippets")
    files = {f"snippet_{n}.py": line for n, line in enumerate((GOOD, *BAD_COLUMNS, *BAD_KEYS))}
    for name, line in files.items():
        (folder / name).write_text(CODE.format(line=line))
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental"]
    command += [str(folder / name) for name in files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"checked {len(files)} source files" in done.stdout, done.stdout + done.stderr
    told = done.stdout.splitlines()
    return {
        line: "\n".join(one for one in told if f"/{name}:" in one) for name, line in files.items()
    }


def test_mypy_accepts_columns_and_keys_that_exist(found: dict[str, str]) -> None:
    assert found[GOOD] == ""


@pytest.mark.parametrize("line", BAD_COLUMNS)
def test_mypy_finds_a_misspelt_node_column(found: dict[str, str], line: str) -> None:
    assert 'error: "Node" has no attribute "powr_state"' in found[line]


@pytest.mark.parametrize("line", BAD_KEYS)
def test_mypy_finds_a_misspelt_step_key(found: dict[str, str], line: str) -> None:
    assert 'error: TypedDict "StoredStep" has no key "interfce"' in found[line]


LOOSE = re.compile(r"\b(?:dict|Mapping)\[str, (?:Any|object)\]|^(?:Json|Row)(?:View)? ?(?::.*)?=")
DEFINED = {
    "ironic_lite/core/json_types.py": 4,
    "ironic_lite/api/http/request.py": 1,  # a WSGI environment, which is no JSON
}


def test_loose_types_are_defined_in_one_module() -> None:
    found = {}
    for file in sorted((ROOT / "ironic_lite").rglob("*.py")):
        name = str(file.relative_to(ROOT))
        # The errors are below core, so they cannot import its names.
        if name != "ironic_lite/errors.py":
            found[name] = sum(bool(LOOSE.search(line)) for line in file.read_text().splitlines())
    assert {name: count for name, count in found.items() if count} == DEFINED
