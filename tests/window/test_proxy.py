"""The window behind a proxy that adds a prefix, and over an upgrade."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import requests
from playwright import sync_api

from ironic_lite.features.window import api
from tests.support import service
from tests.support.ports import free_port
from tests.window.acts import row
from tests.window.conftest import Faults, expect, watched

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin")
pytestmark = pytest.mark.skipif(
    NGINX is None, reason="NOT TESTED: nginx is not installed; apt-get install nginx-light"
)
CONFIGURATION = """daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port};
    location /metal/ {{ proxy_pass {url}/; proxy_http_version 1.1; proxy_buffering off; }}
  }}
}}
"""


@pytest.fixture
def proxy(live: service.Service, tmp_path: pathlib.Path) -> Iterator[str]:
    """The address of the service behind nginx."""
    port, settings = free_port(), tmp_path / "nginx.conf"
    settings.write_text(CONFIGURATION.format(folder=tmp_path, port=port, url=live.url))
    process = subprocess.Popen([str(NGINX), "-c", str(settings), "-e", f"{tmp_path}/error.log"])
    address = f"http://127.0.0.1:{port}/metal"
    service.until(lambda: requests.get(f"{address}/v1", timeout=60).ok, "nginx")
    yield address
    process.terminate()
    process.wait(60)


def test_prefix_of_a_proxy_changes_nothing(
    browser: sync_api.Browser, live: service.Service, proxy: str, faults: Faults
) -> None:
    live.create("proxy-1")
    page = watched(browser, proxy, faults)
    page.goto(f"{proxy}/ui#/v1/nodes?~q=proxy-")
    row(page, "proxy-1").wait_for()
    expect(page.locator(".connection")).to_contain_text("live")
    live.provision("proxy-1", "manage", "manageable")
    row(page, "proxy-1").get_by_text("manageable", exact=True).wait_for()
    for path, answer in api.load().answers.items():
        file = answer.document if isinstance(answer, api.IndexPage) else answer
        assert requests.get(proxy + path, timeout=60).content == file.raw, path
    page.context.close()


def test_upgrade_below_an_open_page_offers_a_reload(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("upgrade-1")
    page.goto(f"{live.url}/ui/#/v1/nodes?~q=upgrade-")
    row(page, "upgrade-1").wait_for()
    offer = page.get_by_role("button", name="Reload: new version")
    live.again()
    with page.expect_response(lambda one: one.request.method == "HEAD"):
        pass
    expect(page.locator(".connection")).to_contain_text("live")
    expect(offer).to_have_count(0)

    def upgraded(route: sync_api.Route) -> None:
        if route.request.method == "HEAD":
            route.fulfill(status=200, headers={"ETag": 'W/"000000000000"'})
        else:
            route.continue_()

    page.route(f"{live.url}/ui/", upgraded)
    live.again()
    offer.wait_for()
    page.unroute(f"{live.url}/ui/")
    offer.click()
    row(page, "upgrade-1").wait_for()
    expect(offer).to_have_count(0)
    faults.allow("net::ERR_")
