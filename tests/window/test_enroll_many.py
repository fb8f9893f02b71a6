"""The table that enrolls many machines, from a paste or a file."""

from __future__ import annotations

import contextlib
import functools
import pathlib
import re
from collections.abc import Iterator

from playwright import sync_api

from tests.emulators import bmc
from tests.support import service
from tests.window.acts import to
from tests.window.conftest import Faults, expect
from tests.window.test_enroll import PASSWORD, USER, WRONG, typed_nowhere
from tests.window.test_pages import lost, violations

PASTE = """(text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  const area = document.querySelector(".machines textarea");
  area.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true,
    cancelable: true}));
}"""

WATCH = """() => {
  window.most = 0;
  const count = () => document.querySelectorAll(".machines tbody [data-stage=busy]").length;
  new MutationObserver(() => { window.most = Math.max(window.most, count()) })
    .observe(document.querySelector(".machines tbody"), {subtree: true, childList: true,
      attributes: true});
}"""

TIMED = """async () => {
  const begun = performance.now();
  const select = [...document.querySelectorAll(".machines label > select")][1];
  select.value = "manage";
  select.dispatchEvent(new Event("change", {bubbles: true}));
  await new Promise(done => setTimeout(done));
  return performance.now() - begun;
}"""

VISIBLE = "\u2039U+202E\u203agnp"


def open_table(page: sync_api.Page, live: service.Service, driver: str) -> sync_api.Locator:
    """Open the dialog that enrolls many machines of a driver."""
    page.goto(to(live, "/v1/nodes"))
    page.get_by_role("button", name="Enroll…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Many machines…").click()
    dialog.get_by_role("combobox", name="Driver of all").select_option(driver)
    dialog.get_by_text("The same for all machines").wait_for()
    return dialog


def paste(page: sync_api.Page, text: str) -> None:
    page.get_by_label("Rows of a spreadsheet").wait_for()
    page.evaluate(PASTE, text)


def row(dialog: sync_api.Locator, number: int) -> sync_api.Locator:
    return dialog.locator("tbody tr[data-stage]").nth(number - 1)


def reason(dialog: sync_api.Locator) -> sync_api.Locator:
    """Return what is wrong with a row, which stands below it."""
    return dialog.locator("tbody tr.why .wrong")


