"""Pages beside those of machines, with their forms; the tab with the console of a node."""

from __future__ import annotations

import re

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import to
from tests.window.conftest import Faults, expect
from tests.window.test_pages import LOST, violations

PHONE = {"width": 390, "height": 844}
URL = "https://hooks.example.org/metal"


def sound(page: sync_api.Page) -> None:
    """Check that a page violates no rule, and that a phone shows all of it."""
    assert violations(page) == []
    before = page.viewport_size
    assert before is not None
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    assert page.evaluate(LOST) == []
    page.set_viewport_size(before)


def term(page: sync_api.Page, label: str) -> sync_api.Locator:
    """Return the value beside a label of an entry."""
    return page.locator("main dt", has_text=re.compile(f"^{label}$")).locator("+ dd")


@pytest.mark.parametrize("by", ["bar", "palette"])
def test_conductor_is_found_from_the_bar_and_the_palette(
    page: sync_api.Page, live: service.Service, by: str
) -> None:
    (known,) = live.get("/v1/conductors")["conductors"]
    page.goto(to(live, "/v1/nodes"))
    if by == "bar":
        page.locator(".bar summary", has_text="More").click()
        page.get_by_role("link", name="Conductors", exact=True).click()
    else:
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Pages, nodes and verbs").fill("conduct")
        page.keyboard.press("Enter")
    page.get_by_role("heading", name="Conductors", level=1).wait_for()
    expect(page.locator(".bar nav .menu")).not_to_have_attribute("open", "")
    table = page.get_by_role("region", name="Conductors")
    expect(table.get_by_role("columnheader")).to_have_text(
        ["Host", "Group", "Alive", "Last heartbeat", "Drivers", "Copy"]
    )
    sound(page)
    table.get_by_role("link", name=known["hostname"]).click()
    page.get_by_role("heading", name=known["hostname"], level=1).wait_for()
    expect(term(page, "Alive")).to_have_text("yes")
    expect(term(page, "Drivers")).to_contain_text("fake-hardware")
    expect(page.locator("dl.tree").get_by_text("links")).to_have_count(0)
    sound(page)
    page.get_by_role("link", name="nodes of this conductor").click()
    page.get_by_role("grid", name="Nodes").wait_for()
    assert f"conductor={known['hostname']}" in page.url


def test_webhook_is_added_paused_resumed_and_deleted(
    page: sync_api.Page, live: service.Service
) -> None:
    node = live.create("hook-1")
    page.goto(to(live, "/v1/webhooks"))
    page.get_by_role("button", name="Add webhook…").click()
    dialog = page.get_by_role("dialog")
    add = dialog.get_by_role("button", name="Add the webhook")
    expect(dialog.get_by_role("textbox", name="URL")).to_be_focused()
    expect(add).to_be_disabled()
    dialog.get_by_role("textbox", name="URL").fill(URL)
    dialog.get_by_label("Kinds of events").fill("fault, power")
    dialog.get_by_label("Nodes").fill("hook-1")
    sound(page)
    page.keyboard.press("Enter")
    secret = page.get_by_role("dialog", name="Secret of the webhook")
    expect(secret.locator("code")).to_have_text(re.compile(r"^whsec_\S{20,}$"))
    shown = secret.locator("code").inner_text()
    sound(page)
    secret.get_by_role("button", name="Close").click()
    page.get_by_role("heading", name=URL, level=1).wait_for()
    expect(term(page, "Kinds")).to_have_text("fault, power")
    expect(term(page, "Nodes").get_by_role("link")).to_have_attribute("href", f"#/v1/nodes/{node}")
    assert shown not in page.content()
    assert shown not in page.evaluate("JSON.stringify(localStorage) + location.href")
    sound(page)
    for button, state in (("Pause", "paused"), ("Resume", "active")):
        page.get_by_role("button", name=f"{button}…").click()
        page.get_by_role("dialog").get_by_role("button", name=button, exact=True).click()
        expect(term(page, "State")).to_have_text(state)
    page.goto(to(live, "/v1/webhooks"))
    table = page.get_by_role("region", name="Webhooks")
    sound(page)
    table.get_by_role("link", name=URL).click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the webhook").click()
    page.get_by_role("heading", name="Webhooks", level=1).wait_for()
    expect(page.get_by_role("link", name=URL)).to_have_count(0)
    assert URL not in {hook["url"] for hook in live.get("/v1/webhooks")["webhooks"]}


