"""Each change that the window sends: its key, the tag that was seen, and its copy as curl."""

from __future__ import annotations

import dataclasses
import json
import re
import secrets
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import dialog_of, endless_cleaning, press, state, to
from tests.window.conftest import Faults, expect

KEY = re.compile(r"\d+(-\d+){3}")
Step = Callable[[sync_api.Page], None]


@dataclasses.dataclass(frozen=True)
class Sent:
    """A change: its method, path, body and headers by their names in lower case."""

    method: str
    path: str
    body: Any
    headers: dict[str, str]


class Changes:
    """The changes that a page sends; plans are none."""

    def __init__(self, page: sync_api.Page, url: str) -> None:
        self.all: list[Sent] = []
        self._url = url
        page.on("request", self._hear)

    def _hear(self, asked: sync_api.Request) -> None:
        path = asked.url.removeprefix(self._url)
        if asked.method in {"GET", "HEAD"} or re.search(r"/plan$|\?plan=true$", path):
            return
        body = json.loads(asked.post_data) if asked.post_data else None
        self.all.append(Sent(asked.method, path, body, asked.headers))


def copied(text: str) -> Sent:
    """Return the request that a copied command sends."""
    words = shlex.split(text.partition("\n")[2].replace('"$api"', ""))
    method, body, path = "GET", None, ""
    headers = {}
    rest = iter(words[1:])
    for word in rest:
        if word == "-X":
            method = next(rest)
        elif word == "-d":
            body = json.loads(next(rest))
        elif word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name.lower()] = value
        elif word.startswith("/v1"):
            path = word
    return Sent(method, path, body, headers)


class Acts:
    """Does acts of the window, and checks what each has sent."""

    def __init__(self, page: sync_api.Page, live: service.Service) -> None:
        self.page = page
        self.dialog = page.get_by_role("dialog")
        self.changes = Changes(page, live.url)
        self.keys: set[str] = set()

    def do(self, button: str, *, fill: Step | None = None, tag: bool = True) -> None:
        """Confirm the open dialog by a button; ``tag``: the change names the node's version."""
        self.dialog.wait_for()
        if fill:
            fill(self.page)
        named = self.dialog.get_by_role("button", name=button, exact=True)
        expect(named).to_be_enabled()
        text = self.dialog.locator("footer > button.curl").first.get_attribute("title") or ""
        before = len(self.changes.all)
        named.click()
        self.dialog.wait_for(state="detached")
        (sent,) = self.changes.all[before:]
        self.check(sent, text, tag=tag)

    def check(self, sent: Sent, text: str, *, tag: bool) -> None:
        """Check one change, and that its copy is the same request."""
        key = sent.headers["idempotency-key"]
        assert KEY.fullmatch(key), key
        assert key not in self.keys, "another change had this key"
        self.keys.add(key)
        assert ("if-match" in sent.headers) is tag, sent
        said = copied(text)
        named = {name: sent.headers.get(name) for name in said.headers if name != "content-type"}
        assert said.headers.items() >= named.items()
        # With the key, a copy that is run again would do nothing.
        assert named.keys() == ({"if-match"} if tag else set())
        assert (said.method, said.body) == (sent.method, sent.body)
        # A dialog may name the node by its name where the window sends the UUID.
        parts, others = (one.path.split("/") for one in (said, sent))
        assert (parts[:3], parts[4:]) == (others[:3], others[4:])


def give(label: str, value: str) -> Step:
    """Return a step that fills a field of the dialog."""
    return lambda page: page.get_by_role("dialog").get_by_label(label).fill(value)


def count(page: sync_api.Page) -> None:
    """Type the number of nodes that the dialog names."""
    dialog = page.get_by_role("dialog")
    (number,) = re.findall(r"goes on with (\d+) node", dialog.inner_text())
    dialog.get_by_label("Type the number of nodes").fill(number)


