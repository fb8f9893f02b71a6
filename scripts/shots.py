"""Take pictures of the window's pages, light and dark, wide and narrow, for people to look at.

    python scripts/shots.py http://127.0.0.1:6385 FOLDER [DOCS]

The service has something to show on each page after ``make demo ARGS=--keep``. The folder DOCS gets
those that the documentation shows.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from collections.abc import Iterator
from typing import Any, cast

from playwright import sync_api

PAGES = {
    "fleet": "/v1/nodes",
    "map": "/v1/nodes?~map=name",
    "node": "/v1/nodes/rack2-01",
    "node-settings": "/v1/nodes/demo-1?~tab=settings",
    "console": "/v1/nodes/rack1-01/states",
    "hardware": "/v1/nodes/rack1-01/inventory",
    "cleaning": "/v1/nodes/rack2-04",
    "runs": "/v1/runs",
    "batches": "/v1/batches",
    "activity": "/v1/events?~time=7d",
    "evidence": "/v1/erasures",
    "conductors": "/v1/conductors",
    "runbooks": "/v1/runbooks",
    "webhooks": "/v1/webhooks",
    "steps": "/v1/stats/steps",
    "doctor": "/v1/doctor",
    "settings": "/v1/whoami",
    "words": "/v1/whoami?~tab=words",
}
# What is pressed after an address is open: a button or a link by its role and name.
PRESSED = {
    "batch": ("/v1/batches", "link", "erase rack 3"),
    "record": ("/v1/erasures", "link", "show the record of rack1-01"),
    "plan": ("/v1/nodes/rack2-01", "button", "Retry…"),
    "new-batch": ("/v1/nodes?provision_state=manageable", "button", "Batch…"),
    "enroll": ("/v1/nodes", "button", "Enroll…"),
    "palette": ("/v1/nodes", "button", "Find…"),
    "help": ("/v1/nodes", "button", "Help and shortcuts"),
    "enroll-many": ("/v1/nodes", "button", "Enroll…"),
    "log": ("/v1/nodes/rack2-01/runs", "link", "Log"),
}
WIDTHS = {1280: 800, 390: 844}
SCHEMES = ("light", "dark")
DOCS = {
    **{f"window-{name}.png": f"{name}-1280-light.png" for name in (*PAGES, *PRESSED)},
    "window-phone.png": "fleet-390-light.png",
    "window-phone-node.png": "node-390-light.png",
}
"""Files of the documentation, and the pictures that they can be; those that exist are renewed."""
MACHINES = """name,address,user,password,MAC,class,asset
rack9-01,https://10.0.9.1,root,secret,52:54:00:09:00:01,gpu,A1
rack9-02,https://10.0.9.2,root,secret,52:54:00:09:00:02,gpu,A2
rack2-01,https://10.0.9.3,root,secret,52:54:00:09:00:03,gpu,A3
rack9-04,,root,secret,52:54:00:09:00:04,gpu,A4
rack9-05,https://10.0.9.5,root,secret,52:54:00:09:00:05,gpu,A5
"""
"""A table of machines, of which two have to be corrected."""
PASTE = """text => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", text);
  const event = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
  document.querySelector("dialog textarea").dispatchEvent(event);
}"""
_PROGRAMS = ("chromium-headless-shell", "chromium")


def main() -> None:
    """Write ``FOLDER/{page}-{width}-{scheme}.png`` for each page of a running service."""
    url, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        sys.exit("no browser: apt-get install --no-install-recommends chromium-headless-shell")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=arguments)
        for path in _pictures(browser, url, folder):
            print(path)
        browser.close()
    for docs in map(pathlib.Path, sys.argv[3:]):
        for shown in docs.glob("window-*.png"):
            shutil.copyfile(folder / DOCS[shown.name], shown)


def _pictures(browser: sync_api.Browser, url: str, folder: pathlib.Path) -> Iterator[pathlib.Path]:
    for width, height in WIDTHS.items():
        for scheme in SCHEMES:
            page = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
            )
            for name, address in PAGES.items():
                _open(page, f"{url}/ui/#{address}")
                yield _picture(page, folder / f"{name}-{width}-{scheme}.png")
            for name, (address, role, pressed) in PRESSED.items():
                _open(page, f"{url}/ui/#{address}")
                if name == "new-batch":
                    page.locator(".body .row").first.wait_for()
                    page.get_by_role("grid").focus()
                    page.keyboard.press("Control+a")
                found = page.get_by_role(
                    cast(Any, role), name=pressed, exact=True, include_hidden=True
                )
                found.first.dispatch_event("click")  # On a narrow screen it may be in a menu.
                if name == "enroll-many":
                    page.get_by_role("button", name="Many machines…").click()
                    page.get_by_label("Driver of all").select_option("redfish")
                    page.wait_for_timeout(700)  # the keys of the driver come after it
                    page.evaluate(PASTE, MACHINES)
                yield _picture(page, folder / f"{name}-{width}-{scheme}.png")
            page.close()


def _open(page: sync_api.Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(address)
    page.locator("main h1").first.wait_for(state="attached")


def _picture(page: sync_api.Page, path: pathlib.Path) -> pathlib.Path:
    page.wait_for_timeout(700)  # lists come after the documents
    sync_api.expect(page.locator(".skeleton")).to_have_count(0)
    page.screenshot(path=path)
    return path


if __name__ == "__main__":
    main()
