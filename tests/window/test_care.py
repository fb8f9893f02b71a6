"""What keeps an operator from acting on the wrong machine, or on data that should stay."""

from __future__ import annotations

import re

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import ERASE, act, endless_cleaning, press, row, state, to
from tests.window.conftest import expect
from tests.window.test_files import MODULES


def ready(live: service.Service, *names: str) -> None:
    """Create manageable nodes."""
    for name in names:
        live.create(name)
        live.provision(name, "manage", "manageable")


def used(live: service.Service, name: str) -> None:
    """Create a node with an instance."""
    ready(live, name)
    live.provision(name, "provide", "available")
    live.provision(name, "active", "active")


def select(page: sync_api.Page, live: service.Service, prefix: str, count: int) -> None:
    """Select the nodes of the fleet whose names begin so."""
    page.goto(to(live, f"/v1/nodes?~q={prefix}"))
    grid = page.get_by_role("grid", name="Nodes")
    expect(grid).to_have_attribute("aria-rowcount", str(count + 1))
    grid.focus()
    page.keyboard.press("Control+a")


@pytest.mark.parametrize("way", ["back", "address"])
def test_dialog_and_menu_close_when_the_page_changes(
    page: sync_api.Page, live: service.Service, way: str
) -> None:
    names = (f"nav-{way}-1", f"nav-{way}-2")
    for name in names:
        live.create(name)
    for name in (names[1], names[0]):
        page.goto(to(live, f"/v1/nodes/{name}"))
        page.get_by_role("heading", name=name).wait_for()
    page.locator("main .menu summary").first.click()
    page.evaluate("location.hash += '/ports'")
    expect(page.locator("main .menu[open]")).to_have_count(0)
    page.go_back()
    press(page, "Hold…")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(names[0])
    if way == "back":
        page.go_back()
    else:
        page.evaluate("to => { location.hash = to; }", f"#/v1/nodes/{names[1]}")
    page.get_by_role("heading", name=names[1]).wait_for()
    expect(dialog).to_have_count(0)


# A busy machine may look later than the time for which a sentence is shown.
[SHOWN_MS] = re.findall(
    r"^const SHOWN_MS = (\d+);$", (MODULES / "parts/toasts.tsx").read_text(), re.M
)
SENTENCES_STAY = f"""
const real = window.setTimeout;
window.setTimeout = (call, after, ...more) =>
  after === {SHOWN_MS} ? 0 : real(call, after, ...more);
"""


def test_escape_clears_and_never_leads_to_another_page(
    page: sync_api.Page, live: service.Service
) -> None:
    page.add_init_script(SENTENCES_STAY)
    live.create("esc-1")
    page.goto(to(live, "/v1/nodes?~q=esc-"))
    page.get_by_role("link", name="esc-1").click()
    page.get_by_role("heading", name="esc-1").wait_for()
    here = page.url
    menu = page.locator("main .menu").first
    menu.locator("summary").click()
    page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", "")
    press(page, "Hold…")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("y")
    said = page.locator(".live p")
    expect(said).to_have_count(1)
    page.keyboard.press("Escape")
    expect(said).to_have_count(0)
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="esc-1").wait_for()
    assert page.url == here


# As a busy browser does: the key comes after the dialog, and before the event that it has closed.
CLOSE_AND_PRESS = """() => {
  document.querySelector("dialog").close();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "y", bubbles: true }));
}"""


def test_key_right_after_a_dialog_is_of_the_page(
    page: sync_api.Page, live: service.Service
) -> None:
    page.add_init_script(SENTENCES_STAY)
    live.create("quick-1")
    page.goto(to(live, "/v1/nodes/quick-1"))
    press(page, "Hold…")
    page.get_by_role("dialog").wait_for()
    page.evaluate(CLOSE_AND_PRESS)
    expect(page.locator(".live p")).to_have_count(1)


# The browser asks the user, who does not answer.
SILENT_CLIPBOARD = """
navigator.clipboard.writeText = () => new Promise(() => {});
document.execCommand = () => false;
"""


def test_copy_that_cannot_be_made_says_so(page: sync_api.Page, live: service.Service) -> None:
    live.create("mute-1")
    page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', { value: {} });"
        + SILENT_CLIPBOARD
        + SENTENCES_STAY
    )
    page.goto(to(live, "/v1/nodes/mute-1"))
    page.get_by_role("heading", name="mute-1").wait_for()
    page.keyboard.press("y")
    expect(page.locator(".live")).to_contain_text(f"Copy it yourself: {page.url}")


