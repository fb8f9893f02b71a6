"""The set-up of DHCP, TFTP and web server that follows from the configuration."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shlex
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import requests

from ironic_lite.drivers.boot import servers
from tests.support import prefork, service
from tests.support.ports import HOST, free_port
from tests.support.service import until

_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
NETWORK = servers.Network("eth1", "192.0.2.100", "192.0.2.200", router="192.0.2.1")
IPXE = servers.Plan(
    state=pathlib.Path("/var/lib/ironic-lite"),
    http_url="http://192.0.2.1:8080",
    http_root=pathlib.Path("/httpboot"),
    web_server=True,
    tftp_root=pathlib.Path("/tftpboot"),
    loaders={"bios": "undionly.kpxe", "uefi": "snponly.efi"},
    plain=[],
    script="http://192.0.2.1:8080/boot.ipxe",
    told=False,
    hosts=pathlib.Path("/etc/dnsmasq.d/hosts"),
    options=pathlib.Path("/etc/dnsmasq.d/opts"),
)
PXE = dataclasses.replace(
    IPXE, loaders={"bios": "pxelinux.0", "uefi": "bootx64.efi"}, script=None, web_server=False
)
PLANS = {
    "ipxe": IPXE,
    "ipxe-by-node": dataclasses.replace(IPXE, told=True),
    "both-by-node": dataclasses.replace(IPXE, told=True, plain=["pxelinux.0", "bootx64.efi"]),
    "pxe": PXE,
    "pxe-by-node": dataclasses.replace(PXE, told=True),
}


@pytest.fixture(params=list(PLANS))
def plan(request: pytest.FixtureRequest) -> servers.Plan:
    return PLANS[request.param]


def test_loaders_are_led_to_ipxe_and_ipxe_to_its_script() -> None:
    lines = servers.dnsmasq_conf(IPXE, NETWORK).splitlines()
    assert "dhcp-boot=tag:!ipxe,tag:bios,undionly.kpxe" in lines
    assert "dhcp-boot=tag:!ipxe,tag:uefi,snponly.efi" in lines
    assert "dhcp-boot=tag:ipxe,http://192.0.2.1:8080/boot.ipxe" in lines
    assert "dhcp-range=192.0.2.100,192.0.2.200,10m" in lines


def test_told_of_each_node_dnsmasq_answers_no_others() -> None:
    lines = servers.dnsmasq_conf(PLANS["ipxe-by-node"], NETWORK).splitlines()
    assert "dhcp-ignore=tag:!ironic" in lines
    assert "dhcp-hostsdir=/etc/dnsmasq.d/hosts" in lines
    assert not [line for line in lines if line.startswith("dhcp-boot")]


def test_a_web_server_is_set_up_only_where_the_conductor_does_not_serve() -> None:
    assert set(servers.files(IPXE, NETWORK)) == {"dnsmasq.conf", "nginx.conf", "setup.sh"}
    assert set(servers.files(PXE, NETWORK)) == {"dnsmasq.conf", "setup.sh"}
    assert "listen 192.0.2.1:8080;" in servers.nginx_conf(IPXE)
    assert 'root "/httpboot";' in servers.nginx_conf(IPXE)
    assert "access_log off;" in servers.nginx_conf(IPXE)
    below = servers.nginx_conf(dataclasses.replace(IPXE, http_url="http://files.example/boot"))
    assert "listen files.example:80;" in below
    assert 'location /boot/ {\n        alias "/httpboot/";' in below


def test_dnsmasq_itself_takes_the_configuration(plan: servers.Plan, tmp_path: pathlib.Path) -> None:
    program = _program("dnsmasq", "dnsmasq-base")
    for name in ("hosts", "options", "tftp"):
        (tmp_path / name).mkdir()
    here = dataclasses.replace(
        plan, hosts=tmp_path / "hosts", options=tmp_path / "options", tftp_root=tmp_path / "tftp"
    )
    file = tmp_path / "dnsmasq.conf"
    for network in (NETWORK, dataclasses.replace(NETWORK, router=None)):
        file.write_text(servers.dnsmasq_conf(here, network))
        command = [program, "--test", f"--conf-file={file}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("prefix", ["", "/boot"])
def test_nginx_itself_serves_what_is_published_and_no_links(
    prefix: str, tmp_path: pathlib.Path
) -> None:
    program = _program("nginx", "nginx-light")
    (tmp_path / "real").mkdir()
    (tmp_path / "a link").symlink_to(tmp_path / "real")
    root = tmp_path / "a link" / "http"
    (root / "pxelinux.cfg").mkdir(parents=True)
    (root / "pxelinux.cfg" / "52-54").write_text("a script")
    (root / ".new-1").write_text("half a file")
    (tmp_path / "secret").write_text("a secret")
    (root / "out").symlink_to(tmp_path / "secret")
    url = f"http://{HOST}:{free_port()}{prefix}"
    with _nginx(program, dataclasses.replace(IPXE, http_root=root, http_url=url), tmp_path):
        found = requests.get(f"{url}/pxelinux.cfg/52-54", headers={"Range": "bytes=2-"}, timeout=20)
        assert (found.status_code, found.text) == (206, "script")
        for name in ("out", ".new-1", "", "pxelinux.cfg/"):
            assert requests.get(f"{url}/{name}", timeout=20).status_code == 403, name
        assert requests.get(f"{url}/none", timeout=20).status_code == 404


@contextlib.contextmanager
def _nginx(program: str, plan: servers.Plan, folder: pathlib.Path) -> Iterator[None]:
    """Run nginx with a plan's server and nothing of this machine's own."""
    (folder / "server.conf").write_text(servers.nginx_conf(plan))
    main = folder / "nginx.conf"
    temporary = "".join(f"{kind}_temp_path {folder}/temp;\n" for kind in _TEMPORARY)
    user = "user root;\n" if os.geteuid() == 0 else ""  # who may read the folders of pytest
    main.write_text(
        f"daemon off;\n{user}pid {folder}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\n{temporary}include {folder}/server.conf;\n}}\n"
    )
    command = [program, "-e", "stderr", "-p", str(folder), "-c", str(main)]
    done = subprocess.run([*command, "-t"], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    with (folder / "nginx.log").open("wb") as log, subprocess.Popen(command, stderr=log) as running:
        try:
            until(lambda: requests.get(plan.http_url, timeout=20).status_code, "nginx")
            yield
        finally:
            running.terminate()


def _program(name: str, package: str) -> str:
    found = shutil.which(name) or shutil.which(f"/usr/sbin/{name}")
    if found is None:
        pytest.skip(f"NOT TESTED: {name} is not installed; apt-get install {package}")
    return found


def test_the_script_is_one_for_sh(plan: servers.Plan) -> None:
    script = servers.setup(plan)
    done = subprocess.run(["sh", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for name in (*plan.loaders.values(), *plan.plain):
        assert f"/tftpboot/{name}\n" in script
    assert ("/tftpboot/ldlinux.c32\n" in script) == ("/tftpboot/pxelinux.0\n" in script)


def test_the_script_takes_folders_with_any_name() -> None:
    root = pathlib.Path("/srv/the machines'; x")
    script = servers.setup(dataclasses.replace(IPXE, http_root=root, tftp_root=root, told=True))
    split = subprocess.run(
        ["sh", "-c", f"set -n\n{script}"], capture_output=True, text=True, check=False
    )
    assert (split.returncode, split.stderr) == (0, "")
    made = next(line for line in script.splitlines() if line.startswith("install -d"))
    assert shlex.split(made)[-1] == str(root)


def test_the_command_writes_what_the_configuration_says(tmp_path: pathlib.Path) -> None:
    conf = tmp_path / "test.conf"
    conf.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}/state\n"
        f"[deploy]\nhttp_url = http://192.0.2.7:8080\nhttp_root = {tmp_path}/http\n"
        "[dhcp]\ndhcp_provider = dnsmasq\n"
    )
    ask = ["--interface", "eth1", "--range", "192.0.2.100,192.0.2.200"]
    done = _netboot(conf, "write", "--folder", str(tmp_path / "out"), *ask)
    assert (done.returncode, done.stderr) == (0, "")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["dnsmasq.conf", "nginx.conf", "setup.sh"]
    done = _netboot(conf, "show", *ask)
    assert "dhcp-ignore=tag:!ironic\n" in done.stdout
    # Both interfaces are enabled, and each node is led to the loader of its own.
    assert " ipxe pxelinux grub-efi-amd64-signed syslinux-common\n" in done.stdout
    assert "listen 192.0.2.7:8080;" in done.stdout
    wrong = ["--interface", "eth1", "--range", "192.0.2.9,192.0.2.3"]
    done = _netboot(conf, "show", *wrong)
    assert done.returncode == 2
    assert "is not of the form first,last" in done.stderr


def _show(tmp_path: pathlib.Path, text: str) -> subprocess.CompletedProcess[str]:
    """Have the command print what it makes of a configuration."""
    conf = tmp_path / "test.conf"
    conf.write_text(f"[DEFAULT]\nstate_path = {tmp_path}/state\n[deploy]\n{text}\n")
    ask = ["show", "--interface", "eth1", "--range", "192.0.2.100,192.0.2.200"]
    return _netboot(conf, *ask)


def _netboot(conf: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = str(service.SCRIPTS / "ironic-lite-netboot")
    command = [program, "--config-file", str(conf), *words]
    return prefork.run(command, env=service.environment(), timeout=60)


def test_a_folder_that_another_web_server_cannot_enter_is_refused(tmp_path: pathlib.Path) -> None:
    done = _show(tmp_path, "http_url = http://x:80")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"[deploy]http_root: {tmp_path}/state/http is in {tmp_path}/state" in done.stderr


def test_a_web_server_with_a_certificate_is_somebody_elses(tmp_path: pathlib.Path) -> None:
    """Without one, nginx would speak plain http where machines are told https."""
    done = _show(tmp_path, f"http_url = https://x\nhttp_root = {tmp_path}/http")
    assert (done.returncode, "dnsmasq.conf" in done.stdout) == (0, True)
    assert "nginx" not in done.stdout
