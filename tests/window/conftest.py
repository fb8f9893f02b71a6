"""A real browser and real services for the window. Skipped without Chromium."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright import sync_api

from ironic_lite.core import options
from ironic_lite.features.window import api
from tests.support import chromium, configurations, service
from tests.window import sights as all_sights

_PATIENCE_MS = 60_000
expect = sync_api.expect
expect.set_options(timeout=_PATIENCE_MS)
_OWN_CONTEXT = "own_context"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of tests whose page has a browser context of its own."""
    config.addinivalue_line(
        "markers", f"{_OWN_CONTEXT}: the test changes the clock, or opens pages beside its page"
    )


@pytest.fixture(scope="session", autouse=True)
def all_features_are_on() -> None:
    """Skip these tests if a feature is off: the window shows all of them."""
    if off := sorted(set(options.FEATURES) - set(configurations.FEATURES)):
        pytest.skip(f"switched off: {', '.join(off)}")


@pytest.fixture(scope="package")
def live() -> Iterator[service.Service]:
    """The service without a login; one for all tests of this folder in a worker."""
    with service.short_folder() as folder:
        key = folder / "evidence.pem"
        make = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(key)]
        subprocess.run(make, check=True, capture_output=True, timeout=60)
        key.chmod(0o600)
        # Batches go on at once.
        with service.service(f"evidence_key_file = {key}\nbatch_interval = 1\n") as running:
            running.start()
            running.up()
            yield running


@pytest.fixture(scope="package")
def browser() -> Iterator[sync_api.Browser]:
    path = chromium.program()
    if path is None:
        if os.environ.get("REQUIRE_BROWSER"):
            pytest.fail(chromium.MISSING)
        pytest.skip(chromium.MISSING)
    with chromium.running(path) as found:
        yield found


@pytest.fixture(scope="package")
def sights(live: service.Service) -> all_sights.Sights:
    """Addresses of every page, with something to see on each."""
    return all_sights.make(live)


class Faults:
    """Errors of the console, unhandled exceptions, and requests to another origin."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._allowed: list[str] = []

    def allow(self, pattern: str) -> None:
        """Permit the faults that match; a browser logs each refused request as an error."""
        self._allowed.append(pattern)

    def left(self) -> list[str]:
        """Return the faults that no pattern permits."""
        return [text for text in self.seen if not any(re.search(p, text) for p in self._allowed)]


@pytest.fixture
def faults() -> Iterator[Faults]:
    """All faults of the pages of a test, which fails if one is left at its end."""
    found = Faults()
    yield found
    assert found.left() == []


OpenPage = Callable[..., sync_api.Page]


def watched(
    browser: sync_api.Browser, origin: str, faults: Faults, **options: Any
) -> sync_api.Page:
    """Open a page of a service whose faults are noted; options are those of a browser context."""
    context = browser.new_context(**options)
    context.set_default_timeout(_PATIENCE_MS)
    return watch(context.new_page(), origin, faults)


def watch(shown: sync_api.Page, origin: str, faults: Faults) -> sync_api.Page:
    """Note the faults of a page."""

    def hear(said: sync_api.ConsoleMessage) -> None:
        if said.type == "error":
            faults.seen.append(f"{said.text} {said.location.get('url', '')}")

    def check(asked: sync_api.Request) -> None:
        if not asked.url.startswith((f"{origin}/", "about:")):
            faults.seen.append(asked.url)

    shown.on("pageerror", lambda error: faults.seen.append(str(error)))
    shown.on("console", hear)
    shown.on("request", check)
    return shown


@pytest.fixture
def open_page(browser: sync_api.Browser, faults: Faults) -> Iterator[OpenPage]:
    """A function that opens a page of a service; options are those of a browser context."""
    pages: list[sync_api.Page] = []

    def start(running: service.Service, **options: Any) -> sync_api.Page:
        pages.append(watched(browser, running.url, faults, **options))
        return pages[-1]

    yield start
    for page in pages:
        page.context.close()


@pytest.fixture(scope="package")
def opener(browser: sync_api.Browser, live: service.Service) -> Iterator[sync_api.Page]:
    """A page that opens the pages of tests, which so share a process of the browser.

    A process of its own would cost each page more than all that the window does at its start. The
    opener shows a file of the window that runs no script.
    """
    context = browser.new_context()
    context.set_default_timeout(_PATIENCE_MS)
    found = context.new_page()
    found.goto(f"{live.url}/ui/a/{api.load().hash}/icon.svg")
    yield found
    context.close()


@pytest.fixture
def page(
    request: pytest.FixtureRequest,
    open_page: OpenPage,
    opener: sync_api.Page,
    live: service.Service,
    faults: Faults,
) -> Iterator[sync_api.Page]:
    """A page of the service without a login, with an empty storage.

    Tests share its browser context, whose clock nobody changes, unless they are marked with
    ``own_context``.
    """
    if request.node.get_closest_marker(_OWN_CONTEXT):
        yield open_page(live)
        return
    opener.evaluate("localStorage.clear()")
    with opener.expect_popup() as opened:
        opener.evaluate("void open('about:blank')")
    yield watch(opened.value, live.url, faults)
    for one in opener.context.pages:
        if one is not opener:
            one.close()
    assert opener.evaluate("Date.toString()").endswith("{ [native code] }"), _OWN_CONTEXT
