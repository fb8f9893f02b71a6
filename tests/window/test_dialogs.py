"""Dialogs of the window: when they open, and where the focus goes."""

from __future__ import annotations

from playwright import sync_api

from tests.support import service
from tests.window.acts import act, confirm, failed_node, press, row, to
from tests.window.conftest import expect

CLICK = """button => new Promise(tell => {
  button.click();
  setTimeout(() => tell(document.querySelector("dialog")?.matches(":modal") ?? false));
})"""


def test_key_that_follows_the_press_is_for_the_dialog(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("swift-1")
    page.goto(to(live, "/v1/nodes/swift-1"))
    button = act(page, "Manage…")
    button.wait_for()
    assert button.evaluate(CLICK), "the dialog is not open in the task after the press"
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_focus_returns_to_the_button_that_opened_the_dialog(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("swift-2")
    page.goto(to(live, "/v1/nodes/swift-2"))
    dialog = page.get_by_role("dialog")
    button = act(page, "Manage…")
    for way in ("Escape", "Cancel"):
        press(page, "Manage…")
        dialog.wait_for()
        if way == "Escape":
            page.keyboard.press("Escape")
        else:
            dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_have_count(0)
        expect(button).to_be_focused()


def test_node_is_made_available_with_data_on_it_only_by_its_name(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "raw-1")
    assert live.ask("DELETE", "/v1/nodes/raw-1/maintenance").status_code == 202
    page.goto(to(live, "/v1/nodes/raw-1"))
    dialog = page.get_by_role("dialog")
    press(page, "Make available…")
    warning = "Its disks are not erased (data: unknown). The next user may read them."
    expect(dialog).to_contain_text(warning)
    name = dialog.get_by_label("This leaves the data on raw-1. Type the name of the node")
    button = dialog.get_by_role("button", name="Make available raw-1", exact=True)
    name.wait_for()
    expect(button).to_be_disabled()
    expect(dialog.locator(".primary")).to_have_count(0)
    name.fill("raw-1")
    expect(button).to_be_enabled()
    body = {"data_state": "clean", "reason": "erased by hand"}
    assert live.ask("PUT", "/v1/nodes/raw-1/data_state", body).status_code == 204
    expect(name).to_have_count(0)
    expect(button).to_be_enabled()
    expect(dialog).not_to_contain_text(warning)


def test_deletion_says_that_an_instance_is_running(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("lost-1")
    for verb, state in (("manage", "manageable"), ("provide", "available"), ("active", "active")):
        live.provision("lost-1", verb, state)
    assert live.ask("PUT", "/v1/nodes/lost-1/maintenance", {}).status_code == 202
    page.goto(to(live, "/v1/nodes/lost-1"))
    press(page, "Delete…")
    expect(page.get_by_role("dialog")).to_contain_text("An instance is running on it.")


def test_maintenance_of_one_node_has_a_reason_and_its_end_is_told(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("fan-1")
    page.goto(to(live, "/v1/nodes/fan-1"))
    press(page, "Maintenance…")
    page.get_by_role("dialog").get_by_label("Reason").fill("a loud fan")
    confirm(page, "Set maintenance")
    expect(page.locator(".live")).to_contain_text("fan-1 is in maintenance.")
    assert live.get("/v1/nodes/fan-1")["maintenance_reason"] == "a loud fan"
    press(page, "End maintenance")
    expect(page.locator(".live")).to_contain_text("fan-1 is out of maintenance.")


def test_aborted_batch_tells_what_was_refused_and_what_was_skipped(
    page: sync_api.Page, live: service.Service
) -> None:
    names = ["trim-1", "trim-2", "trim-3"]
    for name in names:
        live.create(name)
    body = {"nodes": names, "request": {"target": "provide"}, "waves": [1, "100%"]}
    batch = live.ask("POST", "/v1/batches", body).json()["uuid"]
    own = f"/v1/batches/{batch}"
    service.until(lambda: live.get(own)["state"] == "paused", "the batch")
    page.goto(to(live, own))
    waves = page.get_by_role("list", name="Nodes by wave, counted").get_by_role("listitem")
    expect(waves.first).to_have_text("wave 1: 1 failed")
    expect(page.locator(".node-head")).to_contain_text("1 refused")
    press(page, "Abort with its runs…")
    dialog = page.get_by_role("dialog", name="Abort this batch with its runs")
    dialog.get_by_role("button", name="Abort with its runs", exact=True).click()
    expect(page.locator(".node-head .result")).to_contain_text("aborted")
    expect(waves.last).to_have_text("wave 2: 2 left out")
    expect(page.get_by_role("main")).not_to_contain_text("no failure allowed")


def test_power_of_many_nodes_has_the_words_of_one(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("volt-1")
    page.goto(to(live, "/v1/nodes?~q=volt-1"))
    row(page, "volt-1").get_by_role("checkbox").check()
    page.get_by_role("button", name="Power…").click()
    request = page.get_by_role("dialog").get_by_label("Request")
    words = ["choose…", "Power on", "Power off", "Reboot", "Shut down", "Reboot softly"]
    expect(request.locator("option")).to_have_text(words)
