"""Files of authorities: names of the API are looked for in one folder, and never opened blindly."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import threading
from collections.abc import Iterator

import pytest

from ironic_lite import errors
from ironic_lite.core import bounded_http, config
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import power
from ironic_lite.drivers.redfish.bmc import ca_files, info
from tests.emulators import liar as liars
from tests.support import bmc_tasks

POWER = power.RedfishPower()


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """``[redfish]ca_folder``, with a secret beside it."""
    made = tmp_path / "ca"
    made.mkdir()
    (tmp_path / "secret.pem").write_text("secret")
    config.CONF.set_override("ca_folder", str(made), group="redfish")
    yield made
    config.CONF.clear_override("ca_folder", group="redfish")


def refusal(name: str) -> str:
    with pytest.raises(errors.InvalidParameter) as caught:
        POWER.get_power_state(bmc_tasks.task_at("https://127.0.0.1:1", redfish_verify_ca=name))
    return caught.value.message


def test_every_refused_path_has_the_same_text_whether_it_exists_or_not(
    folder: pathlib.Path,
) -> None:
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as served:
        served.bind(str(folder / "socket"))
    (folder / "out").symlink_to(folder.parent / "secret.pem")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "round").symlink_to(folder / "round")
    (folder / "empty.pem").write_text("no certificate")
    (folder / "none").mkdir()
    names = [
        *("pipe", "socket", "out", "zero", "round", "empty.pem", "none", "missing"),
        *(
            "/dev/zero",
            "/dev/stdin",
            "/proc/self/environ",
            "/etc/shadow",
            "/etc/passwd",
            "/nowhere",
        ),
        *("../secret.pem", "../../../etc/passwd", "a" * 5000, f"{folder}-not", "..", "/"),
        *("a\nb", "empty.pem/x", "é\u2028"),
    ]
    done: list[str] = []
    worker = threading.Thread(target=lambda: done.extend(map(refusal, names)), daemon=True)
    worker.start()
    worker.join(60)
    assert not worker.is_alive(), f"it hangs at {names[len(done)]}"
    assert len(done) == len(names)
    assert set(done) == {f"driver_info/redfish_verify_ca: {ca_files.REFUSAL}"}


def test_a_file_that_becomes_a_pipe_after_the_look_does_not_hold_the_thread(
    folder: pathlib.Path,
) -> None:
    file = folder / "ca.pem"
    file.touch()
    place = ca_files.located("ca.pem", str(folder))
    seen = ca_files.state(place)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(errors.InvalidParameter):
        ca_files.load(bounded_http.tls_context(), seen)
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(errors.InvalidParameter):
        ca_files.load(bounded_http.tls_context(), seen)


@pytest.mark.parametrize("name", ["rack/ca.pem", "rack", "{folder}/rack", "{folder}/rack/ca.pem"])
def test_certificates_of_a_file_and_of_a_folder_are_trusted(
    folder: pathlib.Path, certificate: tuple[pathlib.Path, pathlib.Path], name: str
) -> None:
    path, key = certificate
    (folder / "rack").mkdir()
    pem = f"Our authority, größer:\n{path.read_text()}\n{key.read_text()}"
    (folder / "rack" / "ca.pem").write_text(pem, encoding="utf-8")
    (folder / "rack" / "0a1b2c3d.0").symlink_to("ca.pem")
    (folder / "rack" / "README").write_text("Nothing.")
    os.mkfifo(folder / "rack" / "pipe")
    (folder / "rack" / "zero").symlink_to("/dev/zero")
    with liars.Liar(tls=(str(path), str(key))) as bmc:
        task = bmc_tasks.task_at(bmc.address, redfish_verify_ca=name.format(folder=folder))
        assert POWER.get_power_state(task) == base.POWER_OFF


def test_an_exchanged_file_is_read_anew_at_the_next_login(
    folder: pathlib.Path, certificate: tuple[pathlib.Path, pathlib.Path]
) -> None:
    path, key = certificate
    (folder / "ca.pem").write_text("nothing yet")
    with liars.Liar(tls=(str(path), str(key))) as bmc:
        task = bmc_tasks.task_at(bmc.address, redfish_verify_ca="ca.pem")
        with pytest.raises(errors.InvalidParameter):
            POWER.get_power_state(task)
        shutil.copyfile(path, folder / "ca.pem")
        assert POWER.get_power_state(task) == base.POWER_OFF


def test_a_node_that_names_no_file_needs_no_folder() -> None:
    found = info.parse({"redfish_address": "bmc", "redfish_verify_ca": "yes"}, ca_folder="/nowhere")
    assert found.verify is True
