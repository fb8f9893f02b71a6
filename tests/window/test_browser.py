"""The window in a real browser, against real processes. Skipped without Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright import sync_api

from tests.support import service

# One worker starts one service and one browser.
pytestmark = pytest.mark.xdist_group("window")

_PROGRAMS = ("chromium-headless-shell", "chromium")
_PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def live() -> Iterator[service.Service]:
    with service.service() as running:
        running.start()
        running.up()
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if found is None:
        text = "no browser: apt-get install --no-install-recommends chromium-headless-shell"
        if os.environ.get("REQUIRE_BROWSER"):
            pytest.fail(text)
        pytest.skip(text)
    # The sandbox of Chromium does not work for root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as driver:
        program = driver.chromium.launch(executable_path=found, args=arguments)
        yield program
        program.close()


@pytest.fixture
def page(browser: sync_api.Browser, live: service.Service) -> Iterator[sync_api.Page]:
    """A page whose test fails on any error of the console or request to another origin."""
    faults: list[str] = []
    shown = browser.new_page()
    shown.set_default_timeout(_PATIENCE_MS)
    shown.on("pageerror", lambda error: faults.append(str(error)))

    def hear(said: sync_api.ConsoleMessage) -> None:
        if said.type == "error":
            faults.append(said.text)

    def check(asked: sync_api.Request) -> None:
        if not asked.url.startswith(f"{live.url}/"):
            faults.append(asked.url)

    shown.on("console", hear)
    shown.on("request", check)
    yield shown
    shown.close()
    assert faults == []


def test_window_shows_a_node_and_its_new_state_without_a_reload(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("rack3-21")
    page.goto(f"{live.url}/ui")
    assert page.url == f"{live.url}/ui/"
    row = page.get_by_role("row", name="rack3-21")
    row.wait_for()
    live.provision("rack3-21", "manage", "manageable")
    row.get_by_text("manageable", exact=True).wait_for()
