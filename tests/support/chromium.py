"""The Chromium of this machine, for tests and benchmarks of the window."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from playwright import sync_api

_PROGRAMS = ("chromium-headless-shell", "chromium")
MISSING = "no browser: apt-get install --no-install-recommends chromium-headless-shell"


def program() -> str | None:
    """Return the path of the browser (``CHROMIUM`` names another), or None."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _PROGRAMS)), None)


@contextlib.contextmanager
def running(path: str) -> Iterator[sync_api.Browser]:
    """Run a browser."""
    with sync_api.sync_playwright() as driver:
        browser = launch(driver.chromium, path)
        yield browser
        browser.close()


def launch(kind: sync_api.BrowserType, path: str) -> sync_api.Browser:
    """Start a browser, without the sandbox for root, for whom it does not work."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    return kind.launch(executable_path=path, args=arguments)
