"""A real browser and real services for the window. Skipped without Chromium."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright import sync_api

from tests.support import service

_PROGRAMS = ("chromium-headless-shell", "chromium")
_PATIENCE_MS = 60_000
expect = sync_api.expect
expect.set_options(timeout=_PATIENCE_MS)


@pytest.fixture(scope="module")
def live() -> Iterator[service.Service]:
    """The service without a login; one for all tests of a module."""
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


@pytest.fixture
def open_page(browser: sync_api.Browser, faults: Faults) -> Iterator[OpenPage]:
    """A function that opens a page of a service; options are those of a browser context."""
    contexts: list[sync_api.BrowserContext] = []

    def hear(said: sync_api.ConsoleMessage) -> None:
        if said.type == "error":
            faults.seen.append(f"{said.text} {said.location.get('url', '')}")

    def start(running: service.Service, **options: Any) -> sync_api.Page:
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(_PATIENCE_MS)
        shown = context.new_page()

        def check(asked: sync_api.Request) -> None:
            if not asked.url.startswith(f"{running.url}/"):
                faults.seen.append(asked.url)

        shown.on("pageerror", lambda error: faults.seen.append(str(error)))
        shown.on("console", hear)
        shown.on("request", check)
        return shown

    yield start
    for context in contexts:
        context.close()


@pytest.fixture
def page(open_page: OpenPage, live: service.Service) -> sync_api.Page:
    """A page of the service without a login."""
    return open_page(live)
