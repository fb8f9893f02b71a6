"""Fourteen tasks of an operator, done as a person does them, with their clicks and keys.

The tasks are those by which the window was judged when it had no forms. Each begins at the page
Fleet. A click is a press of the pointer, a choice of a list is two; a key is a character or a
chord, a paste is one. Nobody types JSON or reads documentation. The table at the end has the
numbers of that time beside the present ones; ``make tasks`` prints it.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from playwright import sync_api

from tests.emulators import bmc
from tests.support import service
from tests.window import acts
from tests.window.conftest import Faults, OpenPage, expect
from tests.window.test_enroll_many import paste
from tests.window.test_pages import violations

# One after the other: they share a service, and tell one table.
pytestmark = pytest.mark.xdist_group("window-tasks")

USER, PASSWORD = "root", "s3cret-w0rd"
ERASE = {"interface": "deploy", "step": "erase_devices"}
SERIAL = "S64F-0050"
NODES = 5000
TABLE = pathlib.Path("build/tasks.txt")
BEFORE = {
    1: ("see what is wrong, fix a clean", "9 + 55 of JSON"),
    2: ("enroll 3 fake and 1 Redfish, to available", "39 + 290 of JSON"),
    3: ("deploy an image, watch, log, undeploy", "6, without an image"),
    4: ("clean 12: canary, 2 failures, pause, resume", "38"),
    5: ("legal hold, try to erase, lift", "12"),
    6: ("last night: what, who, against the usual", "8, half done"),
    7: ("prove the erasure of a disk", "6"),
    8: ("retire a machine", "10 and JSON"),
    9: ("password, trait, port, maintenance, power, boot", "16, 4 of 6"),
    10: ("on a phone: what is wrong, retry", "2 + name"),
    11: ("the API hangs and comes back", "0, half alive"),
    12: ("5 000 nodes: find a serial, select 300", "not possible, 300"),
    13: ("by keyboard: select and open", "48 Tabs first"),
    14: ("command line: what is wrong, batch, port", "JSON, a hold costs 11.2 s"),
}


class Hand:
    """The hand of a person: what it does is counted."""

    def __init__(self, page: sync_api.Page) -> None:
        self.page = page
        self.clicks = 0
        self.keys = 0

    def click(self, place: sync_api.Locator) -> None:
        place.click()
        self.clicks += 1

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.keys += 1

    def type(self, text: str) -> None:
        assert not text.startswith(("{", "[")), "nobody types JSON"
        self.page.keyboard.type(text)
        self.keys += len(text)

    def fill(self, field: sync_api.Locator, text: str) -> None:
        """Type into a field, in place of what it has."""
        self.click(field)
        if field.input_value():
            self.press("Control+a", *([] if text else ["Delete"]))
        self.type(text)

    def choose(self, choice: sync_api.Locator, value: str) -> None:
        choice.select_option(value)
        self.clicks += 2

    def act(self, name: str) -> None:
        """Press a button of the node or the batch that is shown, or one in its menus."""
        button = acts.act(self.page, name)
        button.wait_for(state="attached")
        if not button.is_visible():
            self.click(button.locator("xpath=ancestor::details/summary"))
        self.click(button)

    def tab(self, name: str) -> None:
        """Open a tab of the node; the bar of the page has links of the same names."""
        tabs = self.page.get_by_role("navigation", name="Parts of the node")
        self.click(tabs.get_by_role("link", name=name))

    def paste(self, text: str) -> None:
        paste(self.page, text)
        self.keys += 1

    @property
    def dialog(self) -> sync_api.Locator:
        return self.page.get_by_role("dialog")

    def button(self, name: str) -> None:
        """Press a button of the dialog."""
        self.click(self.dialog.get_by_role("button", name=name, exact=True))

    def find(self, name: str) -> None:
        """Go to the page of a node by its name."""
        self.press("Control+k")
        self.dialog.get_by_role("combobox").wait_for()
        self.type(name)
        self.dialog.get_by_role("option", name=name).first.wait_for()
        self.press("Enter")
        self.page.get_by_role("heading", name=name).wait_for()


@dataclasses.dataclass
class Results:
    """What each task has cost."""

    of: dict[int, tuple[int, int, str]] = dataclasses.field(default_factory=dict)

    def note(self, task: int, hand: Hand, words: str = "") -> None:
        self.of[task] = (hand.clicks, hand.keys, words)

    def table(self) -> str:
        lines = [f"{'task':>4}  {'':50} {'before':27} after"]
        for task, (about, before) in BEFORE.items():
            clicks, keys, words = self.of.get(task, (0, 0, "NOT DONE"))
            cost = f"{clicks} + {keys}" if task in self.of else ""
            lines.append(f"{task:>4}  {about:50} {before:27} {cost} {words}".rstrip())
        return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def results() -> Iterator[Results]:
    found = Results()
    yield found
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(found.table(), encoding="utf-8")
    print(f"\nclicks + keys of each task, also in {TABLE}:\n\n{found.table()}")


@pytest.fixture(scope="module")
def site() -> Iterator[service.Service]:
    """A service whose Redfish machines need no ramdisk to become available."""
    with service.short_folder() as folder:
        key = folder / "evidence.pem"
        make = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(key)]
        subprocess.run(make, check=True, capture_output=True, timeout=60)
        key.chmod(0o600)
        more = f"evidence_key_file = {key}\nbatch_interval = 1\nautomated_clean_enable = false\n"
        with service.service(more) as running:
            running.start()
            running.up()
            yield running


@pytest.fixture
def hand(open_page: OpenPage, site: service.Service) -> Hand:
    page: sync_api.Page = open_page(site, viewport={"width": 1440, "height": 900})
    page.goto(acts.to(site, "/v1/nodes"))
    page.locator(".footer").wait_for()
    return Hand(page)


def manageable(site: service.Service, name: str, **fields: Any) -> None:
    site.create(name, **fields)
    site.provision(name, "manage", "manageable")


def failed(site: service.Service, name: str, text: str) -> None:
    """Make a node whose clean has failed, and would fail again."""
    manageable(site, name)
    acts.edit(site, name, {"fake_fail_steps": {acts.ERASE: text}})
    body = {"target": "clean", "clean_steps": [ERASE]}
    assert site.ask("PUT", f"/v1/nodes/{name}/states/provision", body).status_code == 202
    service.until(lambda: site.get(f"/v1/nodes/{name}")["provision_state"] == "clean failed", name)


def test_1_cause_of_a_failure_is_seen_and_fixed(
    hand: Hand, site: service.Service, results: Results
) -> None:
    failed(site, "rack2-01", "disk sdb: read-only")
    now = hand.page.get_by_role("list", name="Now")
    expect(now).to_contain_text("read-only")
    hand.click(now.get_by_role("link", name="rack2-01"))
    hand.tab("Settings")
    settings = hand.page.get_by_role("form", name="Settings of rack2-01")
    hand.click(settings.get_by_text("Rehearsal", exact=True))
    hand.fill(settings.get_by_label("fake_fail_steps", exact=True), "")
    hand.click(settings.get_by_role("button", name="Review"))
    hand.click(settings.get_by_role("button", name="Save"))
    settings.get_by_role("button", name="Review 0 changes").wait_for()
    hand.act("Retry…")
    hand.dialog.get_by_label("Type the name of the node").wait_for()
    hand.type("rack2-01")
    hand.press("Enter")
    acts.state(hand.page, "manageable").wait_for()
    results.note(1, hand)


def enroll(hand: Hand, driver: str, table: str, count: int) -> None:
    """Enroll machines from the clipboard, as far as available."""
    hand.click(hand.page.get_by_role("button", name="Enroll…"))
    hand.button("Many machines…")
    hand.choose(hand.dialog.get_by_role("combobox", name="Driver of all"), driver)
    hand.dialog.get_by_text("The same for all machines").wait_for()
    hand.paste(table)
    hand.choose(hand.dialog.get_by_role("combobox", name="How far", exact=True), "available")
    hand.fill(hand.dialog.get_by_label("Type the number of nodes"), str(count))
    hand.click(hand.dialog.get_by_role("button", name=f"Enroll {count} machine"))
    expect(hand.dialog.get_by_text(f"{count} done")).to_be_visible()
    hand.button("Close")


def test_2_machines_are_enrolled(hand: Hand, site: service.Service, results: Results) -> None:
    enroll(hand, "fake-hardware", "name\tclass\nnew-1\tgpu\nnew-2\tgpu\nnew-3\tgpu\n", 3)
    with bmc.serve(users={USER: PASSWORD}) as machine:
        address = machine.driver_info["redfish_address"]
        head = "name\taddress\tuser\tpassword\tMAC"
        row = f"new-4\t{address}\t{USER}\t{PASSWORD}\t52:54:00:aa:bb:04"
        enroll(hand, "redfish", f"{head}\n{row}\n", 1)
    for number in range(1, 5):
        assert site.get(f"/v1/nodes/new-{number}")["provision_state"] == "available"
    results.note(2, hand)


def test_3_machine_is_deployed_and_given_back(
    hand: Hand, site: service.Service, results: Results
) -> None:
    manageable(site, "web-1")
    site.provision("web-1", "provide", "available")
    hand.find("web-1")
    hand.act("Deploy…")
    hand.fill(hand.dialog.get_by_label("Image", exact=True), "http://192.0.2.1/a.qcow2")
    hand.fill(hand.dialog.get_by_label("Checksum"), "a" * 64)
    hand.button("Save the image")
    expect(hand.dialog.get_by_role("button", name="Save the image")).to_have_count(0)
    confirm = hand.dialog.get_by_label("Type the name of the node")
    hand.fill(confirm, "web-1")
    deploy = hand.dialog.get_by_role("button", name="Deploy web-1", exact=True)
    hand.click(deploy)
    acts.state(hand.page, "active").wait_for()
    hand.press("l")
    expect(hand.page.locator(".log")).to_contain_text("active")
    hand.act("Undeploy…")
    undeploy = hand.dialog.get_by_role("button", name="Undeploy web-1", exact=True)
    hand.click(undeploy)
    acts.state(hand.page, "available").wait_for()
    results.note(3, hand)


def test_4_twelve_machines_are_cleaned(hand: Hand, site: service.Service, results: Results) -> None:
    for number in range(12):
        bad = {"fake_fail_steps": {acts.ERASE: "disk sdb: read-only"}}
        manageable(site, f"dozen-{number:02}", resource_class="dozen")
        info = {"fake_step_seconds": 1, **(bad if number in {3, 4} else {})}
        acts.edit(site, f"dozen-{number:02}", info)
    hand.press("/")
    hand.type("class:dozen ")
    expect(hand.page.locator(".footer")).to_contain_text("12 of ")
    hand.click(hand.page.get_by_role("grid", name="Nodes").get_by_role("checkbox").first)
    hand.click(hand.page.locator(".bulk").get_by_role("button", name="Batch…"))
    hand.choose(hand.dialog.get_by_role("combobox", name="Request"), "clean")
    hand.button("Erase all disks")
    hand.fill(hand.dialog.get_by_label("Failures allowed"), "2")
    hand.button("Plan")
    expect(hand.dialog).to_contain_text("goes first, alone")
    hand.fill(hand.dialog.get_by_label("Type the number of nodes"), "12")
    hand.button("Clean 12 nodes")
    hand.dialog.wait_for(state="detached")
    hand.act("Pause")
    hand.page.locator(".node-head .result", has_text="paused").wait_for()
    hand.act("Resume…")
    # Some may have ended before the pause.
    field = hand.dialog.get_by_label("Type the number of nodes")
    left = re.search(r"(\d+) nodes?\.", field.locator("xpath=..").inner_text())
    assert left
    hand.fill(field, left[1])
    hand.button("Resume")
    hand.dialog.wait_for(state="detached")
    expect(hand.page.locator(".node-head")).to_contain_text("done with 2 failed")
    results.note(4, hand)


def test_5_held_machine_is_not_erased(hand: Hand, site: service.Service, results: Results) -> None:
    manageable(site, "held-1")
    hand.find("held-1")
    hand.act("Hold…")
    hand.choose(hand.dialog.get_by_label("Kind"), "legal")
    hand.fill(hand.dialog.get_by_label("Reason"), "case 7")
    hand.press("Enter")
    hand.page.locator(".node-head").get_by_text("HELD (legal): case 7").wait_for()
    refused = acts.refused(hand.page, "Clean…")
    refused.wait_for(state="attached")
    hand.click(hand.page.locator(".actions summary", has_text="···"))
    refused.click(force=True)  # It says why.
    hand.clicks += 1
    hand.page.get_by_text("Held (legal)").first.wait_for()
    hand.click(hand.page.locator(".held-mark"))
    hand.fill(hand.dialog.get_by_label("Reason to lift it"), "closed")
    hand.press("Enter")
    expect(hand.page.locator(".held-mark")).to_have_count(0)
    acts.act(hand.page, "Clean…").wait_for(state="attached")
    results.note(5, hand)


def test_6_history_says_what_who_and_how_long(
    hand: Hand, site: service.Service, results: Results
) -> None:
    manageable(site, "past-1")
    patch = [{"op": "add", "path": "/driver_info/fake_step_seconds", "value": 0}]
    assert site.ask("PATCH", "/v1/nodes/past-1", patch).status_code == 200
    for _ in range(6):  # The usual times need some runs.
        site.provision("past-1", "clean", "manageable", clean_steps=[ERASE])
    hand.click(hand.page.get_by_role("link", name="Activity", exact=True))
    hand.choose(hand.page.get_by_role("combobox", name="Time"), "night")
    hand.page.get_by_label("from").wait_for()
    # The test may run by day.
    hand.choose(hand.page.get_by_role("combobox", name="Time"), "today")
    listed = hand.page.locator(".activity li", has_text="past-1")
    expect(listed.filter(has_text="driver_info/fake_step_seconds")).to_have_count(1)
    run = listed.filter(has_text="Clean").first
    hand.click(run.locator("summary").first)
    steps = run.get_by_role("list", name="Steps", exact=True)
    expect(steps).to_contain_text("deploy.erase_devices")
    expect(steps).to_contain_text("usual")
    results.note(6, hand)


def test_7_erasure_of_a_disk_is_proved(hand: Hand, site: service.Service, results: Results) -> None:
    disk = {"name": "/dev/sda", "serial": SERIAL, "result": "erased", "level": "clear"}
    manageable(site, "proof-1", driver_info={"fake_erasures": [disk]})
    site.provision("proof-1", "clean", "manageable", clean_steps=[ERASE])
    hand.click(hand.page.get_by_role("link", name="Erasures", exact=True))
    hand.fill(hand.page.get_by_label("Part of a name or serial number"), SERIAL)
    hand.click(hand.page.get_by_role("link", name="show the record of proof-1"))
    expect(hand.page.locator("main")).to_contain_text(SERIAL)
    expect(hand.page.locator("main")).to_contain_text("signature checked in this browser")
    with hand.page.expect_download() as saved:
        hand.click(hand.page.get_by_role("button", name=".zip"))
    assert saved.value.suggested_filename.endswith(".zip")
    results.note(7, hand)


def test_8_machine_is_retired(hand: Hand, site: service.Service, results: Results) -> None:
    manageable(site, "old-1")
    hand.find("old-1")
    hand.act("Retire")
    hand.page.locator(".node-head").get_by_text("retired").wait_for()
    hand.click(hand.page.get_by_role("link", name="Fleet", exact=True))
    expect(acts.row(hand.page, "old-1")).to_contain_text("retired")
    results.note(8, hand)


def test_9_settings_of_a_machine_are_changed(
    hand: Hand, site: service.Service, results: Results
) -> None:
    with bmc.serve(users={USER: "before"}) as machine:
        info = {**machine.driver_info, "redfish_username": USER, "redfish_password": "before"}
        manageable(site, "care-1", driver="redfish", driver_info=info)
        hand.find("care-1")
        hand.tab("Settings")
        settings = hand.page.get_by_role("form", name="Settings of care-1")
        hand.fill(settings.get_by_label("redfish_password", exact=True), "before")
        hand.click(settings.get_by_role("button", name="Review"))
        hand.click(settings.get_by_role("button", name="Save"))
        settings.get_by_role("button", name="Review 0 changes").wait_for()
        traits = hand.page.get_by_role("form", name="Traits")
        hand.fill(traits.get_by_label("Trait"), "CUSTOM_A")
        hand.press("Enter")
        traits.get_by_role("button", name="CUSTOM_A").wait_for()
        port = hand.page.get_by_role("form", name="New port")
        hand.fill(port.get_by_label("MAC address"), "52:54:00:aa:09:01")
        hand.press("Enter")
        hand.page.get_by_role("region", name="Ports").get_by_text("52:54:00:aa:09:01").wait_for()
        hand.act("Maintenance…")
        hand.fill(hand.dialog.get_by_label("Reason"), "fan")
        hand.press("Enter")
        hand.page.locator(".node-head .tag", has_text="maintenance").wait_for()
        hand.click(hand.page.locator(".actions summary", has_text="Power"))
        hand.click(acts.act(hand.page, "Power on…"))
        hand.button("Power on care-1")
        expect(hand.page.locator(".node-head .tag", has_text="power on")).to_have_count(1)
        hand.click(hand.page.get_by_role("link", name="Console", exact=True))
        hand.click(hand.page.get_by_role("button", name="pxe…", exact=True))
        hand.button("Next boot: pxe")
        hand.dialog.wait_for(state="detached")
        service.until(
            lambda: site.get("/v1/nodes/care-1/management/boot_device")["boot_device"] == "pxe",
            "the boot device",
        )
    results.note(9, hand)


def test_10_failed_clean_is_retried_on_a_phone(
    open_page: OpenPage, site: service.Service, results: Results
) -> None:
    failed(site, "phone-1", "the shelf does not answer")
    acts.edit(site, "phone-1", {})
    page: sync_api.Page = open_page(site, viewport={"width": 390, "height": 844}, has_touch=True)
    page.goto(acts.to(site, "/v1/nodes"))
    hand = Hand(page)
    cause = page.get_by_role("list", name="Now").get_by_role("listitem").filter(has_text="phone-1")
    cause.get_by_role("link", name="phone-1").wait_for()
    hand.click(cause.get_by_role("button", name="Retry 1…"))
    hand.dialog.get_by_label("Type the name of the node").wait_for()
    hand.type("phone-1")
    hand.button("Retry phone-1")
    service.until(
        lambda: site.get("/v1/nodes/phone-1")["provision_state"] == "manageable", "the retry"
    )
    results.note(10, hand)


def test_11_hung_api_is_told_and_heals(
    hand: Hand, site: service.Service, faults: Faults, results: Results
) -> None:
    faults.allow("ERR_|Failed to load|net::")
    (program,) = site.running()
    stopped = service.family(program.pid)
    for process in stopped:
        process.send_signal(signal.SIGSTOP)
    try:
        begun = time.monotonic()
        expect(hand.page.get_by_text("No answer since")).to_be_visible()
        seconds = time.monotonic() - begun
    finally:
        for process in reversed(stopped):
            process.send_signal(signal.SIGCONT)
    expect(hand.page.get_by_text("No answer since")).to_have_count(0)
    results.note(11, hand, f"(told after {seconds:.0f} s)")


def fill_fleet(site: service.Service) -> None:
    """Write nodes into the database; 300 of them have a class of their own."""
    first = site.create("large-first", extra={"serial": "SN000777"})
    kept = {"id", "uuid", "name", "resource_class", "extra"}
    connection = sqlite3.connect(site.folder / "state/ironic-lite.sqlite", timeout=60)
    with connection:
        columns = [one[1] for one in connection.execute("PRAGMA table_info(nodes)")]
        names = ", ".join(name for name in columns if name not in kept)
        connection.executemany(
            f"INSERT INTO nodes (uuid, name, resource_class, {names})"
            f" SELECT ?, ?, ?, {names} FROM nodes WHERE uuid = '{first}'",
            [
                (str(uuid.uuid4()), f"large-{at:04}", "chosen" if at < 300 else "other")
                for at in range(NODES)
            ],
        )
    connection.close()


def test_12_machine_is_found_among_five_thousand(
    open_page: OpenPage, site: service.Service, results: Results
) -> None:
    fill_fleet(site)
    page: sync_api.Page = open_page(site, viewport={"width": 1440, "height": 900})
    begun = time.monotonic()
    page.goto(acts.to(site, "/v1/nodes"))
    page.locator(".body .row").first.wait_for()
    first = time.monotonic() - begun
    expect(page.get_by_role("grid", name="Nodes")).to_have_attribute(
        "aria-rowcount", str(int(site.get("/v1/stats/nodes?by=driver")["of"]) + 1)
    )
    hand = Hand(page)
    hand.press("/")
    hand.type("SN000777")
    expect(acts.row(page, "large-first")).to_contain_text("SN000777")
    hand.press("Control+a")
    hand.type("class:chosen ")
    expect(page.locator(".footer")).to_contain_text("300 of ")
    hand.click(page.get_by_role("grid", name="Nodes").get_by_role("checkbox").first)
    expect(page.locator(".bulk")).to_contain_text("300 selected")
    results.note(12, hand, f"(first rows {first:.1f} s)")


def test_13_keyboard_alone_selects_and_opens(hand: Hand, results: Results) -> None:
    hand.page.locator(".body .row").first.wait_for()
    assert violations(hand.page) == []
    hand.press("j", "x")
    expect(hand.page.locator(".bulk")).to_contain_text("1 selected")
    hand.press("Enter")
    hand.page.locator(".node-head h1").wait_for()
    assert violations(hand.page) == []
    results.note(13, hand)


def test_14_commands_need_no_json(hand: Hand, site: service.Service, results: Results) -> None:
    failed(site, "line-1", "disk sdd: read-only")
    manageable(site, "line-2")
    environment = service.environment(OS_AUTH_TYPE="none", OS_ENDPOINT=f"{site.url}/")

    def run(command: str, *statuses: int) -> tuple[str, float]:
        """Run a command line; return what it prints, and its seconds."""
        hand.keys += len(command) + 1
        begun = time.monotonic()
        words = command.split()
        done = subprocess.run(
            [str(service.SCRIPTS / words[0]), *words[1:]],
            env={**environment, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
            timeout=service.PATIENCE,
        )
        assert done.returncode in statuses, (command, done.stdout, done.stderr)
        return done.stdout + done.stderr, time.monotonic() - begun

    service.until(lambda: "line-1" in str(site.get("/v1/attention")["causes"]), "the cause")
    assert "disk sd#: read-only" in run("baremetal attention -f value", 1, 2)[0]
    hold = {"kind": "freeze", "reason": "audit"}
    assert site.ask("POST", "/v1/nodes/line-1/holds", hold).status_code == 201
    said, usual = run("baremetal node hold list -f value", 0)
    assert "line-1" in said
    said, seconds = run("baremetal node retry line-1", 1)
    assert said.count("audit") == 1
    assert "baremetal node hold delete" in said or "DELETE" not in said
    steps = site.folder / "steps.json"
    steps.write_text(json.dumps([ERASE]), encoding="utf-8")
    plan = f"baremetal batch create clean --node line-2 --clean-steps {steps} --plan -f json"
    assert json.loads(run(plan, 0)[0])
    run("baremetal node port create line-2 52:54:00:aa:14:01", 0)
    results.note(14, hand, f"(a hold costs {max(0, seconds - usual):.1f} s)")


def test_each_task_has_a_line() -> None:
    names = [name for name in globals() if name.startswith("test_") and name[5].isdigit()]
    assert [int(name.split("_")[1]) for name in names] == list(BEFORE)
    assert list(BEFORE) == list(itertools.islice(itertools.count(1), 14))
