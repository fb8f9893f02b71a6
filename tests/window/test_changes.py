"""Changes through the window that meet trouble: lost answers, locks, failing batches."""

from __future__ import annotations

from playwright import sync_api

from tests.support import service
from tests.window.acts import ERASE, dialog_of, edit, press, row, state, to, write
from tests.window.conftest import Faults, expect

ANSWERS_LOST = 3
"""The window sends a change as often before it gives up."""


def lose_answers(page: sync_api.Page, method: str, address: str) -> list[str]:
    """Lose the first answers of an address; return the list that each request's key is added to."""
    sent: list[str] = []

    def cut(route: sync_api.Route) -> None:
        if route.request.method != method:
            route.continue_()
            return
        sent.append(route.request.headers["idempotency-key"])
        answer = route.fetch()
        if len(sent) <= ANSWERS_LOST:
            route.abort("connectionreset")
        else:
            route.fulfill(response=answer)

    page.route(address, cut)
    return sent


def test_lost_answer_and_another_press_start_one_run(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("cut-1")
    live.provision("cut-1", "manage", "manageable")
    sent = lose_answers(page, "PUT", "**/states/provision")
    dialog = dialog_of(page, live, "cut-1", "Provide…")
    dialog.get_by_label("Type the name of the node").fill("cut-1")
    button = dialog.get_by_role("button", name="Provide cut-1", exact=True)
    button.click()
    dialog.get_by_text("No answer from").first.wait_for()
    button.click()
    dialog.wait_for(state="detached")
    state(page, "available").wait_for()
    assert len(sent) == ANSWERS_LOST + 1
    assert len(set(sent)) == 1
    runs = [run["verb"] for run in live.get("/v1/nodes/cut-1/runs")["runs"]]
    assert runs.count("provide") == 1
    faults.allow("ERR_CONNECTION_RESET")


def test_locked_node_names_the_holder_and_the_dialog_waits(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    uuid = live.create("lock-1")
    dialog = dialog_of(page, live, "lock-1", "Manage…")
    button = dialog.get_by_role("button", name="Manage lock-1", exact=True)
    expect(button).to_be_enabled()
    lock = "UPDATE nodes SET reservation = ?, lock_token = ?, lock_expires = ? WHERE uuid = ?"
    write(live, lock, "other-conductor", uuid, "2099-01-01 00:00:00.000000", uuid)
    button.click()
    note = dialog.get_by_role("status")
    expect(note).to_contain_text("other-conductor")
    expect(note).to_contain_text("The window tries again")
    write(live, lock, None, None, None, uuid)
    dialog.wait_for(state="detached")
    state(page, "manageable").wait_for()
    faults.allow("409")


class Keyboard:
    """A user who has a keyboard alone."""

    def __init__(self, page: sync_api.Page) -> None:
        self.page = page
        self.dialog = page.get_by_role("dialog")

    def tab_to(self, selector: str, text: str = "", key: str = "Tab") -> None:
        """Press Tab until the element that has the focus is the wanted one."""
        look = "([css, text]) => document.activeElement.matches(css)"
        look += " && document.activeElement.textContent.trim().startsWith(text)"
        for _ in range(100):
            if self.page.evaluate(look, [selector, text]):
                return
            self.page.keyboard.press(key)
        raise AssertionError(f"no key Tab leads to {selector} {text}")

    def press(self, button: str) -> None:
        """Go to a button and press it."""
        self.tab_to("button", button)
        self.page.keyboard.press("Enter")

    def plan_and_confirm(self, typed: str) -> None:
        """In the dialog of a batch: read the plan, type the number of nodes, begin."""
        self.press("Plan")
        self.dialog.get_by_label("Type the number of nodes").wait_for()
        self.tab_to(".danger input", key="Shift+Tab")
        self.page.keyboard.type(typed)
        self.page.keyboard.press("Enter")
        self.dialog.wait_for(state="detached")


def test_batch_by_keyboard_stops_after_its_canary_and_is_resumed(
    page: sync_api.Page, live: service.Service
) -> None:
    names = [f"herd-{number}" for number in range(1, 5)]
    for name in names:
        live.create(name)
        live.provision(name, "manage", "manageable")
    edit(live, names[0], {"fake_fail_steps": {ERASE: "sick canary"}})
    page.goto(to(live, "/v1/nodes"))
    page.get_by_role("grid", name="Nodes").get_by_role("row").nth(1).wait_for()
    user = Keyboard(page)
    table = page.get_by_role("region", name="Nodes of the batch")
    page.keyboard.press("/")
    page.keyboard.type("herd-")
    expect(page.locator(".grid .row")).to_have_count(1 + len(names))
    user.tab_to("[role=grid]")
    page.keyboard.press("Control+a")
    expect(page.locator(".bulk")).to_contain_text("4 selected")
    user.press("Batch…")
    user.dialog.wait_for()
    expect(user.dialog.get_by_label("Request")).to_have_value("")
    expect(user.dialog.get_by_role("button", name="Plan")).to_be_disabled()
    user.tab_to("label:first-child > select", key="Shift+Tab")
    page.keyboard.type("Provide")
    expect(user.dialog.get_by_label("Request")).to_have_value("provide")
    expect(user.dialog.get_by_label("Waves")).to_have_value("canary: one, then all")
    user.plan_and_confirm("4")
    page.get_by_text("Left to do: 3 nodes").wait_for()
    expect(page.locator(".node-head")).to_contain_text("3 pending, 1 failed")
    waves = page.get_by_role("list", name="Nodes by wave, counted")
    expect(waves.get_by_role("listitem")).to_have_text(["wave 1: 1 failed", "wave 2: 3 waiting"])
    expect(table.get_by_role("row", name=names[0])).to_contain_text("sick canary")
    found = [live.get(f"/v1/nodes/{name}")["provision_state"] for name in names]
    assert found == ["clean failed", *["manageable"] * 3]

    user.press("Resume…")
    user.dialog.get_by_label("Type the number of nodes").wait_for()
    user.tab_to(".danger input")
    page.keyboard.type("3")
    expect(user.dialog.get_by_role("button", name="Resume", exact=True)).to_be_enabled()
    page.keyboard.press("Enter")
    user.dialog.wait_for(state="detached")
    for name in names[1:]:
        live.settled(name, "available")
    expect(table.get_by_role("row", name=names[3])).to_contain_text("done")
    edit(live, names[0], {})
    user.press("Retry the failed…")
    user.dialog.wait_for()
    expect(user.dialog.get_by_label("Request")).to_have_value("retry")
    user.plan_and_confirm("1")
    service.until(
        lambda: live.get(f"/v1/nodes/{names[0]}")["provision_state"] == "available", names[0]
    )


def test_plan_of_a_batch_names_the_chosen_canary(
    page: sync_api.Page, live: service.Service
) -> None:
    for number in range(3):
        live.create(f"wing-{number}")
        live.provision(f"wing-{number}", "manage", "manageable")
        live.provision(f"wing-{number}", "provide", "available")
    page.goto(to(live, "/v1/nodes?~q=wing-"))
    grid = page.get_by_role("grid", name="Nodes")
    expect(grid).to_have_attribute("aria-rowcount", "4")
    grid.focus()
    page.keyboard.press("Control+a")
    page.get_by_role("button", name="Batch…").click()
    dialog = page.get_by_role("dialog")
    request = dialog.get_by_label("Request")
    expect(request).to_have_value("")
    offered = [one.strip() for one in request.locator("option").all_inner_texts()]
    assert len(offered) == len(set(offered))
    assert {"Deploy", "Manage"} < set(offered)
    expect(dialog).to_contain_text("use Manage first")
    request.select_option("manage")
    dialog.get_by_label("Canary, goes first").select_option("wing-2")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    expect(dialog).to_contain_text("wing-2 goes first, alone, then the other 2, at most 8 at once.")
    # Nothing is lost by it, so nothing is to be typed.
    expect(dialog.get_by_role("button", name="Manage 3 nodes", exact=True)).to_be_enabled()
    expect(dialog.get_by_label("Type the number of nodes")).to_have_count(0)


def test_filter_that_gives_another_count_is_refused(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    for number in range(51):
        live.create(f"many-{number}", resource_class="it's $many")
    page.goto(to(live, "/v1/nodes?resource_class=it%27s+%24many"))
    grid = page.get_by_role("grid", name="Nodes")
    expect(grid).to_have_attribute("aria-rowcount", "52")
    grid.focus()
    page.keyboard.press("Control+a")
    page.get_by_role("button", name="Batch…").click()
    dialog = page.get_by_role("dialog")
    copied = dialog.locator("footer button.curl").get_attribute("title") or ""
    assert '"expect":51' in copied
    live.create("many-51", resource_class="it's $many")
    dialog.get_by_label("Request").select_option("manage")
    dialog.get_by_role("button", name="Plan").click()
    expect(dialog.get_by_role("alert")).to_contain_text("52")
    faults.allow("40[09]|422")


def test_other_request_of_a_batch_asks_for_its_own_confirmation(
    page: sync_api.Page, live: service.Service
) -> None:
    for number in range(3):
        live.create(f"asked-{number}")
        live.provision(f"asked-{number}", "manage", "manageable")
    body = {"kind": "freeze", "reason": "case 7"}
    assert live.ask("POST", "/v1/nodes/asked-1/holds", body).status_code == 201
    page.goto(to(live, "/v1/nodes?~q=asked-"))
    grid = page.get_by_role("grid", name="Nodes")
    expect(grid).to_have_attribute("aria-rowcount", "4")
    grid.focus()
    page.keyboard.press("Control+a")
    page.get_by_role("button", name="Batch…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Request").select_option("inspect")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    expect(dialog).to_contain_text("1 of them would refuse the request now")
    expect(dialog.get_by_role("listitem")).to_contain_text("asked-1: Held (freeze): case 7.")
    typed = dialog.get_by_label("Type the number of nodes")
    expect(dialog.get_by_role("button", name="Inspect 2 nodes")).to_be_enabled()
    expect(typed).to_have_count(0)
    for waves in ("all at once", "canary: one, then all"):
        dialog.get_by_label("Request").select_option("provide")
        dialog.get_by_label("Waves").select_option(waves)
        typed.wait_for(state="detached")
        dialog.get_by_role("button", name="Plan", exact=True).click()
        expect(typed).to_have_value("")
        typed.fill("2")
        expect(dialog.get_by_role("button", name="Provide 2 nodes")).to_be_enabled()
    dialog.get_by_label("Failures allowed").fill("1")
    typed.wait_for(state="detached")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    expect(typed).to_have_value("")
    button = dialog.get_by_role("button", name="Provide 2 nodes")
    expect(button).to_be_disabled()
    typed.fill("2")
    expect(button).to_be_enabled()


def test_refusals_of_a_batch_name_nodes_and_acts_of_the_window(
    page: sync_api.Page, live: service.Service
) -> None:
    uuids = [live.create(f"named-{number}") for number in range(3)]
    for number in range(2):
        live.provision(f"named-{number}", "manage", "manageable")
        live.provision(f"named-{number}", "provide", "available")
    assert live.ask("PUT", "/v1/nodes/named-1/maintenance", {}).status_code == 202
    page.goto(to(live, "/v1/nodes?~q=named-"))
    expect(page.get_by_role("grid", name="Nodes")).to_have_attribute("aria-rowcount", "4")
    page.get_by_role("grid", name="Nodes").focus()
    page.keyboard.press("Control+a")
    page.get_by_role("button", name="Batch…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Request").select_option("active")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    refused = dialog.locator("ul > li")
    expect(refused).to_have_count(2)
    expect(refused.filter(has_text="named-2:")).to_contain_text(
        'performed on node "named-2" while it is in state "enroll".'
    )
    expect(refused.filter(has_text="named-1:")).to_contain_text('by "End maintenance" first.')
    for text in (*uuids, "/v1/", "Possible targets"):
        expect(dialog.locator("ul")).not_to_contain_text(text)


def test_batch_that_stops_an_instance_asks_for_the_number(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("inst-1")
    live.create("inst-2")
    for target, reached in (
        ("manage", "manageable"),
        ("provide", "available"),
        ("active", "active"),
    ):
        live.provision("inst-1", target, reached)
    page.goto(to(live, "/v1/nodes?~q=inst-"))
    page.get_by_role("grid", name="Nodes").focus()
    row(page, "inst-2").wait_for()
    page.keyboard.press("Control+a")
    page.get_by_role("button", name="Power…").click()
    dialog = page.get_by_role("dialog")
    number = dialog.get_by_label("Type the number of nodes")
    for target, button, asked in (
        ("power on", "Power on 2 nodes", False),
        ("power off", "Power off 2 nodes", True),
    ):
        dialog.get_by_label("Request").select_option(target)
        dialog.get_by_role("button", name="Plan", exact=True).click()
        do = dialog.get_by_role("button", name=button, exact=True)
        expect(do).to_be_disabled() if asked else expect(do).to_be_enabled()
        expect(number).to_have_count(int(asked))
    number.fill("2")
    expect(do).to_be_enabled()
    for name in ("inst-1", "inst-2"):  # Other tests count active nodes.
        assert live.ask("PUT", f"/v1/nodes/{name}/maintenance", {}).status_code == 202
        assert live.ask("DELETE", f"/v1/nodes/{name}").status_code == 204


def test_data_state_is_not_declared_of_a_node_that_has_changed(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("declared-1")
    page.goto(to(live, "/v1/nodes/declared-1"))
    page.locator(".actions").wait_for()
    was = live.get("/v1/nodes/declared-1/why")["data_state"]
    press(page, "Data…")
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("select")).to_have_value(was)
    dialog.locator("select").select_option("dirty")
    dialog.get_by_label("Reason").fill("came back from a customer")
    button = dialog.get_by_role("button", name="Declare", exact=True)
    expect(button).to_be_enabled()
    edit(live, "declared-1", {"fake_step_seconds": 1})
    button.click()
    expect(dialog.get_by_role("alert")).to_contain_text("HTTP 412")
    assert live.get("/v1/nodes/declared-1/why")["data_state"] == was
    dialog.get_by_role("button", name="Cancel").click()
    page.reload()
    press(page, "Data…")
    dialog.locator("select").select_option("dirty")
    dialog.get_by_label("Reason").fill("came back from a customer")
    button.click()
    dialog.wait_for(state="detached")
    assert live.get("/v1/nodes/declared-1/why")["data_state"] == "dirty"
    faults.allow("412")


def test_lost_answer_and_another_press_make_one_hold(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("cut-2")
    sent = lose_answers(page, "POST", "**/holds")
    dialog = dialog_of(page, live, "cut-2", "Hold…")
    dialog.get_by_label("Reason").fill("a loose cable")
    button = dialog.get_by_role("button", name="Hold cut-2", exact=True)
    button.click()
    dialog.get_by_text("No answer from").first.wait_for()
    copied = dialog.locator("footer button.curl").get_attribute("title") or ""
    assert sent[0] in copied
    button.click()
    dialog.wait_for(state="detached")
    assert len(sent) == ANSWERS_LOST + 1
    assert len(set(sent)) == 1
    assert len(live.get("/v1/nodes/cut-2/holds")["holds"]) == 1
    faults.allow("ERR_CONNECTION_RESET")
