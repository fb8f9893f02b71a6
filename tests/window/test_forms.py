"""Forms listen to the keyboard: the focus is on the first field, and Enter sends."""

from __future__ import annotations

from playwright import sync_api

from tests.support import service
from tests.window.acts import failed_node, paused_batch, press, shown, state, to
from tests.window.conftest import expect


def opened(page: sync_api.Page, live: service.Service, address: str) -> sync_api.Locator:
    """Show a page; return the place of its dialog."""
    page.goto(to(live, address))
    shown(page)
    return page.get_by_role("dialog")


def test_name_that_is_typed_at_once_confirms_a_retry(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "typed-1")
    live.ask(
        "PATCH",
        "/v1/nodes/typed-1",
        [{"op": "remove", "path": "/driver_info/fake_fail_steps"}],
    )
    dialog = opened(page, live, "/v1/nodes/typed-1")
    press(page, "Retry…")
    expect(dialog.get_by_label("Type the name of the node")).to_be_focused()
    page.keyboard.type("typed-1")
    page.keyboard.press("Enter")
    dialog.wait_for(state="detached")
    state(page, "available").wait_for()


def test_reason_that_is_typed_holds_a_node_by_enter(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("typed-2")
    dialog = opened(page, live, "/v1/nodes/typed-2")
    press(page, "Hold…")
    expect(dialog.get_by_label("Kind")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.type("a loud fan")
    page.keyboard.press("Enter")
    dialog.wait_for(state="detached")
    page.locator(".node-head").get_by_text("HELD (freeze): a loud fan").wait_for()


def test_name_that_is_typed_enrolls_a_machine_by_enter(
    page: sync_api.Page, live: service.Service
) -> None:
    dialog = opened(page, live, "/v1/nodes")
    page.get_by_role("button", name="Enroll…").click()
    expect(dialog.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.type("typed-3")
    expect(dialog.get_by_role("button", name="Enroll", exact=True)).to_be_enabled()
    page.keyboard.press("Enter")
    state(page, "enroll").wait_for()
    assert live.get("/v1/nodes/typed-3")["provision_state"] == "enroll"


def test_act_without_a_field_is_sent_by_enter(page: sync_api.Page, live: service.Service) -> None:
    live.create("typed-4")
    live.create("typed-5")
    batch = paused_batch(live, "by enter", ["typed-4", "typed-5"])
    dialog = opened(page, live, f"/v1/batches/{batch}")
    page.get_by_role("button", name="Resume…").click()
    expect(dialog.get_by_role("button", name="Resume", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    dialog.wait_for(state="detached")
    page.locator(".node-head .result", has_text="done").wait_for()


def test_focus_stays_where_the_user_has_put_it(page: sync_api.Page, live: service.Service) -> None:
    live.create("typed-6")
    dialog = opened(page, live, "/v1/nodes/typed-6")
    press(page, "Maintenance…")
    reason = dialog.get_by_label("Reason")
    expect(reason).to_be_focused()
    cancel = dialog.get_by_role("button", name="Cancel")
    cancel.focus()
    # The form is drawn again, when its node has been read and when the reason changes.
    reason.evaluate("field => { field.value = 'x'; field.dispatchEvent(new Event('input')) }")
    expect(dialog.get_by_role("button", name="Set maintenance")).to_be_enabled()
    expect(cancel).to_be_focused()
