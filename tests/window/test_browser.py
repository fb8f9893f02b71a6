"""Journeys of an operator through the window, in a real browser on real processes."""

from __future__ import annotations

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import (
    ERASE,
    act,
    confirm,
    dialog_of,
    edit,
    failed_node,
    press,
    refused,
    row,
    state,
    to,
    unfold,
)
from tests.window.conftest import Faults, OpenPage

expect = sync_api.expect


def test_window_shows_a_node_and_its_new_state_without_a_reload(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("rack3-21")
    page.goto(f"{live.url}/ui")
    assert page.url == f"{live.url}/ui/"
    page.get_by_role("searchbox").fill("rack3-21")  # A long table draws the rows on the screen.
    row(page, "rack3-21").wait_for()
    live.provision("rack3-21", "manage", "manageable")
    row(page, "rack3-21").get_by_text("manageable", exact=True).wait_for()


def test_machine_is_enrolled_managed_and_cleaned(
    page: sync_api.Page, live: service.Service
) -> None:
    page.goto(to(live, "/v1/nodes"))
    page.get_by_role("button", name="Enroll…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Driver").select_option("fake-hardware")
    dialog.get_by_label("Name", exact=True).fill("fresh-1")
    dialog.get_by_role("button", name="Enroll", exact=True).click()
    state(page, "enroll").wait_for()
    checks = page.get_by_role("region", name="Checks before Manage")
    expect(checks.get_by_role("listitem").first).to_contain_text("node fresh-1")
    press(page, "Manage…")
    confirm(page, "Manage fresh-1")
    state(page, "manageable").wait_for()
    press(page, "Provide…")
    confirm(page, "Provide fresh-1", typed="fresh-1")
    state(page, "available").wait_for()
    expect(page.locator(".steps li")).to_have_class(["done", "done"])
    assert live.settled("fresh-1", "available")["name"] == "fresh-1"
    page.get_by_role("link", name="Fleet").click()
    page.get_by_role("searchbox").fill("fresh-1")
    row(page, "fresh-1").get_by_text("available", exact=True).wait_for()


def test_failed_cleaning_is_noticed_explained_and_retried(
    page: sync_api.Page, live: service.Service
) -> None:
    page.goto(to(live, "/v1/nodes"))
    page.get_by_role("grid", name="Nodes").wait_for()
    failed_node(live, "fail-1")
    page.locator(".attention li").get_by_text("disk # does not answer").wait_for()
    page.get_by_role("searchbox").fill("fail-1")
    row(page, "fail-1").get_by_role("link", name="fail-1").click()
    says = live.get("/v1/nodes/fail-1/why")["says"].partition(", ")[0]
    expect(page.locator("p.says")).to_contain_text(says)
    expect(page.locator(".steps li.failed")).to_contain_text(ERASE)
    edit(live, "fail-1", {})
    press(page, "Retry…")
    confirm(page, "Retry fail-1", typed="fail-1")
    state(page, "available").wait_for()
    expect(page.locator(".steps li").first).to_contain_text("done in an earlier run")
    expect(page.locator(".steps li").last).to_have_class("done")
    runs = live.get("/v1/nodes/fail-1/runs")["runs"]
    assert [run["state"] for run in runs if run["verb"] == "provide"].count("done") == 1


def test_plan_shows_faults_at_their_steps_and_offers_no_button(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("plan-1")
    live.provision("plan-1", "manage", "manageable")
    dialog = dialog_of(page, live, "plan-1", "Clean…")
    steps = (
        '[{"interface": "bios", "step": "apply_configuration"},'
        ' {"interface": "deploy", "step": "no_such"}]'
    )
    dialog.get_by_text("Steps, as JSON").click()
    dialog.get_by_label("Steps, as JSON").fill(steps)
    first, second = dialog.locator(".plan > li").first, dialog.locator(".plan > li").last
    expect(first).to_contain_text("clean_steps/0/args/settings")
    expect(second).to_contain_text("clean_steps/1/step")
    expect(dialog.get_by_role("button", name="Clean plan-1", exact=True)).to_have_count(0)
    faults.allow("422")


def test_typed_name_cannot_be_skipped(page: sync_api.Page, live: service.Service) -> None:
    live.create("sure-1")
    live.provision("sure-1", "manage", "manageable")
    dialog = dialog_of(page, live, "sure-1", "Provide…")
    field = dialog.get_by_label("Type the name of the node")
    expect(field).to_be_focused()
    button = dialog.get_by_role("button", name="Provide sure-1", exact=True)
    for typed in ("", "sure-", "SURE-1", "sure-1 "):
        field.fill(typed)
        expect(button).to_be_disabled()
        field.press("Enter")
        button.dblclick(force=True)
    expect(dialog).to_be_visible()
    runs = live.get("/v1/nodes/sure-1/runs")["runs"]
    assert [run["verb"] for run in runs] == ["manage"]
    field.fill("sure-1")
    button.dblclick()
    state(page, "available").wait_for()
    runs = live.get("/v1/nodes/sure-1/runs")["runs"]
    assert [run["verb"] for run in runs].count("provide") == 1


def test_effects_that_nobody_knows_count_as_the_loss_of_data(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("dim-1")
    live.provision("dim-1", "manage", "manageable")
    dialog = dialog_of(page, live, "dim-1", "Inspect…")
    field = dialog.get_by_label("Type the name of the node")
    button = dialog.get_by_role("button", name="Inspect dim-1", exact=True)
    field.wait_for()
    expect(dialog).to_contain_text("This has effects that are not known on dim-1.")
    expect(dialog).not_to_contain_text("destroy")
    expect(button).to_be_disabled()
    field.fill("dim-1")
    expect(button).to_be_enabled()


def test_change_by_another_client_brings_a_new_plan_and_starts_nothing(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    uuid = live.create("other-1")
    live.provision("other-1", "manage", "manageable")
    page.goto(to(live, "/v1/nodes/other-1"))
    with page.expect_response(f"**/v1/nodes/{uuid}"):
        press(page, "Provide…")
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_label("Type the name of the node")
    field.fill("other-1")
    button = dialog.get_by_role("button", name="Provide other-1", exact=True)
    expect(button).to_be_enabled()
    # The dialog reads the node now and then, and must not learn of the change before the press.
    page.route(f"**/v1/nodes/{uuid}", lambda route: None)
    edit(live, "other-1", {"fake_step_seconds": 0})
    with page.expect_response(lambda one: one.request.method == "PUT") as answer:
        button.click()
    assert answer.value.status == 412
    faults.allow("412")
    page.unroute(f"**/v1/nodes/{uuid}")
    dialog.get_by_text("The node has changed").wait_for()
    expect(dialog.get_by_label("What has changed")).to_contain_text("fake_step_seconds")
    expect(field).to_have_value("")
    expect(button).to_be_disabled()
    assert [run["verb"] for run in live.get("/v1/nodes/other-1/runs")["runs"]] == ["manage"]
    confirm(page, "Provide other-1", typed="other-1")
    state(page, "available").wait_for()


def test_plan_is_made_again_when_the_node_changes(
    page: sync_api.Page, live: service.Service
) -> None:
    uuid = live.create("moved-1")
    live.provision("moved-1", "manage", "manageable")
    page.goto(to(live, "/v1/nodes/moved-1"))
    with page.expect_response(f"**/v1/nodes/{uuid}"):
        press(page, "Provide…")
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_label("Type the name of the node")
    field.fill("moved-1")
    edit(live, "moved-1", {"fake_step_seconds": 0})
    dialog.get_by_text("The node has changed: this is the new plan.").wait_for()
    expect(dialog.get_by_label("What has changed")).to_contain_text("fake_step_seconds")
    expect(field).to_have_value("")
    confirm(page, "Provide moved-1", typed="moved-1")
    state(page, "available").wait_for()


def test_run_under_way_moves_without_a_reload(page: sync_api.Page, live: service.Service) -> None:
    live.create("moves-1")
    live.provision("moves-1", "manage", "manageable")
    edit(live, "moves-1", {"fake_async_steps": ["*"], "fake_step_seconds": 1})
    page.goto(to(live, "/v1/nodes/moves-1"))
    state(page, "manageable").wait_for()
    body = {"target": "provide"}
    live.ask("PUT", "/v1/nodes/moves-1/states/provision", body)
    steps = page.locator(".steps li")
    expect(steps).to_have_count(2)
    page.get_by_role("link", name="Log", exact=True).click()
    log = page.get_by_role("log")
    log.get_by_text(ERASE, exact=False).first.wait_for()
    page.get_by_role("link", name="Overview", exact=True).click()
    expect(steps).to_have_class(["done", "done"])
    state(page, "available").wait_for()


# The page puts its rows in order once a second.
WITHOUT_ORDER = """
const real = window.setInterval;
window.setInterval = (call, after) => after === 1000 ? 0 : real(call, after);
"""


def test_event_is_shown_before_the_rows_are_put_in_order_again(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    uuid = live.create("soon-1")
    page.add_init_script(WITHOUT_ORDER)
    page.goto(to(live, "/v1/nodes?~q=soon-"))
    expect(page.locator(".connection")).to_contain_text("live")
    for lists in ("**/v1/runs?*", "**/v1/holds"):  # They put the rows in order, too.
        page.route(lists, lambda route: route.abort())
    faults.allow("ERR_FAILED")
    with page.expect_response(lambda one: "&uuid=" in one.url and uuid in one.url):
        live.provision("soon-1", "manage", "manageable")
    row(page, "soon-1").get_by_text("manageable", exact=True).wait_for()
    live.provision("soon-1", "provide", "available")
    row(page, "soon-1").get_by_text("available", exact=True).wait_for()


def test_rows_equal_the_api_after_a_restart(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("again-1")
    live.create("again-2")
    page.goto(to(live, "/v1/nodes?~q=again-"))
    row(page, "again-1").wait_for()
    live.again()
    live.provision("again-1", "manage", "manageable")
    live.create("again-3")
    assert live.ask("DELETE", "/v1/nodes/again-2").status_code == 204
    row(page, "again-3").wait_for()
    row(page, "again-2").wait_for(state="detached")
    row(page, "again-1").get_by_text("manageable", exact=True).wait_for()
    expect(page.locator(".connection")).to_contain_text("live")
    grid = page.get_by_role("grid", name="Nodes")
    there = [node["name"] for node in live.get("/v1/nodes")["nodes"]]
    wanted = sorted(name for name in there if name.startswith("again-"))
    expect(grid.locator(".cell.name")).to_have_text(wanted)
    faults.allow("net::ERR_|404.*/v1/nodes/")


def test_hold_refuses_by_kind_and_reason_until_it_ends(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("held-1")
    live.provision("held-1", "manage", "manageable")
    dialog = dialog_of(page, live, "held-1", "Hold…")
    dialog.get_by_label("Kind").select_option("legal")
    dialog.get_by_label("Reason").fill("case 4711")
    dialog.get_by_role("button", name="Hold held-1", exact=True).click()
    page.locator(".node-head").get_by_text("HELD (legal): case 4711").wait_for()
    button = refused(page, "Provide…")
    unfold(button)
    expect(button).to_contain_text("case 4711")
    button.click(force=True)  # of Playwright: it does not press what is marked as disabled
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator(".tabs").get_by_role("link", name="Activity").click()
    page.get_by_role("link", name="Holds", exact=True).click()
    page.get_by_role("button", name="Lift…", exact=True).click()
    expect(dialog).to_contain_text("what may erase the disks")
    dialog.get_by_label("Reason to lift it").fill("case closed")
    dialog.get_by_role("button", name="Lift the hold", exact=True).click()
    dialog.wait_for(state="detached")
    act(page, "Provide…").wait_for(state="attached")
    expect(page.get_by_role("table")).to_contain_text("case closed")


def test_new_hold_freezes_the_machine_until_it_is_lifted(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("frozen-1")
    live.provision("frozen-1", "manage", "manageable")
    dialog = dialog_of(page, live, "frozen-1", "Hold…")
    expect(dialog.get_by_role("status")).to_contain_text("deletion of the node")
    dialog.get_by_label("Kind").select_option("hardware")
    expect(dialog.get_by_role("status")).to_contain_text("Still allows everything else: ERASING")
    dialog.get_by_label("Kind").select_option("freeze")
    dialog.get_by_label("Reason").fill("smoke")
    dialog.get_by_role("button", name="Hold frozen-1", exact=True).click()
    mark = page.locator(".node-head").get_by_role("button", name="HELD (freeze): smoke")
    mark.wait_for()
    for name in ("Clean", "Provide", "Delete", "Inspect"):
        button = refused(page, f"{name}…")
        expect(button).to_contain_text('Press "Lift hold…"')
        expect(button).not_to_contain_text("/v1/")
    page.get_by_role("link", name="Fleet").click()
    page.get_by_role("searchbox").fill("frozen-")  # Else there may be too many rows to draw it.
    expect(row(page, "frozen-1")).to_contain_text("HELD")
    page.go_back()
    press(page, "Lift hold…")
    expect(dialog).to_contain_text("freeze: smoke")
    dialog.get_by_label("Reason to lift it").fill("no more smoke")
    confirm(page, "Lift the hold")
    expect(mark).to_have_count(0)
    act(page, "Clean…").wait_for(state="attached")
    page.get_by_role("link", name="Fleet").click()
    page.get_by_role("searchbox").fill("frozen-")  # Else there may be too many rows to draw it.
    expect(row(page, "frozen-1")).not_to_contain_text("HELD")


def test_node_is_deleted_by_its_typed_name(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow("404.*/v1/nodes/")  # of the reads that are under way when the node goes
    live.create("gone-1")
    dialog = dialog_of(page, live, "gone-1", "Delete…")
    button = dialog.get_by_role("button", name="Delete gone-1", exact=True)
    expect(button).to_be_disabled()
    confirm(page, "Delete gone-1", typed="gone-1")
    page.get_by_role("grid", name="Nodes").wait_for()
    assert live.ask("GET", "/v1/nodes/gone-1").status_code == 404


@pytest.mark.parametrize("tab", ["", "/ports", "/history"])
def test_page_of_a_node_that_is_deleted_elsewhere_reads_no_more(
    page: sync_api.Page, live: service.Service, faults: Faults, tab: str
) -> None:
    name = f"gone-2{tab.replace('/', '-')}"
    live.create(name)
    live.provision(name, "manage", "manageable")
    follows = lambda one: "/v1/events?" in one.url and "node=" in one.url  # noqa: E731
    answered: list[str] = []
    page.on("response", lambda one: answered.append(one.url))
    with page.expect_response(follows):
        page.goto(to(live, f"/v1/nodes/{name}{tab}"))
    # The page reads the node once more when it follows the events.
    while sum(url.endswith(f"/v1/nodes/{name}/why") for url in answered) < 2:
        page.wait_for_timeout(50)
    state(page, "manageable").wait_for()
    assert live.ask("DELETE", f"/v1/nodes/{name}").status_code == 204
    page.get_by_text("This node has been deleted.").wait_for()
    assert faults.left() == []  # a read of the node would be answered with 404


def test_page_that_reads_a_deleted_node_before_its_event_says_so(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("gone-3")
    live.provision("gone-3", "manage", "manageable")

    def delete(route: sync_api.Route) -> None:
        """Delete the node after its first read, before its events are followed."""
        state(page, "manageable").wait_for()
        live.ask("DELETE", "/v1/nodes/gone-3")
        route.continue_()

    page.route("**/v1/events?since=now", delete)
    faults.allow("404")
    page.goto(to(live, "/v1/nodes/gone-3"))
    page.get_by_text("This node has been deleted.").wait_for()


def test_page_of_a_node_that_is_gone_names_the_request(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    page.goto(to(live, "/v1/nodes/no-such-node"))
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("HTTP 404")
    expect(alert.get_by_role("button", name="req-")).to_be_visible()
    faults.allow("404")


def test_keyboard_alone_retries_a_failed_node(open_page: OpenPage, live: service.Service) -> None:
    page = open_page(live)
    failed_node(live, "keys-1")
    edit(live, "keys-1", {})
    page.goto(to(live, "/v1/nodes"))
    row(page, "keys-1").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("keys-1")
    page.keyboard.press("Tab")
    expect(page.locator(".grid .row")).to_have_count(2)
    while page.evaluate("document.activeElement.getAttribute('role')") != "grid":
        page.keyboard.press("Tab")
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    state(page, "clean failed").wait_for()
    while not page.evaluate("document.activeElement.matches('.actions button')"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_label("Type the name of the node")
    field.wait_for()
    expect(field).to_be_focused()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    expect(page.locator(".actions button:focus")).to_have_count(1)
    page.keyboard.press("Enter")
    field.wait_for()
    while not page.evaluate("document.activeElement.matches('dialog .danger input')"):
        page.keyboard.press("Tab")
    page.keyboard.type("keys-1")
    expect(dialog.get_by_role("button", name="Retry keys-1", exact=True)).to_be_enabled()
    page.keyboard.press("Enter")
    state(page, "available").wait_for()
