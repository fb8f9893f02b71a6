"""The guide for driver authors keeps its word: its example is installed, loaded and used."""

from __future__ import annotations

import configparser
import http.server
import pathlib
import re
import textwrap
import threading
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers import base, registry
from ironic_lite.drivers.fake import behaviour
from tests.support import driver_packages, fake_task

DOCS = pathlib.Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "drivers.rst").read_text()


def _blocks(language: str) -> list[str]:
    found = re.findall(rf"^\.\. code-block:: {language}\n\n((?: +.*\n|\n)+)", GUIDE, re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


class _Socket(http.server.BaseHTTPRequestHandler):
    state = b"off"

    def do_GET(self) -> None:
        self._answer(_Socket.state)

    def do_PUT(self) -> None:
        _Socket.state = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(b"")

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def url() -> Iterator[str]:
    """Run a socket as the example imagines it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Socket)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> registry.Registry:
    """Install the example as the guide says, and load it with the guide's configuration."""
    (source,) = _blocks("python")
    setup, conf_file = _blocks("ini")
    parser = configparser.ConfigParser()
    parser.read_string(setup)
    points = "\n".join(
        f"[{group}]\n{lines}\n" for group, lines in parser["options.entry_points"].items()
    )
    driver_packages.install(monkeypatch, tmp_path, {"socket_driver": source}, points)
    (tmp_path / "guide.conf").write_text(conf_file)
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf(["--config-file", str(tmp_path / "guide.conf")], default_config_dirs=[])
    return registry.Registry.load(registry.Settings.read(conf))


def _task(found: registry.Registry, url: str) -> fake_task.FakeTask:
    node = fake_task.node(driver="socket", driver_info={"socket_url": url})
    return fake_task.FakeTask(node, driver=found.driver_for("socket", {}))


def test_the_example_loads_with_the_configuration_of_the_guide(found: registry.Registry) -> None:
    assert "socket" in found.hardware_types
    assert not any("socket" in failed for failed in found.failures)
    names = found.resolve("socket", {})
    assert (names["power"], names["management"], names["raid"]) == ("socket", "noop", "no-raid")
    assert found.properties("socket")["socket_url"] == "Base URL of the socket. Required."
    with pytest.raises(errors.InvalidParameter, match="driver_info/socket_url"):
        found.check(names, {"socket_url": 7})


def test_the_example_switches_a_machine(found: registry.Registry, url: str) -> None:
    task = _task(found, url)
    task.driver.power.validate(task)
    for state in (base.POWER_ON, base.POWER_OFF):
        task.driver.power.set_power_state(task, state)
        assert task.driver.power.get_power_state(task) == state
    task.driver.power.reboot(task)
    assert task.driver.power.get_power_state(task) == base.POWER_ON


def test_the_example_cleans_a_machine(found: registry.Registry, url: str) -> None:
    task = _task(found, url)
    task.driver.power.set_power_state(task, base.POWER_ON)
    (offered,) = task.driver.power.get_clean_steps(task)
    assert (offered["step"], offered["priority"]) == ("rest", 0)
    assert fake_task.clean(task, "power.rest", seconds=30) is base.WAIT
    assert task.timers == [30]
    assert task.recall("socket_rests") == 1
    assert task.driver.power.get_power_state(task) == base.POWER_OFF
    later = task.elsewhere()
    ended = later.driver.power.poll_step(
        later, base.StepKind.CLEAN, fake_task.step("power.rest", seconds=30)
    )
    assert ended is base.DONE
    assert later.driver.power.get_power_state(later) == base.POWER_ON


def test_the_example_fails_as_the_guide_asks(found: registry.Registry, url: str) -> None:
    task = _task(found, url)
    with pytest.raises(errors.CleanStepFailed, match="seconds"):
        fake_task.clean(task, "power.rest", seconds="long")
    with pytest.raises(errors.UnsupportedDriverExtension):
        task.driver.power.set_power_state(task, base.SOFT_POWER_OFF)
    nowhere = _task(found, "http://127.0.0.1:1")
    with pytest.raises(errors.BmcUnreachable, match="ConnectionError"):
        nowhere.driver.power.get_power_state(nowhere)
    with pytest.raises(errors.MissingParameter, match="driver_info/socket_url"):
        task.driver.power.validate(fake_task.FakeTask())


def test_the_guide_names_every_key_kind_and_group() -> None:
    for word in (*base.KINDS, registry.TYPES, registry.INTERFACES):
        assert word in GUIDE
    stage = (DOCS / "fake-hardware.rst").read_text()
    for word in behaviour.PROPERTIES:
        assert f"``{word}``" in stage
