"""The programs of oslo.policy find the rules and the policy file by our entry points."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from ironic_lite.api import policy

REDUNDANT = '"baremetal:node:list": "(role:reader) or (role:service)"'


def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    path = pathlib.Path(sys.executable).parent / program
    command = [str(path), "--namespace", "ironic_lite", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def configured(tmp_path: pathlib.Path) -> tuple[str, str]:
    rules, conf = tmp_path / "policy.yaml", tmp_path / "ironic-lite.conf"
    rules.write_text(f'"baremetal:node:get": "role:admin"\n{REDUNDANT}\n')
    conf.write_text(f"[oslo_policy]\npolicy_file = {rules}\n")
    return "--config-file", str(conf)


def test_the_sample_has_every_rule() -> None:
    sample = run("oslopolicy-sample-generator").stdout
    for rule in policy.TABLE:
        assert f'"{rule.name}": ' in sample
    assert "# PUT  /v1/nodes/{ident}/states/provision" in sample


def test_redundant_lines_of_a_policy_file_are_found(configured: tuple[str, str]) -> None:
    done = run("oslopolicy-list-redundant", *configured)
    assert (done.returncode, done.stdout.strip()) == (0, REDUNDANT)


def test_the_effective_policy_is_told(configured: tuple[str, str], tmp_path: pathlib.Path) -> None:
    place = tmp_path / "effective.yaml"
    done = run("oslopolicy-policy-generator", *configured, "--output-file", str(place))
    assert done.returncode == 0, done.stderr
    assert '"baremetal:node:get": "role:admin"' in place.read_text()


def test_a_policy_file_is_validated(configured: tuple[str, str], tmp_path: pathlib.Path) -> None:
    assert run("oslopolicy-validator", *configured).returncode == 0
    (tmp_path / "policy.yaml").write_text('"baremetal:none:such": "role:admin"\n')
    done = run("oslopolicy-validator", *configured)
    assert done.returncode == 1
    assert "baremetal:none:such" in done.stdout
