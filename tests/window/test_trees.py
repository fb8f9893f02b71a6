"""What assistive technology is told of dialogs and of a narrow page; `test_pages` has the pages."""

from __future__ import annotations

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import cold, press
from tests.window.conftest import OpenPage, expect
from tests.window.sights import Sights
from tests.window.trees import wrong

# With the pages, whose few nodes are then made once.
pytestmark = pytest.mark.xdist_group("window-pages")

NARROW = """
- banner:
  - button "Runs" [expanded]
  - navigation "Pages":
    - link "Fleet"
    - link "Doctor"
  - button "Find…"
  - button "Help and shortcuts"
  - link "Settings"
"""
DIALOGS = {
    ("fleet", "Find…"): """
- dialog "Find":
  - combobox "Pages, nodes and verbs" [expanded]
  - button "Close"
  - listbox "Found":
    - option "Fleet page" [selected]
    - option "Runs page"
    - option "Settings page"
""",
    ("fleet", "Help and shortcuts"): """
- dialog "Shortcuts":
  - banner:
    - heading "Shortcuts" [level=2]
  - term: "Ctrl-K :"
  - definition: find pages, nodes by any value, verbs
  - contentinfo:
    - button "Close"
""",
    ("fleet", "Enroll…"): """
- dialog "Enroll a machine":
  - banner:
    - heading "Enroll a machine" [level=2]
  - textbox "Name"
  - combobox "Driver"
  - contentinfo:
    - 'button "Copy as curl: POST /v1/nodes"'
    - button "Cancel"
    - button "Enroll"
""",
    ("failed node", "Retry…"): """
- dialog "Retry look-2":
  - banner:
    - heading "Retry look-2" [level=2]
  - group: Begin earlier, or leave a step out
  - list:
    - listitem: /deploy.erase_devices through the BMC DESTROYS DATA/
  - textbox "This may destroy the data on look-2. Type the name of the node:"
  - contentinfo:
    - 'button "Copy as curl: PUT /v1/nodes/look-2/states/provision"'
    - button "Cancel"
    - button "Retry look-2" [disabled]
""",
    ("failed node", "Hold…"): """
- dialog "Hold look-2":
  - banner:
    - heading "Hold look-2" [level=2]
  - combobox "Kind"
  - textbox "Reason"
  - textbox "Until (optional)"
  - contentinfo:
    - button "Cancel"
    - button "Hold look-2" [disabled]
""",
    ("failed node", "Data…"): """
- dialog "Data on look-2":
  - banner:
    - heading "Data on look-2" [level=2]
  - combobox "State"
  - textbox "Reason"
  - contentinfo:
    - button "Cancel"
    - button "Declare" [disabled]
""",
    ("failed node", "Delete…"): """
- dialog "Delete look-2":
  - banner:
    - heading "Delete look-2" [level=2]
  - textbox "This makes the service forget look-2. Type the name of the node:"
  - contentinfo:
    - button "Cancel"
    - button "Delete look-2" [disabled]
""",
    ("fleet", "Batch…"): """
- dialog "Batch of 1 node":
  - banner:
    - heading "Batch of 1 node" [level=2]
  - combobox "Request"
  - combobox "Waves"
  - textbox "Name (optional)"
  - spinbutton "At the same time"
  - spinbutton "Failures allowed"
  - contentinfo:
    - 'button "Copy as curl: POST /v1/batches"'
    - button "Cancel"
    - button "Plan"
""",
}


def test_menu_of_a_narrow_page_has_the_pages(open_page: OpenPage, live: service.Service) -> None:
    page = open_page(live, viewport={"width": 320, "height": 568})
    cold(page, live, "/v1/runs")
    menu = page.get_by_role("button", name="Runs", exact=True)
    expect(menu).to_have_attribute("aria-expanded", "false")
    expect(page.get_by_role("link", name="Doctor")).to_have_count(0)
    header = page.get_by_role("banner").bounding_box()
    assert header is not None
    assert header["height"] <= 48
    menu.focus()
    page.keyboard.press("Enter")
    expect(page.locator("body")).to_match_aria_snapshot(NARROW)
    page.keyboard.press("Escape")
    expect(menu).to_have_attribute("aria-expanded", "false")
    menu.click()
    page.get_by_role("link", name="Doctor").click()
    page.get_by_role("heading", name="Doctor").wait_for()
    expect(page.get_by_role("button", name="Doctor", exact=True)).to_have_attribute(
        "aria-expanded", "false"
    )


def test_each_dialog_has_its_tree(
    page: sync_api.Page, live: service.Service, sights: Sights
) -> None:
    dialog = page.get_by_role("dialog")
    bad, below = [], ""
    for (address, name), tree in DIALOGS.items():
        if address != below:
            below = address
            cold(page, live, sights.addresses[address])
        if name == "Batch…":
            page.get_by_role("checkbox", name="Select look-2").check()
        if address == "failed node":
            press(page, name)
        else:
            page.get_by_role("button", name=name, exact=True).first.click()
        dialog.wait_for()
        expect(page.locator(".skeleton")).to_have_count(0)
        if text := wrong(page.locator("body"), tree):
            bad.append(f"{name}: {text}")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
    assert bad == [], "\n\n".join(bad)
