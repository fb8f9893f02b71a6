"""Orders, options of retries and stops, and large fleets in the window."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import (
    act,
    dialog_of,
    edit,
    endless_cleaning,
    failed_node,
    press,
    row,
    state,
    to,
)

expect = sync_api.expect


def test_retry_leaves_a_step_out_with_a_reason(page: sync_api.Page, live: service.Service) -> None:
    failed_node(live, "waived-1")
    dialog = dialog_of(page, live, "waived-1", "Retry…")
    dialog.get_by_text("Begin earlier").click()
    dialog.get_by_label("Leave out").select_option(label="2 deploy.erase_devices")
    dialog.get_by_label("Reason").fill("disk 3 goes to the shredder")
    button = dialog.get_by_role("button", name="Retry waived-1", exact=True)
    button.wait_for()
    named = dialog.get_by_label("Type the name of the node")
    if named.count():
        named.fill("waived-1")
    button.click()
    dialog.wait_for(state="detached")
    state(page, "available").wait_for()
    run = live.get("/v1/nodes/waived-1/why")["run"]["uuid"]
    steps = live.get(f"/v1/nodes/waived-1/runs/{run}")["steps"]
    assert steps[1]["waiver"]["reason"] == "disk 3 goes to the shredder"


def test_run_stops_after_the_chosen_step(page: sync_api.Page, live: service.Service) -> None:
    with endless_cleaning(live, "stopped-1"):
        dialog = dialog_of(page, live, "stopped-1", "Stop at the next step…")
        dialog.get_by_label("wait there, until Go on or Abort").wait_for()
        dialog.get_by_label("Stop after").select_option(index=1)
        dialog.get_by_label("Reason").fill("look at disk 3")
        dialog.get_by_role("button", name="Stop the run of stopped-1").click()
        dialog.wait_for(state="detached")
        stop = live.get("/v1/nodes/stopped-1/why")["run"]["stop"]
        assert (stop["how"], stop["after"], stop["reason"]) == ("hold", 0, "look at disk 3")
        uuid = live.get("/v1/nodes/stopped-1")["uuid"]

        def lock(route: sync_api.Route) -> None:
            answer = route.fetch()
            route.fulfill(response=answer, json={**answer.json(), "reservation": "a-conductor"})

        # As while a step is under way.
        page.route(f"**/v1/nodes/{uuid}", lock)
        press(page, "Stop is requested: withdraw…")
        expect(dialog).to_contain_text("The run then goes on with its next step.")
        dialog.get_by_role("button", name="Withdraw", exact=True).click()
        dialog.wait_for(state="detached")
        service.until(lambda: not live.get("/v1/nodes/stopped-1/why")["run"]["stop"], "the stop")


def test_requested_stop_is_shown_in_the_fleet_and_goes_when_it_is_withdrawn(
    page: sync_api.Page, live: service.Service
) -> None:
    with endless_cleaning(live, "stopping-1"):
        page.goto(to(live, "/v1/nodes"))
        row(page, "stopping-1").wait_for()
        stop = "/v1/nodes/stopping-1/runs/current/stop"
        for body, words in (
            ({"how": "hold"}, "stops after this step"),
            ({"how": "abort", "after": 0}, "is aborted after this step"),
        ):
            assert live.ask("PUT", stop, body).status_code == 202
            expect(row(page, "stopping-1")).to_contain_text(words)
        assert live.ask("DELETE", stop).status_code == 204
        expect(row(page, "stopping-1")).not_to_contain_text("is aborted after")


def test_stop_that_has_happened_cannot_be_withdrawn(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("halted-1")
    live.provision("halted-1", "manage", "manageable")
    edit(live, "halted-1", {"fake_async_steps": ["*"], "fake_step_seconds": 5})
    body = {"target": "provide"}
    assert live.ask("PUT", "/v1/nodes/halted-1/states/provision", body).status_code == 202
    stop = "/v1/nodes/halted-1/runs/current/stop"
    assert live.ask("PUT", stop, {"how": "hold"}).status_code == 202
    page.goto(to(live, "/v1/nodes/halted-1"))
    state(page, "clean hold").wait_for()
    act(page, "Go on…").wait_for()
    expect(page.get_by_role("button", name="Stop is requested")).to_have_count(0)
    assert live.get("/v1/nodes/halted-1/why")["run"]["stop"]["progress"] == "done"
    body = {"target": "abort"}
    assert live.ask("PUT", "/v1/nodes/halted-1/states/provision", body).status_code == 202
    service.until(
        lambda: live.get("/v1/nodes/halted-1")["provision_state"] == "clean failed", "the abort"
    )


def test_declared_data_state_is_a_column_and_a_filter(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("data-1")
    live.create("data-2")
    dialog = dialog_of(page, live, "data-1", "Data…")
    dialog.locator("select").select_option("dirty")
    dialog.get_by_label("Reason").fill("came back from a customer")
    dialog.get_by_role("button", name="Declare", exact=True).click()
    dialog.wait_for(state="detached")
    page.locator(".identity").get_by_text("Data dirty").wait_for()
    page.goto(to(live, "/v1/nodes?~q=data-"))
    row(page, "data-1").get_by_text("dirty", exact=True).wait_for()
    row(page, "data-2").wait_for()
    page.get_by_role("combobox", name="Data").select_option("dirty")
    row(page, "data-2").wait_for(state="detached")
    row(page, "data-1").wait_for()
    assert "data_state=dirty" in page.url


def test_order_that_the_driver_lacks_is_disabled_with_its_reason(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("bare-1", management_interface="noop", console_interface="no-console")
    live.provision("bare-1", "manage", "manageable")
    page.goto(to(live, "/v1/nodes/bare-1/states"))
    refused = page.locator(".orders").get_by_role("button", name="uefi… refused")
    expect(refused).to_have_attribute("aria-disabled", "true")
    expect(refused).to_contain_text("set_boot_mode")
    refused.click(force=True)  # of Playwright: it does not press what is marked as disabled
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_order_sets_the_boot_mode(page: sync_api.Page, live: service.Service) -> None:
    live.create("mode-1")
    live.provision("mode-1", "manage", "manageable")
    page.goto(to(live, "/v1/nodes/mode-1/states"))
    page.locator(".orders").get_by_role("button", name="uefi…", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Boot mode: uefi", exact=True).click()
    dialog.wait_for(state="detached")
    service.until(lambda: live.get("/v1/nodes/mode-1")["boot_mode"] == "uefi", "the boot mode")


def test_lamp_is_switched(page: sync_api.Page, live: service.Service) -> None:
    live.create("lamp-1")
    live.provision("lamp-1", "manage", "manageable")
    page.goto(to(live, "/v1/nodes/lamp-1/states"))
    lamp = page.get_by_role("group", name="Lamp led@system")
    expect(lamp).to_contain_text("off")
    lamp.get_by_role("button", name="blinking…", exact=True).click()
    dialog = page.get_by_role("dialog")
    shown = dialog.get_by_role("button", name="Copy as curl").get_attribute("title") or ""
    assert """-d '{"state":"blinking"}'""" in shown
    dialog.get_by_role("button", name="Lamp: blinking", exact=True).click()
    dialog.wait_for(state="detached")
    expect(lamp.locator("strong")).to_have_text("blinking")
    place = "/v1/nodes/lamp-1/management/indicators/led@system"
    assert live.get(place) == {"state": "blinking"}


def test_lamp_that_the_machine_alone_switches_is_disabled(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("lamp-2")
    live.provision("lamp-2", "manage", "manageable")
    page.goto(to(live, "/v1/nodes/lamp-2/states"))
    lamp = page.get_by_role("group", name="Lamp led-0@chassis")
    button = lamp.get_by_role("button", name="on… refused")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_contain_text("The machine alone switches led-0@chassis")


def test_lamps_that_the_driver_lacks_are_refused_with_the_reason(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("lamp-3", management_interface="noop")
    live.provision("lamp-3", "manage", "manageable")
    page.goto(to(live, "/v1/nodes/lamp-3/states"))
    place = page.locator(".orders dd", has_text="set_indicator_state")
    expect(place).to_be_visible()
    expect(place.get_by_role("button")).to_have_count(0)


def test_steps_of_the_node_are_picked(page: sync_api.Page, live: service.Service) -> None:
    live.create("pick-1")
    live.provision("pick-1", "manage", "manageable")
    dialog = dialog_of(page, live, "pick-1", "Clean…")
    expect(dialog.get_by_role("status").first).to_contain_text("Add at least one step")
    expect(dialog.get_by_label("Steps, as JSON")).to_be_hidden()
    offered = dialog.get_by_label("Add a step")
    offered.select_option(label="deploy.erase_devices_metadata")
    offered.select_option(label="deploy.erase_devices_metadata")
    dialog.get_by_role("button", name="Erase all disks").click()
    chosen = dialog.get_by_role("list", name="Chosen steps").get_by_role("listitem")
    expect(chosen).to_have_count(3)
    chosen.first.get_by_role("button", name="Remove").click()
    expect(chosen).to_have_count(2)
    steps = json.loads(dialog.get_by_label("Steps, as JSON").input_value())
    assert [one["step"] for one in steps] == ["erase_devices_metadata", "erase_devices"]
    dialog.get_by_label("Type the name of the node").fill("pick-1")
    dialog.get_by_role("button", name="Clean pick-1", exact=True).click()
    dialog.wait_for(state="detached")
    live.settled("pick-1", "manageable")
    run = live.get("/v1/nodes/pick-1/runs")["runs"][0]
    done = live.get(f"/v1/nodes/pick-1/runs/{run['uuid']}")["steps"]
    assert [one["step"] for one in done] == ["erase_devices_metadata", "erase_devices"]


def test_steps_that_are_not_json_are_not_planned(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("pick-2")
    live.provision("pick-2", "manage", "manageable")
    dialog = dialog_of(page, live, "pick-2", "Clean…")
    dialog.get_by_role("button", name="Erase all disks").click()
    button = dialog.get_by_role("button", name="Clean pick-2", exact=True)
    button.wait_for()
    dialog.get_by_text("Steps, as JSON").click()
    steps = dialog.get_by_label("Steps, as JSON")
    text = steps.input_value()
    steps.fill(f"{text}x")
    expect(dialog).to_contain_text("Correct the steps.")
    expect(button).to_have_count(0)
    expect(dialog.locator(".plan")).to_have_count(0)
    steps.fill(text)
    button.wait_for()


@pytest.mark.own_context
def test_fleet_that_is_too_large_shows_counts_and_the_rows_of_the_filter(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("large-1", resource_class="gpu")
    live.create("large-2", resource_class="cpu")

    more = {"service wait": 25_000, "adopt failed": 30_000}

    def count(route: sync_api.Route) -> None:
        answer = route.fetch()
        body: dict[str, Any] = answer.json()
        body["of"] += sum(more.values())
        for name, number in more.items():
            body["counts"].insert(0, {"provision_state": name, "count": number})
        route.fulfill(response=answer, json=body)

    page.route("**/v1/stats/nodes?*", count)
    page.clock.install()
    page.goto(to(live, "/v1/nodes"))
    page.get_by_text("narrow the filter to see rows").wait_for()
    page.locator(".chips").get_by_role("button", name="service wait 25000").wait_for()
    expect(row(page, "large-1")).to_have_count(0)
    page.goto(to(live, "/v1/nodes?resource_class=gpu"))
    row(page, "large-1").wait_for()
    expect(row(page, "large-2")).to_have_count(0)
    expect(page.get_by_text("narrow the filter to see rows")).to_have_count(0)
    live.create("large-3", resource_class="gpu")
    more["service wait"] += 1
    page.clock.fast_forward(10_000)  # They are counted again.
    row(page, "large-3").wait_for()
    more.clear()
    page.goto(to(live, "/v1/nodes?~q=large-"))
    row(page, "large-2").wait_for()
