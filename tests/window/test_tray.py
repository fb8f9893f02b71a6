"""Feedback of acts: the tray, Undo, sentences beside the button, and what is asked before."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import confirm, dialog_of, edit, press, to, write
from tests.window.conftest import Faults, expect


def tray(page: sync_api.Page) -> sync_api.Locator:
    """Return the tray of the bar."""
    return page.locator("header .tray")


def test_act_is_one_entry_that_moves_to_its_end(page: sync_api.Page, live: service.Service) -> None:
    live.create("tray-1")
    edit(live, "tray-1", {"fake_async_steps": ["*"], "fake_step_seconds": 12})
    page.goto(to(live, "/v1/nodes/tray-1"))
    expect(tray(page)).to_have_count(0)
    live.provision("tray-1", "manage", "manageable")
    press(page, "Provide…")
    confirm(page, "Provide tray-1", typed="tray-1")
    expect(tray(page).locator("summary")).to_have_text("1 running")
    tray(page).locator("summary").click()
    entries = tray(page).get_by_role("list", name="Your acts").get_by_role("listitem")
    expect(entries).to_have_count(1)
    expect(entries.first).to_have_class("running")
    expect(entries.first).to_contain_text("Provide of tray-1")
    expect(entries.first).to_have_class("done")
    expect(tray(page).locator("summary")).to_have_text("1 done")
    tray(page).get_by_role("button", name="Clear what has ended").click()
    expect(tray(page)).to_have_count(0)


def test_act_that_fails_is_counted_and_says_why(page: sync_api.Page, live: service.Service) -> None:
    live.create("tray-2", driver_info={"fake_fail_steps": {"deploy.erase_devices": "disk 7"}})
    live.provision("tray-2", "manage", "manageable")
    page.goto(to(live, "/v1/nodes/tray-2"))
    press(page, "Provide…")
    confirm(page, "Provide tray-2", typed="tray-2")
    expect(tray(page).locator("summary")).to_have_text("1 failed")
    expect(tray(page)).to_have_class(re.compile("failed"))
    tray(page).locator("summary").click()
    expect(tray(page).get_by_role("listitem")).to_contain_text("disk 7")


def test_power_is_followed_to_its_end(page: sync_api.Page, live: service.Service) -> None:
    live.create("tray-3")
    live.provision("tray-3", "manage", "manageable")
    page.goto(to(live, "/v1/nodes/tray-3"))
    press(page, "Power on…")
    confirm(page, "Power on tray-3")
    expect(tray(page).locator("summary")).to_have_text("1 done")


LONG_UNDO = """
const later = setTimeout;
window.setTimeout = (act, ms, ...more) => later(act, ms === 5000 ? 60000 : ms, ...more);
"""
"""Keeps Undo for a minute: a busy machine may need more than its five seconds for a press."""


def hold(page: sync_api.Page) -> None:
    press(page, "Hold…")
    page.get_by_role("dialog").get_by_label("Reason").fill("a loud fan")
    confirm(page, page.get_by_role("dialog").locator("footer .primary").inner_text())


def maintain(page: sync_api.Page) -> None:
    press(page, "Maintenance…")
    confirm(page, "Set maintenance")


def mark(page: sync_api.Page) -> None:
    page.goto(page.url.split("?")[0] + "?~tab=fields")
    form = page.get_by_role("form", name="Traits")
    form.get_by_label("Trait").fill("CUSTOM_A")
    form.get_by_role("button", name="Add the trait").click()


def change(page: sync_api.Page) -> None:
    page.goto(page.url.split("?")[0] + "?~tab=fields")
    form = page.get_by_role("form", name="Settings of")
    form.get_by_label("Owner").fill("team-b")
    form.get_by_role("button", name="Review 1 change").click()
    form.get_by_role("button", name="Save").click()


ACTS = [hold, maintain, mark, change]


def state_of(live: service.Service, name: str) -> list[object]:
    """Return what the acts change."""
    node = live.get(f"/v1/nodes/{name}")
    holds = live.get(f"/v1/nodes/{name}/holds")["holds"]
    return [len(holds), node["maintenance"], node["traits"], node["owner"]]


@pytest.mark.parametrize("act", ACTS)
def test_undo_sends_the_inverse(
    page: sync_api.Page, live: service.Service, act: Callable[[sync_api.Page], None]
) -> None:
    name = f"undo-{act.__name__}"
    live.create(name)
    before = state_of(live, name)
    page.add_init_script(LONG_UNDO)
    page.goto(to(live, f"/v1/nodes/{name}"))
    act(page)
    undo = page.locator(".live").get_by_role("button", name="Undo")
    undo.wait_for()
    assert state_of(live, name) != before
    undo.click()
    page.locator(".live").get_by_text("Undone.").wait_for(state="attached")
    assert state_of(live, name) == before
    tray(page).locator("summary").click()
    expect(tray(page).get_by_role("listitem")).to_have_class("undone")


def undo_last(page: sync_api.Page) -> None:
    """Press Undo of the last act, and wait until it has been sent."""
    page.locator(".live").get_by_role("button", name="Undo").last.click()
    page.locator(".live").get_by_text("Undone.").wait_for(state="attached")


def test_undo_takes_changes_of_ports_back(page: sync_api.Page, live: service.Service) -> None:
    uuid = live.create("undo-ports")
    page.add_init_script(LONG_UNDO)
    page.goto(to(live, "/v1/nodes/undo-ports/ports"))
    form = page.get_by_role("form", name="New port")
    form.get_by_label("MAC address").fill("52:54:00:00:00:81")
    form.get_by_role("button", name="Add the port").click()
    undo_last(page)
    assert live.get(f"/v1/ports?node={uuid}")["ports"] == []
    link = {"switch_id": "00:11:22:33:44:55", "port_id": "Eth7"}
    body = {"node_uuid": uuid, "address": "52:54:00:00:00:82", "local_link_connection": link}
    port = live.ask("POST", "/v1/ports", body | {"extra": {"cable": "7"}}).json()
    row_of = page.get_by_role("region", name="Ports").last.get_by_role("row").last
    page.reload()
    row_of.get_by_role("button", name="Change…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Port of the switch").fill("Eth8")
    confirm(page, "Save")
    expect(page.locator(".live").get_by_role("button", name="Undo")).to_be_visible()
    changed = live.get(f"/v1/ports/{port['uuid']}")
    assert changed["local_link_connection"]["port_id"] == "Eth8"
    undo_last(page)
    assert live.get(f"/v1/ports/{port['uuid']}")["local_link_connection"] == link
    row_of.get_by_role("button", name="Remove").click()
    expect(page.locator(".live").get_by_role("button", name="Undo")).to_be_visible()
    assert live.get(f"/v1/ports?node={uuid}")["ports"] == []
    undo_last(page)
    again = live.get(f"/v1/ports/{port['uuid']}")
    own = {"created_at", "updated_at"}
    assert {name: again[name] for name in again.keys() - own} == {
        name: port[name] for name in port.keys() - own
    }


def test_undo_leaves_a_port_that_another_user_has_changed(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow("412")
    uuid = live.create("both-port")
    page.add_init_script(LONG_UNDO)
    page.goto(to(live, "/v1/nodes/both-port/ports"))
    form = page.get_by_role("form", name="New port")
    form.get_by_label("MAC address").fill("52:54:00:00:00:83")
    form.get_by_role("button", name="Add the port").click()
    undo = page.locator(".live").get_by_role("button", name="Undo")
    undo.wait_for()
    (port,) = live.get(f"/v1/ports?node={uuid}")["ports"]
    patch = [{"op": "add", "path": "/extra/by", "value": "another"}]
    assert live.ask("PATCH", f"/v1/ports/{port['uuid']}", patch).status_code == 200
    undo.click()
    told = page.locator(".live").get_by_text("Not undone: It has changed meanwhile.")
    told.wait_for(state="attached")
    assert len(live.get(f"/v1/ports?node={uuid}")["ports"]) == 1


@pytest.mark.parametrize("act", [maintain, mark, change])
def test_undo_leaves_a_node_that_another_user_has_changed(
    page: sync_api.Page,
    live: service.Service,
    faults: Faults,
    act: Callable[[sync_api.Page], None],
) -> None:
    faults.allow("412")
    name = f"both-{act.__name__}"
    live.create(name)
    page.add_init_script(LONG_UNDO)
    page.goto(to(live, f"/v1/nodes/{name}"))
    act(page)
    undo = page.locator(".live").get_by_role("button", name="Undo")
    undo.wait_for()
    patch = [{"op": "add", "path": "/extra/by", "value": "another"}]
    assert live.ask("PATCH", f"/v1/nodes/{name}", patch).status_code == 200
    mine = state_of(live, name)
    undo.click()
    told = page.locator(".live").get_by_text("Not undone: It has changed meanwhile.")
    told.wait_for(state="attached")
    assert state_of(live, name) == mine


def test_undo_gives_back_what_mine_has_replaced(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow("412")
    live.create("mine-1")
    page.goto(to(live, "/v1/nodes/mine-1?~tab=fields"))
    page.get_by_role("form", name="Settings of").get_by_label("Owner").fill("team-b")
    page.get_by_role("button", name="Review 1 change").click()
    theirs = [{"op": "add", "path": "/owner", "value": "theirs"}]
    assert live.ask("PATCH", "/v1/nodes/mine-1", theirs).status_code == 200
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Use mine").click()
    undo = page.locator(".live").get_by_role("button", name="Undo")
    undo.wait_for()
    assert live.get("/v1/nodes/mine-1")["owner"] == "team-b"
    undo.click()
    page.locator(".live").get_by_text("Undone.").wait_for(state="attached")
    assert live.get("/v1/nodes/mine-1")["owner"] == "theirs"


def test_undo_of_maintenance_gives_back_the_reason_of_another(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow("412")
    live.create("mine-2")
    dialog = dialog_of(page, live, "mine-2", "Maintenance…")
    dialog.get_by_label("Reason").fill("mine")
    expect(dialog.get_by_role("button", name="Set maintenance")).to_be_enabled()
    body = {"reason": "a loud fan"}
    assert live.ask("PUT", "/v1/nodes/mine-2/maintenance", body).status_code == 202
    dialog.get_by_role("button", name="Set maintenance").click()
    dialog.get_by_role("button", name="Use mine").click()
    undo = page.locator(".live").get_by_role("button", name="Undo")
    undo.wait_for()
    assert live.get("/v1/nodes/mine-2")["maintenance_reason"] == "mine"
    undo.click()
    page.locator(".live").get_by_text("Undone.").wait_for(state="attached")
    assert live.get("/v1/nodes/mine-2")["maintenance_reason"] == "a loud fan"


def test_end_of_maintenance_by_the_service_is_asked_for(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("fault-1")
    columns = "maintenance = 1, maintenance_reason = ?, fault = ?"
    write(
        live,
        f"UPDATE nodes SET {columns} WHERE name = ?",
        *("BMC is away", "power failure", "fault-1"),
    )
    page.goto(to(live, "/v1/nodes/fault-1"))
    press(page, "End maintenance…")
    page.get_by_role("dialog").get_by_text("power failure: BMC is away").wait_for()
    assert live.get("/v1/nodes/fault-1")["maintenance"]
    confirm(page, "End maintenance")
    told = page.locator(".live").get_by_text("fault-1 is out of maintenance.")
    told.wait_for(state="attached")
    assert not live.get("/v1/nodes/fault-1")["maintenance"]
    expect(page.get_by_role("button", name="Undo", exact=True)).to_have_count(0)


def test_undo_is_offered_for_five_seconds(page: sync_api.Page, live: service.Service) -> None:
    live.create("late-5")
    page.goto(to(live, "/v1/nodes/late-5"))
    maintain(page)
    undo = page.get_by_role("button", name="Undo", exact=True)
    undo.first.wait_for()
    expect(undo).to_have_count(0)
    assert live.get("/v1/nodes/late-5")["maintenance"]


def test_end_of_maintenance_and_retirement_are_sent_at_once(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("once-1")
    body = {"reason": "a loud fan"}
    assert live.ask("PUT", "/v1/nodes/once-1/maintenance", body).status_code == 202
    page.add_init_script(LONG_UNDO)
    page.goto(to(live, "/v1/nodes/once-1"))
    press(page, "End maintenance")
    page.locator(".live").get_by_role("button", name="Undo").click()
    page.locator(".live").get_by_text("Undone.").wait_for(state="attached")
    assert live.get("/v1/nodes/once-1")["maintenance_reason"] == "a loud fan"
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Pages, nodes and verbs").fill("retire once-1")
    page.get_by_role("option", name="Retire once-1").click()
    page.locator(".live").get_by_text("once-1 is retired.").wait_for(state="attached")
    assert live.get("/v1/nodes/once-1")["retired"]
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_sentence_stands_beside_the_button_that_was_pressed(
    page: sync_api.Page, live: service.Service
) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(to(live, "/v1/nodes"))
    button = page.locator("summary", has_text="curl")
    button.click()
    page.get_by_role("button", name="Copy as curl: GET /v1/nodes", exact=True).click()
    said = page.locator(".live")
    said.get_by_text("Copied.").wait_for()
    place, of = said.bounding_box(), button.bounding_box()
    assert place is not None
    assert of is not None
    assert 0 <= place["y"] - of["y"] - of["height"] < 24
    assert place["x"] <= of["x"]


def test_double_press_of_add_sends_one_request(page: sync_api.Page, live: service.Service) -> None:
    uuid = live.create("twice-1")
    page.goto(to(live, "/v1/nodes/twice-1/ports"))
    form = page.get_by_role("form", name="New port")
    form.get_by_label("MAC address").fill("52:54:00:00:00:77")
    keys: list[str] = []

    def note(asked: sync_api.Request) -> None:
        if asked.method == "POST":
            keys.append(asked.headers["idempotency-key"])

    page.on("request", note)
    form.get_by_role("button", name="Add the port").dblclick()
    page.get_by_role("region", name="Ports").last.get_by_text("52:54:00:00:00:77").wait_for()
    assert len(set(keys)) == 1
    assert len(live.get(f"/v1/ports?node={uuid}")["ports"]) == 1


def test_erased_node_is_erased_again_by_one_press(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("free-1")
    live.provision("free-1", "manage", "manageable")
    body = {"data_state": "clean", "reason": "a new disk"}
    assert live.ask("PUT", "/v1/nodes/free-1/data_state", body).status_code < 300
    dialog = dialog_of(page, live, "free-1", "Provide…")
    button = dialog.get_by_role("button", name="Provide free-1", exact=True)
    expect(button).to_be_enabled()
    expect(dialog.get_by_label("Type the name of the node")).to_have_count(0)


def test_port_is_changed_by_a_form(page: sync_api.Page, live: service.Service) -> None:
    uuid = live.create("port-1")
    body = {"node_uuid": uuid, "address": "52:54:00:00:00:78", "pxe_enabled": True}
    port = live.ask("POST", "/v1/ports", body).json()["uuid"]
    page.goto(to(live, "/v1/nodes/port-1/ports"))
    page.get_by_role("button", name="Change…").click()
    dialog = page.get_by_role("dialog", name="Port 52:54:00:00:00:78")
    save = dialog.get_by_role("button", name="Save")
    expect(save).to_be_disabled()
    dialog.get_by_label("The machine may boot from this card").uncheck()
    dialog.get_by_label("Switch, its MAC address").fill("00:11:22:33:44:55")
    dialog.get_by_label("Port of the switch").fill("Eth7")
    save.click()
    dialog.wait_for(state="detached")
    found = live.get(f"/v1/ports/{port}")
    assert found["pxe_enabled"] is False
    assert found["local_link_connection"] == {"switch_id": "00:11:22:33:44:55", "port_id": "Eth7"}
    row_of = page.get_by_role("region", name="Ports").last.get_by_role("row").last
    expect(row_of).to_contain_text("00:11:22:33:44:55")