def test_each_act_on_a_node_names_its_version_and_is_sent_once(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("sent-1")
    acts = Acts(page, live)
    page.goto(to(live, "/v1/nodes/sent-1"))
    press(page, "Manage…")
    acts.do("Manage sent-1")
    state(page, "manageable").wait_for()
    press(page, "Power on…")
    acts.do("Power on sent-1")
    page.locator(".node-head").get_by_text("power on", exact=True).wait_for()
    press(page, "Maintenance…")
    acts.do("Set maintenance")
    press(page, "End maintenance")
    page.locator(".live").get_by_text("sent-1 is out of maintenance.").wait_for()
    assert "if-match" in acts.changes.all[-1].headers
    press(page, "Data…")
    acts.do("Declare", fill=give("Reason", "as found"))
    press(page, "Hold…")
    acts.do("Hold sent-1", fill=give("Reason", "a loud fan"))
    page.locator(".tabs").get_by_role("link", name="Activity").click()
    page.get_by_role("link", name="Holds", exact=True).click()
    page.get_by_role("button", name="Lift…", exact=True).click()
    acts.do("Lift the hold", fill=give("Reason to lift it", "it is quiet"))
    page.get_by_role("link", name="Overview", exact=True).click()
    press(page, "Delete…")
    acts.do("Delete sent-1", fill=give("Type the name of the node", "sent-1"))


def test_each_order_to_the_bmc_names_the_version_of_the_node(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("sent-2")
    live.provision("sent-2", "manage", "manageable")
    acts = Acts(page, live)
    page.goto(to(live, "/v1/nodes/sent-2/states"))
    orders = page.locator(".orders")
    for button, name in (
        ("uefi…", "Boot mode: uefi"),
        ("cdrom…", "Next boot: cdrom"),
        ("send NMI…", "Interrupt: send NMI"),
    ):
        orders.get_by_role("button", name=button, exact=True).click()
        acts.do(name)
    # What is set is marked, so that nobody sets it again.
    expect(orders.get_by_role("button", name="cdrom…")).to_have_attribute("aria-current", "true")
    expect(orders.get_by_role("button", name="pxe…")).not_to_have_attribute("aria-current", "true")
    orders.get_by_label("Address of an image").fill("http://192.0.2.1/a.iso")
    orders.get_by_role("button", name="Insert…", exact=True).click()
    acts.do("Insert")
    orders.get_by_role("button", name="Eject…", exact=True).click()
    acts.do("Eject")
    lamp = orders.get_by_role("group", name="Lamp led@system")
    lamp.get_by_role("button", name="on…", exact=True).click()
    acts.do("Lamp: on")
    expect(lamp.get_by_role("button", name="on…")).to_have_attribute("aria-current", "true")


def test_patch_of_fields_names_the_version_of_the_node(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("sent-3")
    acts = Acts(page, live)
    page.goto(to(live, "/v1/nodes/sent-3?~tab=fields"))
    page.get_by_text("Change fields").click()
    page.get_by_label("JSON Patch").fill(
        '[{"op": "add", "path": "/resource_class", "value": "gpu"}]'
    )
    expect(page.locator("details li")).to_contain_text("/resource_class: nothing → gpu")
    text = page.locator("section details button.curl").get_attribute("title") or ""
    page.get_by_role("button", name="Send the patch").click()
    expect(page.get_by_label("JSON Patch")).to_have_value("")
    (sent,) = acts.changes.all
    acts.check(sent, text, tag=True)
    assert live.get("/v1/nodes/sent-3")["resource_class"] == "gpu"


def test_stop_of_a_run_names_the_run_and_the_version_of_the_node(
    page: sync_api.Page, live: service.Service
) -> None:
    with endless_cleaning(live, "sent-4"):
        acts = Acts(page, live)
        page.goto(to(live, "/v1/nodes/sent-4"))
        press(page, "Stop at the next step…")
        acts.do("Stop the run of sent-4")
        assert acts.changes.all[-1].path.endswith("/stop")


@pytest.mark.own_context
def test_each_change_of_several_nodes_has_a_key(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    names = ("sent-5", "sent-6")
    for name in names:
        live.create(name)
        live.provision(name, "manage", "manageable")
    acts = Acts(page, live)
    page.clock.install()
    page.goto(to(live, "/v1/nodes?~q=sent-"))
    grid = page.get_by_role("grid", name="Nodes")
    for name in names:
        grid.get_by_role("row", name=name).get_by_role("checkbox").check()
    bulk = page.get_by_role("region", name="Selected nodes")
    for button, do, label in (
        ("Maintenance…", "Set maintenance on", "Reason"),
        ("Hold…", "Hold 2 nodes", "Reason"),
    ):
        bulk.get_by_role("button", name=button, exact=True).click()
        acts.dialog.get_by_label(label).fill("a loud fan")
        if button == "Hold…":  # of a kind that leaves the power alone
            acts.dialog.get_by_label("Kind").select_option("hardware")
        text = acts.dialog.locator("footer button.curl").first.get_attribute("title") or ""
        assert text.count("$node") == 1
        assert "for node in" in text
        before = len(acts.changes.all)
        acts.dialog.get_by_role("button", name=do, exact=True).click()
        page.locator(".live").get_by_text("2 of 2 done.").wait_for()
        sent = acts.changes.all[before:]
        assert len(sent) == len(names)
        assert len({one.headers["idempotency-key"] for one in sent} | acts.keys) == 2 + len(
            acts.keys
        )
        acts.dialog.wait_for(state="detached")
        page.clock.fast_forward(8000)
        page.locator(".live").get_by_text("2 of 2 done.").wait_for(state="detached")
    bulk.get_by_role("button", name="Power…", exact=True).click()
    acts.dialog.get_by_label("Request").select_option("power on")
    acts.dialog.get_by_role("button", name="Plan", exact=True).click()
    acts.do("Power on 2 nodes", tag=False)
    page.locator(".node-head .result").get_by_text("done").wait_for()


def renew(running: service.Service, name: str) -> None:
    """Change a node as another client does."""
    patch = [{"op": "add", "path": "/resource_class", "value": f"class-{secrets.token_hex(4)}"}]
    assert running.ask("PATCH", f"/v1/nodes/{name}", patch).status_code == 200


def test_dialog_reads_the_node_again_because_the_page_below_may_be_late(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("late-1")
    live.provision("late-1", "manage", "manageable")
    page.goto(to(live, "/v1/nodes/late-1/states"))
    lamp = page.get_by_role("group", name="Lamp led@system")
    button = lamp.get_by_role("button", name="blinking…", exact=True)
    button.wait_for()
    old = live.ask("GET", "/v1/nodes/late-1/why")
    headers = {name: old.headers[name] for name in ("ETag", "Content-Type")}
    page.route("**/why", lambda route: route.fulfill(headers=headers, body=old.text))
    renew(live, "late-1")
    assert live.ask("GET", "/v1/nodes/late-1/why").headers["ETag"] != headers["ETag"]
    button.click()
    Acts(page, live).do("Lamp: blinking")
    page.unroute_all()


def test_dialog_waits_for_the_end_of_a_change_that_is_under_way(
    page: sync_api.Page, live: service.Service
) -> None:
    uuid = live.create("wait-1")
    page.goto(to(live, "/v1/nodes/wait-1"))
    page.locator(".actions").wait_for()
    holders: list[str | None] = ["other-conductor"]

    def lock(route: sync_api.Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "reservation": holders[-1]})

    page.route(f"**/v1/nodes/{uuid}", lock)  # The page below reads the node by its name.
    press(page, "Maintenance…")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("status")).to_contain_text("other-conductor works on this node")
    expect(dialog.get_by_role("button", name="Set maintenance")).to_be_disabled()
    holders.append(None)
    Acts(page, live).do("Set maintenance")


@pytest.mark.parametrize("choice", ["Use mine", "Take theirs"])
def test_node_that_has_changed_gives_a_choice_between_both_versions(
    page: sync_api.Page, live: service.Service, faults: Faults, choice: str
) -> None:
    name = f"both-{len(choice)}"
    live.create(name, resource_class="gpu")
    dialog = dialog_of(page, live, name, "Hold…")
    dialog.get_by_label("Reason").fill("a loud fan")
    button = dialog.get_by_role("button", name=f"Hold {name}", exact=True)
    expect(button).to_be_enabled()
    renew(live, name)
    now = live.get(f"/v1/nodes/{name}")["resource_class"]
    button.click()
    expect(dialog.get_by_role("alert")).to_contain_text("HTTP 412")
    expect(button).to_be_disabled()
    expect(dialog.locator(".tree")).to_have_text(re.compile(rf"^\s*resource_classgpu → {now}\s*$"))
    assert live.get(f"/v1/nodes/{name}/holds")["holds"] == []
    dialog.get_by_role("button", name=choice).click()
    dialog.wait_for(state="detached")
    held = [one["reason"] for one in live.get(f"/v1/nodes/{name}/holds")["holds"]]
    assert held == (["a loud fan"] if choice == "Use mine" else [])
    faults.allow("412")


def test_change_of_a_batch_has_a_key_and_names_its_version(
    page: sync_api.Page, live: service.Service
) -> None:
    names = ["sent-7", "sent-8"]
    for name in names:
        live.create(name)
        live.provision(name, "manage", "manageable")
        slow = {"fake_async_steps": ["*"], "fake_step_seconds": 6}
        patch = [{"op": "add", "path": "/driver_info", "value": slow}]
        assert live.ask("PATCH", f"/v1/nodes/{name}", patch).status_code == 200
    body = {"nodes": names, "request": {"target": "provide"}, "waves": [1, "100%"]}
    answer = live.ask("POST", "/v1/batches", body)
    assert answer.status_code == 201, answer.text
    acts = Acts(page, live)
    page.goto(to(live, f"/v1/batches/{answer.json()['uuid']}"))
    told = page.locator(".live")
    for undone in (True, False):
        with page.expect_request("**/state") as paused:
            press(page, "Pause")
        assert paused.value.headers["idempotency-key"]
        assert paused.value.headers["if-match"]
        if undone:
            with page.expect_request("**/state") as resumed:
                told.get_by_role("button", name="Undo").click()
            assert resumed.value.post_data_json == {"target": "resume"}
            assert resumed.value.headers["if-match"]
            expect(told).to_contain_text("Undone.")
    expect(told.get_by_role("button", name="Undo")).to_have_count(0)
    press(page, "Resume…")
    acts.do("Resume", fill=count)
    press(page, "Abort…")
    acts.do("Abort")
    page.locator(".node-head .result").get_by_text("aborted").wait_for()


def test_undo_does_not_resume_a_batch_that_was_paused_before(
    page: sync_api.Page, live: service.Service
) -> None:
    names = ["sent-p1", "sent-p2"]
    for name in names:
        live.create(name)
        live.provision(name, "manage", "manageable")
        slow = {"fake_async_steps": ["*"], "fake_step_seconds": 6}
        patch = [{"op": "add", "path": "/driver_info", "value": slow}]
        assert live.ask("PATCH", f"/v1/nodes/{name}", patch).status_code == 200
    body = {"nodes": names, "request": {"target": "provide"}, "waves": [1, "100%"]}
    batch = live.ask("POST", "/v1/batches", body).json()["uuid"]
    page.goto(to(live, f"/v1/batches/{batch}"))
    pause = page.locator(".actions").get_by_role("button", name="Pause", exact=True)
    # The page still shows the batch as running when the button is pressed.
    pause.evaluate(
        """async (button, address) => {
            const headers = { "Content-Type": "application/json" };
            const body = JSON.stringify({ target: "pause" });
            await fetch(address, { method: "PUT", headers, body });
            button.click();
        }""",
        f"{live.url}/v1/batches/{batch}/state",
    )
    told = page.locator(".live")
    expect(told).to_contain_text("The batch is paused already.")
    expect(told.get_by_role("button", name="Undo")).to_have_count(0)
    assert live.get(f"/v1/batches/{batch}")["state"] == "paused"
    assert live.ask("PUT", f"/v1/batches/{batch}/state", {"target": "abort"}).status_code < 300
