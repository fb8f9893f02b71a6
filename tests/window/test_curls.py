"""Acts of the window copied as curl: run by a shell, each does what the button does."""

from __future__ import annotations

import os
import subprocess

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import press, to
from tests.window.conftest import expect

REASON = """it's $HOME `id` "quoted" \\ back"""
SECRET = "s3cret'$word"


def copied(page: sync_api.Page) -> str:
    """Return what the button of the open dialog copies."""
    return page.get_by_role("dialog").locator("footer button.curl").get_attribute("title") or ""


def run(text: str, **variables: str) -> None:
    """Run a copied command."""
    environment = {**os.environ, **variables}
    command = text.replace("curl -sS", "curl -sS --fail-with-body")
    done = subprocess.run(
        ["sh", "-ec", command], capture_output=True, timeout=60, check=False, env=environment
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)


def test_copy_of_a_verb_starts_it(page: sync_api.Page, live: service.Service) -> None:
    live.create("copy-1")
    page.goto(to(live, "/v1/nodes/copy-1"))
    press(page, "Manage…")
    button = page.get_by_role("dialog").get_by_role("button", name="Manage copy-1", exact=True)
    expect(button).to_be_enabled()
    text = copied(page)
    assert "If-Match" in text
    assert "Idempotency-Key" not in text
    run(text)
    live.settled("copy-1", "manageable")


@pytest.mark.parametrize("of", ["runs", "batches"])
def test_rows_of_lists_are_copied(page: sync_api.Page, live: service.Service, of: str) -> None:
    live.create(f"listed-{of}")
    body = {"nodes": [f"listed-{of}"], "request": {"target": "manage"}}
    assert live.ask("POST", "/v1/batches", body).status_code == 201
    live.settled(f"listed-{of}", "manageable")
    page.goto(to(live, f"/v1/{of}"))
    button = page.locator("tbody tr:not(.day)").first.get_by_role("button", name="Copy as curl")
    text = button.get_attribute("title") or ""
    assert f"/v1/{of}" in text or "/runs/" in text
    run(text)


def test_copy_of_a_form_keeps_quotes_and_signs_of_the_shell(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("copy-2")
    page.goto(to(live, "/v1/nodes/copy-2"))
    press(page, "Hold…")
    page.get_by_role("dialog").get_by_label("Reason").fill(REASON)
    run(copied(page))
    holds = live.get("/v1/nodes/copy-2/holds")["holds"]
    assert [one["reason"] for one in holds] == [REASON]
    page.keyboard.press("Escape")
    page.goto(to(live, "/v1/nodes?~q=copy-2"))
    page.get_by_role("checkbox", name="Select copy-2").check()
    page.get_by_role("button", name="Maintenance…").first.click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Power…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Request").select_option("power on")
    dialog.get_by_label("Name (optional)").fill(REASON)
    run(copied(page))
    assert REASON in [one["name"] for one in live.get("/v1/batches")["batches"]]


def test_copy_of_a_change_names_a_variable_for_a_secret(
    page: sync_api.Page, live: service.Service
) -> None:
    page.goto(to(live, "/v1/nodes"))
    page.get_by_role("button", name="Enroll…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("copy-3")
    dialog.get_by_label("Driver").select_option("ipmi")
    dialog.get_by_label("ipmi_address", exact=True).fill("192.0.2.7")
    live.create("copy-4")
    page.keyboard.press("Escape")
    page.goto(to(live, "/v1/nodes/copy-4?~tab=fields"))
    page.get_by_text("Change fields").click()
    patch = (
        '[{"op": "add", "path": "/driver_info/note", "value": {"ipmi_password": "'
        + SECRET
        + '", "text": "it is"}}]'
    )
    page.get_by_label("JSON Patch").fill(patch)
    text = page.locator("section details button.curl").get_attribute("title") or ""
    assert SECRET not in text
    assert '"$IPMI_PASSWORD"' in text
    run(text, IPMI_PASSWORD="another")
    note = live.get("/v1/nodes/copy-4")["driver_info"]["note"]
    assert note["text"] == "it is"
    assert SECRET not in str(note)