def test_letters_work_while_a_button_has_the_focus_and_its_own_keys_press_it(
    page: sync_api.Page, live: service.Service
) -> None:
    page.add_init_script(SENTENCES_STAY)
    live.create("letter-1")
    page.goto(to(live, "/v1/nodes/letter-1"))
    button = act(page, "Manage…")
    button.focus()
    page.keyboard.press("y")
    expect(page.locator(".live p")).to_have_count(1)
    expect(button).to_be_focused()
    for key in ("Enter", "Space"):
        page.keyboard.press(key)
        page.get_by_role("dialog", name="Manage letter-1").wait_for()
        page.keyboard.press("Escape")
        expect(button).to_be_focused()


def test_resume_and_retry_of_a_batch_that_erases_ask_for_the_number(
    page: sync_api.Page, live: service.Service
) -> None:
    names = ("pause-1", "pause-2", "pause-3")
    ready(live, *names)
    patch = [{"op": "add", "path": "/driver_info", "value": {"fake_fail_steps": {ERASE: "sick"}}}]
    assert live.ask("PATCH", "/v1/nodes/pause-1", patch).status_code == 200
    body = {"nodes": names, "request": {"target": "provide"}, "waves": [1, "100%"]}
    batch = live.ask("POST", "/v1/batches", body).json()["uuid"]
    service.until(lambda: live.get(f"/v1/batches/{batch}")["state"] == "paused", "the pause")
    page.goto(to(live, f"/v1/batches/{batch}"))
    press(page, "Resume…")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Paused after failures. Provide goes on with 2 nodes.")
    expect(dialog).to_contain_text("This may destroy the data on 2 nodes.")
    button = dialog.get_by_role("button", name="Resume", exact=True)
    expect(button).to_be_disabled()
    number = dialog.get_by_label("Type the number of nodes")
    number.fill("3")
    expect(button).to_be_disabled()
    number.fill("2")
    expect(button).to_be_enabled()
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Retry the failed…").click()
    dialog.get_by_role("button", name="Plan", exact=True).click()
    expect(dialog).to_contain_text(re.compile("estroys? the data on 1 node: pause-1"))
    expect(dialog.get_by_role("button", name="Retry 1 node", exact=True)).to_be_disabled()
    number.fill("1")
    expect(dialog.get_by_role("button", name="Retry 1 node", exact=True)).to_be_enabled()


def test_dialog_says_what_an_order_interrupts(page: sync_api.Page, live: service.Service) -> None:
    used(live, "tick-1")
    page.goto(to(live, "/v1/nodes/tick-1/states"))
    dialog = page.get_by_role("dialog")
    press(page, "Power off…")
    expect(dialog).to_contain_text(
        "At once cuts the power of tick-1; an instance is running on it."
    )
    button = dialog.get_by_role("button", name="Power off tick-1", exact=True)
    expect(button).to_be_disabled()
    dialog.get_by_label("This interrupts the instance on tick-1").fill("tick-1")
    expect(button).to_be_enabled()
    page.keyboard.press("Escape")
    page.locator(".orders").get_by_role("button", name="disk…", exact=True).click()
    expect(dialog).to_contain_text("tick-1 boots from disk once.")
    page.keyboard.press("Escape")
    select(page, live, "tick-", 1)
    page.get_by_role("button", name="Power…").click()
    dialog.get_by_label("Request").select_option("power off")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    expect(dialog).to_contain_text("Power off interrupts the instances on 1 node: tick-1.")


def test_verb_that_destroys_data_is_never_the_primary_button(
    page: sync_api.Page, live: service.Service
) -> None:
    used(live, "blue-1")
    ready(live, "blue-2")
    body = {"reason": "swap disk 3"}
    assert live.ask("PUT", "/v1/nodes/blue-2/maintenance", body).status_code == 202
    page.goto(to(live, "/v1/nodes/blue-1"))
    act(page, "Undeploy…").wait_for()
    expect(page.locator(".primary")).to_have_count(0)
    page.goto(to(live, "/v1/nodes/blue-2"))
    state(page, "manageable").wait_for()
    press(page, "Provide…")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("blue-2 is in maintenance: swap disk 3.")
    dialog.get_by_label("Type the name of the node").fill("blue-2")
    expect(dialog.get_by_role("button", name="Provide blue-2", exact=True)).to_be_enabled()
    expect(page.locator(".primary")).to_have_count(0)


