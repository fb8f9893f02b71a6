"""Optional modules that a process leaves out."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from ironic_lite.core import modules

_NAME = "colorsys"  # of the standard library; nothing imports it


def test_a_module_left_out_cannot_be_imported_until_the_end_of_the_block() -> None:
    sys.modules.pop(_NAME, None)
    with modules.left_out(_NAME), pytest.raises(ImportError):
        importlib.import_module(_NAME)
    assert importlib.util.find_spec(_NAME) is not None
    assert _NAME not in sys.modules


def test_a_loaded_module_stays() -> None:
    with modules.left_out("json"):
        assert importlib.import_module("json") is sys.modules["json"]
    assert sys.modules["json"] is not None


def test_the_api_loads_no_template_engine_it_can_do_without() -> None:
    program = """
import sys
from ironic_lite.cmd import api
from ironic_lite.core import config
from ironic_lite.api.traffic import listen_socket

conf = config.load("ironic-lite-api", ["--config-file", "/dev/null"])
conf.set_override("host_ip", "127.0.0.1", "api")
conf.set_override("port", 0, "api")
keeper = api.reserve(conf)
api.workers(conf, keeper, api.flags(conf))
assert "pecan" in sys.modules
print(*sorted({"jinja2", "pygments", "sushy", "cryptography", "pycdlib"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
