"""Calls over a broker that speaks TLS alone: one of our own, on free ports."""

from __future__ import annotations

import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping

import pytest

from tests.emulators import redfish
from tests.support import private_servers, service
from tests.support.ports import HOST, free_port

SETTINGS = """\
loopback_users = none
listeners.tcp = none
listeners.ssl.1 = {host}:{port}
ssl_options.certfile = {folder}/bmc.pem
ssl_options.keyfile = {folder}/bmc.key
ssl_options.verify = verify_none
"""


class Broker(private_servers.RabbitMQ):
    """RabbitMQ with a certificate that is its own authority."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder, names=free_port())
        self.authority, _ = redfish.certificate(folder)
        for name in ("bmc.pem", "bmc.key"):
            path = self.folder / name
            shutil.copy(folder / name, path)
            path.chmod(0o600)
            if self._user is not None:
                shutil.chown(path, self._user)
        told = SETTINGS.format(host=HOST, port=self.port, folder=self.folder)
        self.settings.write_text(told, encoding="utf-8")

    def environment(self) -> Mapping[str, str]:
        """Return the environment without the port that would have no TLS."""
        ours = super().environment()
        plain = ("RABBITMQ_NODE_PORT", "RABBITMQ_NODE_IP_ADDRESS")
        return {name: value for name, value in ours.items() if name not in plain}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker that speaks TLS alone."""
    with tempfile.TemporaryDirectory(prefix="tls-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        try:
            found = Broker(folder)
        except private_servers.Lacking as why:
            pytest.skip(f"NOT TESTED: {why}")
        try:
            found.start()
            yield found
        finally:
            found.close()


def settings(broker: Broker, authority: pathlib.Path, host: str = HOST) -> str:
    """Return what makes our processes speak TLS with the broker."""
    return (
        f"[DEFAULT]\ntransport_url = rabbit://guest:guest@{host}:{broker.port}/\n"
        f"[oslo_messaging_rabbit]\nssl = true\nssl_ca_file = {authority}\n"
    )


@pytest.mark.xdist_group("broker_tls")
def test_a_machine_is_led_over_a_broker_with_tls(broker: Broker) -> None:
    with service.service(settings(broker, broker.authority)) as found:
        found.start()
        found.up()
        found.create("metal")
        assert found.provision("metal", "manage", "manageable")["last_error"] is None
        connected = broker.said("list_connections", "ssl", "ssl_protocol").splitlines()
        assert len(connected) > 1
        assert {line.split()[0] for line in connected[1:]} == {"true"}, connected


@pytest.mark.xdist_group("broker_tls")
@pytest.mark.parametrize("wrong", ["authority", "name"])
def test_a_broker_that_is_not_who_it_should_be_gets_no_word(
    broker: Broker, tmp_path: pathlib.Path, wrong: str
) -> None:
    stranger, _ = redfish.certificate(tmp_path)
    told = (
        settings(broker, stranger)
        if wrong == "authority"
        else settings(broker, broker.authority, "localhost")
    )
    with service.service(told) as found:
        program = found.start()
        service.until(lambda: "certificate verify failed" in program.said(), "a refusal")
        assert broker.said("list_connections", "ssl").split()[1:] == []
        ready = service.until(lambda: found.ask("GET", "/readyz").status_code, "the API")
        assert ready == 503