@contextlib.contextmanager
def machines(count: int) -> Iterator[list[bmc.Machine]]:
    """BMCs that take the same user and password."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(bmc.serve(users={USER: PASSWORD})) for _ in range(count)]


def test_pasted_machines_are_created_checked_and_managed(
    page: sync_api.Page, live: service.Service
) -> None:
    with machines(3) as found:
        lines = ["Class\tPassword\tHost name\tBMC\tUser\tMAC\tasset"]
        for number, machine in enumerate(found, start=1):
            word = WRONG if number == 3 else PASSWORD
            address = machine.driver_info["redfish_address"]
            lines.append(
                f"gpu\t{word}\ttable-{number}\t{address}\t{USER}\t52-54-00-0F-01-0{number}\tx"
            )
        dialog = open_table(page, live, "redfish")
        paste(page, "\r\n".join(lines))
        columns = dialog.get_by_role("group", name="Columns")
        expect(columns.get_by_role("combobox", name="BMC", exact=True)).to_have_value(
            "redfish_address"
        )
        expect(columns.get_by_role("combobox", name="asset", exact=True)).to_have_value("")
        expect(dialog.locator("tbody tr")).to_have_count(3)
        typed_nowhere(page, PASSWORD, WRONG)
        assert live.ask("GET", "/v1/nodes/table-1").status_code == 404
        dialog.get_by_role("combobox", name="How far", exact=True).select_option("manage")
        dialog.get_by_role("button", name="Enroll 3 machines").click()
        for number in (1, 2):
            expect(row(dialog, number).locator(".state")).to_have_text(re.compile("manageable$"))
            for check in ("TLS", "login", "power"):
                expect(row(dialog, number).locator(".check", has_text=check)).to_have_count(1)
        third = row(dialog, 3)
        expect(reason(dialog)).to_contain_text("password")
        expect(third.locator(".check", has_text="login").locator(".failed")).to_have_count(1)
        assert live.get("/v1/nodes/table-3")["provision_state"] == "enroll"
        typed_nowhere(page, PASSWORD, WRONG)

        third.get_by_role("button", name="Correct").click()
        password = third.get_by_label("password")
        expect(password).to_have_attribute("type", "password")
        password.fill(PASSWORD)
        password.press("Enter")
        third.get_by_role("button", name="Try again").click()
        expect(third.locator(".state")).to_have_text(re.compile("manageable$"))
        expect(dialog.get_by_text("3 done")).to_be_visible()
        typed_nowhere(page, PASSWORD, WRONG)
        for number in (1, 2, 3):
            node = live.get(f"/v1/nodes/table-{number}")
            assert (node["provision_state"], node["resource_class"]) == ("manageable", "gpu")
            ports = live.get(f"/v1/ports?node=table-{number}&fields=address")["ports"]
            assert [port["address"] for port in ports] == [f"52:54:00:0f:01:0{number}"]


def is_made(live: service.Service, name: str) -> bool:
    return bool(live.ask("GET", f"/v1/nodes/{name}").status_code == 200)


def test_row_may_name_another_driver_than_that_of_all(
    page: sync_api.Page, live: service.Service
) -> None:
    dialog = open_table(page, live, "redfish")
    rows = ("mixed-1,https://192.0.2.131,", "mixed-2,192.0.2.132,ipmi", "mixed-3,192.0.2.133,nope")
    paste(page, "\n".join(["name,address,driver", *rows]))
    expect(row(dialog, 3).locator("+ .why")).to_contain_text("Driver: nope is not one of ")
    dialog.get_by_role("button", name="Enroll 2 machines").click()
    for name, driver, info in (
        ("mixed-1", "redfish", {"redfish_address": "https://192.0.2.131"}),
        ("mixed-2", "ipmi", {"ipmi_address": "192.0.2.132"}),
    ):
        service.until(functools.partial(is_made, live, name), name)
        node = live.get(f"/v1/nodes/{name}")
        assert (node["driver"], node["driver_info"]) == (driver, info)
    row(dialog, 3).get_by_role("button", name="Correct").click()
    row(dialog, 3).get_by_label("Driver", exact=False).fill("fake-hardware")
    row(dialog, 3).get_by_role("button", name="Keep").click()
    dialog.get_by_role("button", name="Enroll 1 machine", exact=True).click()
    service.until(functools.partial(is_made, live, "mixed-3"), "mixed-3")
    assert live.get("/v1/nodes/mixed-3")["driver"] == "fake-hardware"


def fakes(prefix: str, count: int) -> str:
    return "name,class\n" + "".join(f"{prefix}-{number},many\n" for number in range(1, count + 1))


def test_machines_that_exist_are_named_before_anything_is_created(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("known-1")
    live.create("known-2", driver="ipmi", driver_info={"ipmi_address": "192.0.2.107"})
    body = {"node_uuid": live.get("/v1/nodes/known-1")["uuid"], "address": "52:54:00:0f:02:01"}
    assert live.ask("POST", "/v1/ports", body).status_code == 201
    dialog = open_table(page, live, "ipmi")
    rows = (
        ("KNOWN-1", "192.0.2.20", ""),
        ("known-3", "192.0.2.21", "525400:0F0201".replace(":", "")),
        ("known-4", "192.0.2.107", ""),
        ("known-5", "192.0.2.22", "52:54:00:0f:02:05"),
        ("known-5", "192.0.2.23", ""),
        ("known-6", "", ""),
        ("known-7", "192.0.2.24", ""),
    )
    paste(page, "\n".join(["name;address;mac", *map(";".join, rows)]))
    for number, text in (
        (1, "known-1 has this name."),
        (2, "known-1 has the MAC address 52:54:00:0f:02:01."),
        (3, "known-2 has this BMC."),
        (5, "Row 4 of this table has this name."),
        (6, "ipmi_address is missing."),
    ):
        expect(row(dialog, number).locator("+ .why")).to_have_text(text)
    expect(dialog.get_by_text("2 ready, 5 to correct")).to_be_visible()
    assert live.ask("GET", "/v1/nodes/known-7").status_code == 404
    # A second node of one BMC may be wanted; a row may be left out, or be another machine.
    row(dialog, 3).get_by_role("button", name="Enroll anyway").click()
    row(dialog, 1).get_by_role("button", name="Leave out").click()
    row(dialog, 5).get_by_role("button", name="Correct").click()
    row(dialog, 5).get_by_label("Name").fill("known-8")
    row(dialog, 5).get_by_role("button", name="Keep").click()
    expect(dialog.get_by_text("4 ready, 2 to correct, 1 left out")).to_be_visible()


def test_file_of_a_spreadsheet_with_hostile_values_is_read(
    page: sync_api.Page, live: service.Service, faults: Faults, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "machines.csv"
    strange = "<img src=x onerror=hacked=1>\u202egnp"
    text = (
        f'"Name";"{strange}";__proto__;Class;constructor\r\n'
        f'file-1;=1+1;x;"gpu; ""big""\r\nsecond line";y\r\n'
        f'"{strange}";;;;\r\n\r\n'
    )
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    dialog = open_table(page, live, "fake-hardware")
    dialog.get_by_label("File").set_input_files(file)
    expect(dialog.locator("tbody tr[data-stage]")).to_have_count(2)
    expect(row(dialog, 1)).to_contain_text('gpu; "big"')
    expect(row(dialog, 2)).to_contain_text(VISIBLE)
    assert page.evaluate("'hacked' in window || 'polluted' in {}") is False
    assert dialog.locator("img").count() == 0
    faults.allow("400")
    dialog.get_by_role("button", name="Enroll 2 machines").click()
    expect(reason(dialog)).to_contain_text("name")
    # A row that failed before its node was made leaves nothing behind.
    row(dialog, 2).get_by_role("button", name="Discard").click()
    expect(row(dialog, 2)).to_contain_text("discarded")


def test_rows_are_begun_eight_at_a_time_and_erased_after_their_number_is_typed(
    page: sync_api.Page, live: service.Service
) -> None:
    dialog = open_table(page, live, "fake-hardware")
    paste(page, fakes("some", 20) + "some-21,many\n")
    dialog.get_by_role("combobox", name="How far", exact=True).select_option("available")
    row(dialog, 21).get_by_role("combobox").select_option("enroll")
    enroll = dialog.get_by_role("button", name="Enroll 21 machines")
    expect(enroll).to_be_disabled()
    page.evaluate(WATCH)
    dialog.get_by_label("Type the number of nodes").fill("20")
    enroll.click()
    expect(dialog.get_by_text("21 done")).to_be_visible()
    assert 1 < page.evaluate("window.most") <= 8
    for number, state in ((1, "available"), (20, "available"), (21, "enroll")):
        assert live.get(f"/v1/nodes/some-{number}")["provision_state"] == state
        expect(row(dialog, number).locator(".state")).to_contain_text(state)
    # What is done may go further, and is confirmed again if this erases.
    row(dialog, 21).get_by_role("combobox").select_option("available")
    expect(dialog.get_by_role("button", name="Enroll 1 machine")).to_be_disabled()
    dialog.get_by_label("Type the number of nodes").fill("1")
    dialog.get_by_role("button", name="Enroll 1 machine").click()
    expect(row(dialog, 21).locator(".state")).to_contain_text("available")


def test_row_that_fails_is_left_or_discarded_and_the_rest_goes_on(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    dialog = open_table(page, live, "fake-hardware")
    paste(page, "name,rack\nleft-1,a\nleft-2,b\nleft-3,c\n")
    enroll = dialog.get_by_role("button", name="Enroll 3 machines")
    expect(enroll).to_be_enabled()
    live.create("left-2")  # after the page has looked
    faults.allow("409")
    enroll.click()
    expect(dialog.get_by_text("2 done, 1 failed")).to_be_visible()
    expect(reason(dialog)).to_contain_text("left-2")
    # A key that closes other dialogs does not lose the table.
    page.keyboard.press("Escape")
    expect(row(dialog, 2).get_by_role("button", name="Discard")).to_be_visible()
    theirs = live.get("/v1/nodes/left-2")["uuid"]
    row(dialog, 2).get_by_role("button", name="Discard").click()
    expect(dialog.get_by_text("2 done, 1 discarded")).to_be_visible()
    assert live.get("/v1/nodes/left-2")["uuid"] == theirs
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert live.get("/v1/nodes/left-3")["provision_state"] == "enroll"


def test_table_and_its_corrections_are_not_lost_by_a_key_or_a_press(
    page: sync_api.Page, live: service.Service
) -> None:
    dialog = open_table(page, live, "fake-hardware")
    paste(page, "name,class\nkept-1,a\nkept-2,b\n")
    row(dialog, 1).get_by_role("button", name="Correct").click()
    name = row(dialog, 1).get_by_label("Name")
    expect(name).to_be_focused()
    name.fill("kept-3")
    name.press("Enter")
    expect(row(dialog, 1).get_by_role("button", name="Correct")).to_be_focused()
    columns = dialog.get_by_role("group", name="Columns")
    columns.get_by_role("combobox", name="class", exact=True).select_option("")
    expect(row(dialog, 1)).to_contain_text("kept-3")
    page.keyboard.press("Control+k")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog.get_by_role("button", name="Keep the table")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_have_count(0)
    page.evaluate("location.hash = '/v1/doctor'")
    expect(row(dialog, 1)).to_contain_text("kept-3")
    dialog.get_by_role("button", name="Close the table").click()
    dialog.wait_for(state="detached")
    assert live.ask("GET", "/v1/nodes/kept-3").status_code == 404


def test_node_of_a_row_is_deleted_after_one_question(
    page: sync_api.Page, live: service.Service
) -> None:
    dialog = open_table(page, live, "ipmi")
    paste(page, "name,address,user,password\ngone-1,127.0.0.1,root,x\n")
    dialog.get_by_role("combobox", name="How far", exact=True).select_option("manage")
    dialog.get_by_role("button", name="Enroll 1 machine").click()
    row(dialog, 1).get_by_role("button", name="Discard").click()
    expect(row(dialog, 1).get_by_role("button", name="Back")).to_be_focused()
    assert live.get("/v1/nodes/gone-1")["provision_state"] == "enroll"
    row(dialog, 1).get_by_role("button", name="Delete the node").click()
    expect(row(dialog, 1)).to_contain_text("discarded")
    assert live.ask("GET", "/v1/nodes/gone-1").status_code == 404


def test_values_for_all_machines_complete_the_rows(
    page: sync_api.Page, live: service.Service
) -> None:
    with machines(1) as [machine]:
        dialog = open_table(page, live, "redfish")
        paste(page, f"common-1,{machine.driver_info['redfish_address']}\n")
        columns = dialog.get_by_role("group", name="Columns")
        columns.get_by_role("combobox", name="column 1", exact=True).select_option("name")
        expect(columns.get_by_role("combobox", name="column 2")).to_have_value("redfish_address")
        dialog.get_by_text("The same for all machines").click()
        dialog.get_by_text("BMC", exact=True).click()
        dialog.get_by_label("redfish_username", exact=True).fill(USER)
        dialog.get_by_label("redfish_password", exact=True).fill(PASSWORD)
        dialog.get_by_role("combobox", name="How far", exact=True).select_option("manage")
        dialog.get_by_role("button", name="Enroll 1 machine").click()
        expect(row(dialog, 1).locator(".state")).to_contain_text("manageable")
        typed_nowhere(page, PASSWORD)


def test_table_is_accessible_and_fits_narrow_windows(
    page: sync_api.Page, live: service.Service
) -> None:
    dialog = open_table(page, live, "ipmi")
    assert violations(page, "dialog") == []
    paste(page, "name,address,user,password\nnarrow-1,192.0.2.31,root,s3cret\nnarrow-2,,root,x\n")
    reason(dialog).wait_for()
    row(dialog, 1).get_by_role("button", name="Correct").click()
    assert violations(page, "dialog") == []
    assert lost(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert lost(page) == []


def test_five_hundred_rows_are_drawn_and_judged_at_once(
    page: sync_api.Page, live: service.Service
) -> None:
    dialog = open_table(page, live, "fake-hardware")
    paste(page, fakes("large", 500))
    expect(dialog.get_by_text("500 ready")).to_be_visible()
    took = page.evaluate(TIMED)
    assert took < 5000
    row(dialog, 500).get_by_role("button", name="Leave out").click()
    expect(dialog.get_by_text("499 ready, 1 left out")).to_be_visible()