def test_lift_of_a_hold_needs_a_reason_of_its_own(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("lift-1")
    hold = {"kind": "freeze", "reason": "case 7"}
    assert live.ask("POST", "/v1/nodes/lift-1/holds", hold).status_code == 201
    page.goto(to(live, "/v1/nodes/lift-1/holds"))
    expect(page.get_by_role("region", name="Holds").get_by_role("row").last).to_contain_text(
        "no login"
    )
    press(page, "Lift hold…")
    dialog = page.get_by_role("dialog")
    reason = dialog.get_by_label("Reason to lift it")
    button = dialog.get_by_role("button", name="Lift the hold", exact=True)
    expect(dialog).to_contain_text("Held by no login")
    expect(reason).to_have_value("")
    expect(button).to_be_disabled()
    reason.fill("case 7 is closed")
    expect(button).to_be_enabled()


def test_lift_of_a_hold_allows_what_no_other_hold_blocks(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("lift-2")
    for kind, reason in (("freeze", "smoke"), ("freeze", "water"), ("hardware", "a loud fan")):
        hold = {"kind": kind, "reason": reason}
        assert live.ask("POST", "/v1/nodes/lift-2/holds", hold).status_code == 201
    page.goto(to(live, "/v1/nodes/lift-2/holds"))
    holds = page.get_by_role("region", name="Holds")
    dialog = page.get_by_role("dialog")
    for kind in ("water", "a loud fan"):
        lift = holds.get_by_role("row", name=kind).get_by_role("button", name="Lift…", exact=True)
        lift.click()
        expect(dialog).to_contain_text("Still blocked by: freeze: smoke")
        expect(dialog).not_to_contain_text("Allowed again")
        if kind == "water":
            dialog.get_by_role("button", name="Cancel").click()
    (smoke,) = [
        one["uuid"]
        for one in live.get("/v1/nodes/lift-2/holds")["holds"]
        if one["reason"] == "smoke"
    ]
    dialog.get_by_role("combobox").select_option(smoke)
    expect(dialog).to_contain_text("Still blocked by: freeze: water; hardware: a loud fan.")
    dialog.get_by_role("button", name="Cancel").click()
    gone = f"/v1/nodes/lift-2/holds/{smoke}?reason=air"
    assert live.ask("DELETE", gone).status_code == 204
    holds.get_by_role("row", name="smoke").get_by_text("air").wait_for()
    holds.get_by_role("row", name="water").get_by_role("button", name="Lift…").click()
    expect(dialog).to_contain_text(
        "Allowed again: every verb; power changes; deletion of the node. "
        "Still blocked by: hardware: a loud fan."
    )


HALF = "An erase that is aborted leaves the disks partly erased."


def test_abort_of_a_running_erase_says_what_it_leaves(
    page: sync_api.Page, live: service.Service
) -> None:
    with endless_cleaning(live, "half-1"):
        page.goto(to(live, "/v1/nodes/half-1"))
        dialog = page.get_by_role("dialog")
        press(page, "Abort…")
        button = dialog.get_by_role("button", name="Abort half-1", exact=True)
        expect(dialog).to_contain_text(f"deploy.erase_devices_metadata is under way. {HALF}")
        expect(button).to_be_enabled()
        page.keyboard.press("Escape")
        press(page, "Stop at the next step…")
        button = dialog.get_by_role("button", name="Stop the run of half-1", exact=True)
        expect(button).to_be_enabled()
        dialog.get_by_label("abort the run").check()
        expect(dialog).to_contain_text("deploy.erase_devices_metadata ends at once.")
        expect(dialog).to_contain_text(HALF)
        expect(button).to_be_enabled()
        # After a step it is no abort of the erase.
        dialog.get_by_label("Stop after").select_option(index=1)
        expect(dialog).to_contain_text("The step under way ends first.")
        expect(dialog).not_to_contain_text(HALF)
        page.keyboard.press("Escape")
        select(page, live, "half-", 1)
        page.get_by_role("button", name="Batch…").click()
        dialog.get_by_label("Request").select_option("abort")
        dialog.get_by_role("button", name="Plan", exact=True).click()
        expect(dialog).to_contain_text(f"Abort ends the runs of 1 node. {HALF}")
        expect(dialog.get_by_role("button", name="Abort 1 node", exact=True)).to_be_enabled()


def test_plan_of_a_batch_names_what_is_destroyed_and_its_steps(
    page: sync_api.Page, live: service.Service
) -> None:
    ready(live, "wipe-1", "wipe-2", "wipe-3")
    select(page, live, "wipe-", 3)
    row(page, "wipe-3").wait_for()
    page.get_by_role("button", name="Batch…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Request").select_option("provide")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    expect(dialog).to_contain_text("Destroys the data on 3 nodes: wipe-1, wipe-2, wipe-3.")
    expect(dialog).to_contain_text("On wipe-1:")
    expect(dialog.locator(".plan li", has_text=ERASE).first).to_contain_text("DESTROYS DATA")
