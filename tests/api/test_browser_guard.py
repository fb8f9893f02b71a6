"""Pages of other sites are kept out, with a name that is rebound and without one."""

from __future__ import annotations

import pathlib
import socket
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.db.engine import session
from tests.support import whole_api
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client, Response, call, environment

MEDIA = "/vmedia?device_type=cdrom&image_url=https://evil.example/x.iso"


@pytest.fixture
def built(database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts) -> Any:
    """A function that builds the API with other values of options in [api]."""

    def build(**options: Any) -> Client:
        for name, value in options.items():
            conf.set_override(name, value, "api")
        return Client(whole_api.build(database, recorder, conf))

    return build


def ask(api: Client, method: str = "GET", path: str = "/v1/nodes", **headers: str) -> Response:
    environ = environment(method, path)
    named = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    return call(api.app, {**environ, **named})


# -- Host ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:6385", "192.0.2.5", "[::1]:6385", "[2001:db8::1]"),
        *("localhost", "LocalHost:6385", "localhost.", "ui.localhost", ""),
        socket.gethostname(),
    ],
)
def test_a_host_that_cannot_be_rebound_is_served(api: Client, host: str) -> None:
    assert ask(api, host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:6385", "localhost.evil.example", "127.0.0.1.evil.example"),
        *("notlocalhost", "localhost evil.example", "x@localhost", "."),
        *("evil.example/localhost", "[evil.example]", "[::1", "\xe9", "x" * 9000, "localhost:port"),
        *("2130706433", "0x7f000001", "localhost\0"),
    ],
)
@pytest.mark.parametrize("path", ["/", "/v1/nodes", "/v1/lookup?addresses=x", "/metrics"])
def test_a_foreign_host_is_refused(api: Client, host: str, path: str) -> None:
    answer = ask(api, path=path, host=host)
    assert answer.status == 403
    assert "[api]allowed_hosts" in answer.text
    assert len(answer.body) < 600


def test_probes_of_load_balancers_may_name_any_host(api: Client) -> None:
    assert ask(api, path="/livez", host="metal.example.org").status == 200


@pytest.mark.parametrize(("protocol", "status"), [("HTTP/1.0", 200), ("HTTP/1.1", 400)])
def test_a_host_is_needed_from_version_1_1_on(api: Client, protocol: str, status: int) -> None:
    environ = environment("GET", "/v1/nodes") | {"SERVER_PROTOCOL": protocol}
    del environ["HTTP_HOST"]
    assert call(api.app, environ).status == status


def test_two_hosts_are_refused(api: Client) -> None:
    environ = environment("GET", "/livez") | {"HTTP_HOST": "localhost,evil.example"}
    assert call(api.app, environ).status == 400


def test_names_are_allowed_by_options(built: Any, conf: cfg.ConfigOpts) -> None:
    conf.set_override("endpoint_override", "http://prov.example.net:80", "service_catalog")
    conf.set_override("external_callback_url", "https://media.example.net", "deploy")
    api = built(
        allowed_hosts=["metal.example.org", ".Rack.example.org"],
        public_endpoint="https://front.example.net/metal",
    )
    served = (
        "metal.example.org:81",
        "METAL.example.org",
        "rack.example.org",
        "a.b.rack.example.org",
    )
    told = ("front.example.net", "prov.example.net", "media.example.net")
    for host in (*served, *told, "localhost"):
        assert ask(api, host=host).status == 200, host
    for host in ("x.metal.example.org", "arack.example.org", "example.org", "example.net"):
        assert ask(api, host=host).status == 403, host


def test_a_star_allows_all_names(built: Any) -> None:
    assert ask(built(allowed_hosts=["*"]), host="evil.example").status == 200


def test_an_open_bind_checks_names_only_if_some_are_set(built: Any) -> None:
    assert ask(built(allow_unauthenticated_bind=True), host="ironic").status == 200
    assert ask(built(allowed_hosts=["ironic"]), host="ironic").status == 200
    assert ask(built(allowed_hosts=["ironic"]), host="evil.example").status == 403


# -- Origin ----------------------------------------------------------------------------------


def media(api: Client, node: str, **headers: str) -> int:
    return ask(api, "POST", f"/v1/nodes/{node}{MEDIA}", **headers).status


@pytest.fixture
def node(add_node: AddNode) -> str:
    return str(add_node(driver="redfish")["uuid"])


