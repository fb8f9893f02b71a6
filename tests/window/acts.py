"""What an operator does in the window and finds there, for the tests of this folder."""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from playwright import sync_api

from tests.support import service

ERASE = "deploy.erase_devices"
_NUMBERS = itertools.count()


def to(running: service.Service, address: str) -> str:
    """Return the address of the window that shows a path of the API."""
    return f"{running.url}/ui/#{address}"


def row(page: sync_api.Page, name: str) -> sync_api.Locator:
    """Return the row of a node in the table of the fleet."""
    return page.get_by_role("grid", name="Nodes").get_by_role("row", name=name)


def state(page: sync_api.Page, text: str) -> sync_api.Locator:
    """Return the chip with the state of the node that a page shows."""
    return page.locator(".node-head .state").get_by_text(text, exact=True)


def act(page: sync_api.Page, name: str, more: str = ":not([aria-disabled])") -> sync_api.Locator:
    """Return the button of an act that a node or a batch offers; a menu may hide it."""
    text = f":text-is({json.dumps(name, ensure_ascii=False)})"
    return page.locator(f".actions button{more}:is({text}, :has(> span{text}))")


def refused(page: sync_api.Page, name: str) -> sync_api.Locator:
    """Return the button of an act that a node refuses; a menu may hide it."""
    return act(page, name, "[aria-disabled]")


def unfold(button: sync_api.Locator) -> None:
    """Open the menu that hides a button, if one does."""
    button.wait_for(state="attached")
    if not button.is_visible():
        button.locator("xpath=ancestor::details/summary").click()


def press(page: sync_api.Page, name: str) -> None:
    """Press a button of the node that a page shows, or one in its menus."""
    button = act(page, name)
    unfold(button)
    button.click()


def dialog_of(
    page: sync_api.Page, running: service.Service, name: str, button: str
) -> sync_api.Locator:
    """Open the page of a node and press the button of an act; return the dialog of the act."""
    page.goto(to(running, f"/v1/nodes/{name}"))
    press(page, button)
    return page.get_by_role("dialog")


def confirm(page: sync_api.Page, button: str, typed: str | None = None) -> None:
    """Confirm the plan in the open dialog; ``typed`` is the name of the node if it asks for one."""
    dialog = page.get_by_role("dialog")
    if typed is not None:
        dialog.get_by_label("Type the name of the node").fill(typed)
    dialog.get_by_role("button", name=button, exact=True).click()
    dialog.wait_for(state="detached")


def edit(running: service.Service, name: str, info: dict[str, Any]) -> None:
    """Replace the ``driver_info`` of a node."""
    patch = [{"op": "add", "path": "/driver_info", "value": info}]
    answer = running.ask("PATCH", f"/v1/nodes/{name}", patch)
    assert answer.status_code == 200, answer.text


def failed_node(
    running: service.Service, name: str, message: str = "disk 3 does not answer"
) -> None:
    """Create a node whose second clean step fails with a message, and clean it."""
    running.create(name, driver_info={"fake_fail_steps": {ERASE: message}})
    running.provision(name, "manage", "manageable")
    body = {"target": "provide"}
    assert running.ask("PUT", f"/v1/nodes/{name}/states/provision", body).status_code == 202
    service.until(
        lambda: running.get(f"/v1/nodes/{name}/why")["provision_state"] == "clean failed", name
    )


def paused_batch(running: service.Service, name: str, nodes: list[str]) -> str:
    """Begin a batch that manages the first of some nodes, and then pauses; return its UUID."""
    body = {
        "name": name,
        "nodes": nodes,
        "request": {"target": "manage"},
        "waves": [1, "100%"],
        "between_waves": "pause",
    }
    batch = str(running.ask("POST", "/v1/batches", body).json()["uuid"])
    service.until(lambda: running.get(f"/v1/batches/{batch}")["state"] == "paused", "the pause")
    return batch


@contextlib.contextmanager
def endless_cleaning(running: service.Service, name: str) -> Iterator[None]:
    """Create a node and let it wait in its first clean step; abort that at the end."""
    running.create(name)
    running.provision(name, "manage", "manageable")
    # Not before: the verification would take as long.
    edit(running, name, {"fake_async_steps": ["*"], "fake_step_seconds": 3600})
    body = {"target": "provide"}
    assert running.ask("PUT", f"/v1/nodes/{name}/states/provision", body).status_code == 202
    service.until(lambda: running.get(f"/v1/nodes/{name}")["provision_state"] == "clean wait", name)
    yield
    # No later test sees it change.
    body = {"target": "abort"}
    assert running.ask("PUT", f"/v1/nodes/{name}/states/provision", body).status_code == 202
    service.until(
        lambda: running.get(f"/v1/nodes/{name}")["provision_state"] == "clean failed", name
    )


def cold(page: sync_api.Page, running: service.Service, address: str) -> None:
    """Open an address as the first one of a page, and wait for what it shows."""
    # With the same query only the fragment may differ, and the page goes on. Another document in
    # between would let the browser start another process for this one.
    page.goto(to(running, address).replace("#", f"?{next(_NUMBERS)}#", 1))
    shown(page)


def shown(page: sync_api.Page) -> None:
    """Wait until a page has read its documents."""
    page.locator("main h1").first.wait_for(state="attached")
    sync_api.expect(page.locator(".skeleton")).to_have_count(0)
    sync_api.expect(page.locator(".log", has_text="No line yet")).to_have_count(0)


def write(running: service.Service, statement: str, *values: object) -> None:
    """Change rows of the service behind its back."""
    file = running.folder / "state/ironic-lite.sqlite"
    with contextlib.closing(sqlite3.connect(file, timeout=60)) as connection, connection:
        assert connection.execute(statement, values).rowcount == 1
