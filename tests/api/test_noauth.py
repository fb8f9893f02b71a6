"""Without a login, only who is on this machine is served, unless the configuration says so."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from ironic_lite.api import app
from ironic_lite.db.engine import session
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client, Response, call, environment

NEAR = (None, "", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1")
FAR = ("192.0.2.7", "::ffff:192.0.2.7", "2001:db8::1", "nonsense")


def ask(api: Client, address: str | None, path: str = "/v1/nodes") -> Response:
    environ = environment("GET", path)
    if address is not None:
        environ["REMOTE_ADDR"] = address
    return call(api.app, environ)


@pytest.mark.parametrize("address", NEAR)
def test_clients_on_this_machine_are_served(api: Client, address: str | None) -> None:
    assert ask(api, address).status == 200


@pytest.mark.parametrize("path", ["/", "/v1/nodes", "/v1/none/such", "/metrics"])
@pytest.mark.parametrize("address", FAR)
def test_other_machines_are_refused_before_any_lookup(api: Client, address: str, path: str) -> None:
    answer = ask(api, address, path)
    assert answer.status == 403
    assert "allow_unauthenticated_bind" in answer.json["error"]["message"]


def test_the_configuration_may_let_them_in(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("allow_unauthenticated_bind", True, "api")
    api = Client(app.build(database, recorder, conf))
    assert ask(api, FAR[0]).status == 200