def test_a_post_without_a_body_from_another_site_changes_nothing(
    api: Client, recorder: Recorder, node: str
) -> None:
    assert media(api, node, origin="https://evil.example") == 403
    assert media(api, node, origin="null") == 403
    assert media(api, node, sec_fetch_site="cross-site") == 403
    assert recorder.contexts == []
    assert media(api, node) == 204
    assert len(recorder.contexts) == 1


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "same-origin, none", "SAME"])
def test_a_site_that_is_not_ours_is_refused(api: Client, node: str, site: str) -> None:
    assert media(api, node, sec_fetch_site=site) == 403
    # The browser's own verdict counts, whatever the origin.
    assert media(api, node, sec_fetch_site=site, origin="http://localhost:6385") == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_our_own_pages_are_served(api: Client, node: str, site: str) -> None:
    assert media(api, node, sec_fetch_site=site) == 204


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        ("http://localhost:6385", "localhost:6385", 204),
        ("http://LOCALHOST:6385", "localhost:6385", 204),
        ("http://localhost", "localhost:80", 204),
        ("https://localhost", "localhost:443", 204),  # TLS ends at a proxy
        ("https://localhost", "localhost", 204),
        ("http://[::1]:6385", "[::1]:6385", 204),
        ("http://localhost:6386", "localhost:6385", 403),
        ("http://localhost", "localhost:6385", 403),
        ("http://127.0.0.1:6385", "localhost:6385", 403),
        ("http://localhost:6385.evil.example", "localhost:6385", 403),
        ("http://localhost:x", "localhost:6385", 403),
        ("http://evil.example/localhost:6385", "localhost:6385", 403),
        ("file://", "localhost", 403),
        ("", "localhost", 403),
        ("http://" + "x" * 9000, "localhost", 403),
    ],
)
def test_an_origin_is_held_against_the_host(
    api: Client, node: str, origin: str, host: str, status: int
) -> None:
    assert media(api, node, origin=origin, host=host) == status


def test_an_origin_may_be_the_public_endpoint(built: Any, node: str) -> None:
    api = built(public_endpoint="https://metal.example.org/base")
    assert media(api, node, origin="https://metal.example.org", host="127.0.0.1:6385") == 204
    assert media(api, node, origin="https://metal.example.org:444", host="127.0.0.1:6385") == 403


def test_the_host_a_proxy_tells_counts_only_where_proxies_are_trusted(
    built: Any, node: str
) -> None:
    told = {"origin": "https://metal.example.org", "x_forwarded_host": "metal.example.org"}
    assert media(built(), node, **told) == 403
    assert media(built(enable_proxy_headers_parsing=True), node, **told) == 204


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
def test_every_method_that_may_change_something_is_held_to_its_site(
    api: Client, node: str, method: str
) -> None:
    answer = ask(api, method, f"/v1/nodes/{node}/maintenance", sec_fetch_site="cross-site")
    assert answer.status == 403


def test_reading_is_free_except_for_methods_of_vendors(api: Client, node: str) -> None:
    assert ask(api, origin="https://evil.example", sec_fetch_site="cross-site").status == 200
    path = f"/v1/nodes/{node}/vendor_passthru"
    for method, place in (("GET", "?method=x"), ("GET", "/methods"), ("HEAD", "")):
        assert ask(api, method, path + place, origin="https://evil.example").status == 403


def test_a_foreign_site_is_told_before_a_login_is_asked_for(
    built: Any, conf: cfg.ConfigOpts, tmp_path: pathlib.Path
) -> None:
    users = tmp_path / "users"
    users.write_text("")
    conf.set_override("http_basic_auth_user_file", str(users))
    api = built(auth_strategy="http_basic")
    assert ask(api, "POST", origin="https://evil.example").status == 403
    assert ask(api, "POST").status == 401
    # A browser keeps a login for the name that it was given for: a rebound one has none.
    assert ask(api, host="evil.example").status == 401


def test_a_missing_login_is_told_before_a_bad_path(
    built: Any, conf: cfg.ConfigOpts, tmp_path: pathlib.Path
) -> None:
    users = tmp_path / "users"
    users.write_text("")
    conf.set_override("http_basic_auth_user_file", str(users))
    api = built(auth_strategy="http_basic")
    for path in ("/v1/\0", "/v1/\xff", "/v1/none/such"):
        assert ask(api, path=path).status == 401