def test_refused_webhook_keeps_what_was_typed(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    page.goto(to(live, "/v1/webhooks"))
    page.get_by_role("button", name="Add webhook…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="URL").fill(URL)
    dialog.get_by_label("Kinds of events").fill("faults")
    dialog.get_by_role("button", name="Add the webhook").click()
    expect(dialog.get_by_role("alert")).to_contain_text("kinds")
    expect(dialog.get_by_role("textbox", name="URL")).to_have_value(URL)
    assert URL not in {hook["url"] for hook in live.get("/v1/webhooks")["webhooks"]}
    faults.allow("400")


def test_console_is_switched_on_and_off(page: sync_api.Page, live: service.Service) -> None:
    live.create("line-1")
    live.provision("line-1", "manage", "manageable")
    page.goto(to(live, "/v1/nodes/line-1"))
    page.get_by_role("navigation", name="Parts of the node").get_by_role(
        "link", name="Console"
    ).click()
    panel = page.get_by_role("region", name="Serial console")
    expect(panel.get_by_role("button", name="off…")).to_have_attribute("aria-current", "true")
    assert page.url.endswith("/line-1/states/console")
    sound(page)
    for target, enabled in (("on", True), ("off", False)):
        panel.get_by_role("button", name=f"{target}…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name=f"Console: {target}", exact=True).click()
        button = panel.get_by_role("button", name=f"{target}…")
        expect(button).to_have_attribute("aria-current", "true")
        assert live.get("/v1/nodes/line-1/states/console")["console_enabled"] is enabled
        expect(panel.get_by_text("The driver names no address.")).to_have_count(int(enabled))
        sound(page)


def test_node_without_a_console_says_so(page: sync_api.Page, live: service.Service) -> None:
    live.create("line-2", console_interface="no-console")
    page.goto(to(live, "/v1/nodes/line-2/states/console"))
    panel = page.get_by_role("region", name="Serial console")
    expect(panel.get_by_role("button", name="on…")).to_have_attribute("aria-disabled", "true")
    expect(panel.get_by_role("alert")).to_have_count(0)


STEPS = {
    "runbooks": ("Runbooks", "runbook", "order", [1, 2]),
    "deploy_templates": ("Deploy templates", "deploy template", "priority", [20, 10]),
}


@pytest.mark.parametrize("root", STEPS)
def test_list_of_steps_is_added_and_deleted(
    page: sync_api.Page, live: service.Service, root: str
) -> None:
    title, word, by, numbers = STEPS[root]
    name = f"CUSTOM_{root.upper()}"
    page.goto(to(live, f"/v1/{root}"))
    page.get_by_role("button", name=f"Add {word}…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_role("button", name="One more step").click()
    for number, step in ((1, "erase_devices"), (2, "reset_bios")):
        group = dialog.get_by_role("group", name=f"Step {number}")
        group.get_by_label("Interface").select_option("deploy" if number == 1 else "bios")
        group.get_by_label("Step").fill(step)
    dialog.get_by_label("Arguments, as JSON").first.fill("{")
    add = dialog.get_by_role("button", name=f"Add the {word}")
    expect(add).to_be_disabled()
    dialog.get_by_label("Arguments, as JSON").first.fill('{"tags": ["a"]}')
    sound(page)
    add.click()
    page.get_by_role("heading", name=name, level=1).wait_for()
    expect(page.get_by_role("region", name="Steps")).to_contain_text("bios.reset_bios")
    sound(page)
    made = live.get(f"/v1/{root}/{name}")["steps"]
    assert [(one["step"], one[by]) for one in made] == list(
        zip(("erase_devices", "reset_bios"), numbers, strict=True)
    )
    assert made[0]["args"] == {"tags": ["a"]}
    page.goto(to(live, f"/v1/{root}"))
    sound(page)
    page.get_by_role("region", name=title).get_by_role("link", name=name).click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name=f"Delete the {word}").click()
    page.get_by_role("heading", name=title, level=1).wait_for()
    assert name not in {one["name"] for one in live.get(f"/v1/{root}")[root]}


def test_allocation_is_added_and_deleted(page: sync_api.Page, live: service.Service) -> None:
    page.goto(to(live, "/v1/allocations"))
    page.get_by_role("button", name="Add allocation…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Class").fill("no-such-class")
    dialog.get_by_label("Name").fill("wanted-1")
    sound(page)
    dialog.get_by_role("button", name="Add the allocation").click()
    page.get_by_role("heading", name="wanted-1", level=1).wait_for()
    expect(term(page, "State")).to_have_text("error")
    expect(term(page, "Class")).to_have_text("no-such-class")
    sound(page)
    page.goto(to(live, "/v1/allocations"))
    sound(page)
    page.get_by_role("link", name="wanted-1").click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the allocation").click()
    page.get_by_role("heading", name="Allocations", level=1).wait_for()
    assert live.get("/v1/allocations")["allocations"] == []
