"""Each page of the window, opened cold: rules of WCAG, its tree, narrow windows, copies as curl."""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import re
import shlex
import subprocess
import urllib.parse
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import cold, press, to
from tests.window.conftest import Faults, OpenPage, expect, watched
from tests.window.sights import VISIBLE, Sights
from tests.window.trees import HEAD, PAGES, wrong

# Without the nodes of other modules, as each row of a list takes time.
pytestmark = pytest.mark.xdist_group("window-pages")

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
RUN = "([where, only]) => axe.run(where, {runOnly: only, resultTypes: ['violations']})"
# Rules that depend on the theme; the others are asked once.
COLORS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
DIALOGS = (
    ("fleet", "Enroll…"),
    ("fleet", "Batch…"),
    ("fleet", "Maintenance…"),
    ("fleet", "Find…"),
    ("fleet", "Help and shortcuts"),
    ("failed node", "Retry…"),
    ("failed node", "Hold…"),
    ("failed node", "Delete…"),
)
# What may be scrolled by itself is not lost, and what is for screen readers alone has no width.
LOST = """() => {
  const scrolls = one => {
    for (let at = one.parentElement; at && at !== document.body; at = at.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(at).overflowX)) return true;
    return false;
  };
  const found = [];
  const room = document.documentElement.clientWidth;
  const whole = document.documentElement.scrollWidth;
  if (whole > room) found.push(`the page is ${whole} wide, its window ${room}`);
  const all =
    "h1, h2, p, a, button, summary, input, select, label, pre, th, td, .tag, .state, .says";
  for (const one of document.querySelectorAll(all)) {
    const box = one.getBoundingClientRect();
    if (box.width < 2 || one.closest(".skip") || scrolls(one)) continue;
    if (box.right > room + 1 || box.left < -1)
      found.push(`${Math.round(box.left)} to ${Math.round(box.right)}: ${one.outerHTML}`);
    if (getComputedStyle(one).overflowY === "visible" && one.scrollHeight > one.clientHeight + 8
        && one.clientHeight > 0)
      found.push(`${one.scrollHeight} high in a room of ${one.clientHeight}: ${one.outerHTML}`);
    const cut = getComputedStyle(one).overflowX !== "visible" && one.scrollWidth > one.clientWidth;
    if (cut && !["INPUT", "SELECT", "PRE"].includes(one.tagName))
      found.push(`cut: ${one.outerHTML}`);
  }
  return found;
}"""


STRANGE = "document.querySelectorAll('img, iframe, main script').length + ('hacked' in window)"
HOSTILE_PAGES = (
    *("fleet", "fleet, filtered", "map", "node", "failed node", "run of a node"),
    *("ports of a node", "fields of a node", "history of a node", "holds of a node"),
    *("runs", "failed runs", "run", "batches", "batch", "steps"),
)
AXE = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js")
# Words of an answer that are other ones a moment later.
MOVING = re.compile(r"\d+(\.\d+)? (seconds?|s|minutes?)\b|\d{4}-\d\d-\d\d[T ][\d:.]+\S*|\d+\.\d+")


@dataclasses.dataclass(frozen=True)
class Seen:
    """What was seen on one page."""

    tree: str
    """How its tree differs from the wanted one."""
    violations: list[str]
    lost: list[str]
    curls: list[str]
    answers: dict[str, Any]
    """Bodies of the API by the path that was asked."""
    text: str
    moves: int
    strange: int
    """Elements and values that only a script or markup in a text could have made."""


def violations(page: sync_api.Page, where: str = "html") -> list[str]:
    """Return each violation in an element, light and dark, with the elements that have it."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found = []
    schemes: tuple[tuple[Literal["light", "dark"], dict[str, Any]], ...] = (
        ("light", {"type": "tag", "values": TAGS}),
        ("dark", COLORS),
    )
    for scheme, rules in schemes:
        # A cell that fades in has the contrast of no moment that lasts.
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.evaluate("document.getAnimations().forEach(one => one.finish())")
        result: dict[str, Any] = page.evaluate(RUN, [where, rules])
        found += [
            f"{scheme}, {one['id']}: {node['html']} {node['failureSummary']}"
            for one in result["violations"]
            for node in one["nodes"]
        ]
    return found


def lost(page: sync_api.Page) -> list[str]:
    """Return what is cut off at 320 pixels, and at 1280 with a zoom of 200 %."""
    before = page.viewport_size
    assert before is not None
    found: list[str] = []
    sizes: tuple[tuple[int, Literal["active", "none"]], ...] = ((640, "active"), (320, "none"))
    for width, colors in sizes:
        page.set_viewport_size({"width": width, "height": 568})
        page.emulate_media(forced_colors=colors)
        found += [f"{width}: {text}" for text in page.evaluate(LOST)]
    page.set_viewport_size(before)
    return found


def curls(page: sync_api.Page) -> list[str]:
    """Return the texts that the buttons of a page copy."""
    found: list[str] = page.locator("button.curl").evaluate_all("all => all.map(one => one.title)")
    return found


@pytest.fixture(scope="module")
def tour(browser: sync_api.Browser, live: service.Service, sights: Sights) -> dict[str, Seen]:
    """What was seen on each page, by its name."""
    service.until(
        lambda: not live.get("/v1/runs?state=running,waiting")["runs"], "the runs of other tests"
    )
    faults = Faults()
    page = watched(browser, live.url, faults, reduced_motion="reduce")
    found = {}
    assert set(PAGES) <= set(sights.addresses)
    for name, address in sights.addresses.items():
        answers: dict[str, Any] = {}

        def hear(answer: sync_api.Response, answers: dict[str, Any] = answers) -> None:
            if answer.request.method == "GET" and "json" in answer.headers["content-type"]:
                parts = urllib.parse.urlsplit(answer.url)
                answers[parts.path + (parts.query and f"?{parts.query}")] = answer.json()

        page.on("response", hear)
        cold(page, live, address)
        found[name] = Seen(
            wrong(page.locator("body"), HEAD) + wrong(page.locator("body"), PAGES.get(name, HEAD)),
            violations(page),
            lost(page),
            curls(page),
            answers,
            page.locator("main").inner_text(),
            page.evaluate("document.getAnimations().length"),
            page.evaluate(STRANGE),
        )
        page.remove_listener("response", hear)
    page.context.close()
    assert faults.left() == []
    return found


def joined(found: Iterator[tuple[str, list[str]]]) -> str:
    """Return the texts of all pages, one in each line."""
    return "\n".join(f"{name}: {text}" for name, texts in found for text in texts)


def test_no_page_violates_a_rule_in_light_or_dark(tour: dict[str, Seen]) -> None:
    assert joined((name, seen.violations) for name, seen in tour.items()) == ""


def test_each_page_has_its_tree(tour: dict[str, Seen]) -> None:
    bad = [f"{name}: {seen.tree}" for name, seen in tour.items() if seen.tree]
    assert bad == [], "\n\n".join(bad)


def test_nothing_is_cut_on_a_narrow_or_enlarged_page(tour: dict[str, Seen]) -> None:
    assert joined((name, seen.lost) for name, seen in tour.items()) == ""
    assert not any(seen.moves for seen in tour.values())


def test_hostile_texts_are_shown_and_do_nothing(tour: dict[str, Seen]) -> None:
    assert not any(seen.strange for seen in tour.values())
    missing = [name for name in HOSTILE_PAGES if VISIBLE not in tour[name].text]
    assert missing == []
    assert not any(chr(0x202E) in seen.text or chr(27) in seen.text for seen in tour.values())


def still(body: Any) -> str:
    """Return a body as text without what differs a moment later."""
    if "checks" in body:  # of doctor, which measures
        body = [one["name"] for one in body["checks"]]
    return MOVING.sub("", json.dumps(body, sort_keys=True))


def run(text: str) -> str:
    """Return what a copied command prints; a stream prints for a second."""
    text = text.replace("curl -sN", "curl -sN --max-time 1")
    done = subprocess.run(["sh", "-c", text], capture_output=True, timeout=60, check=False)
    assert done.returncode in ((0, 28) if "-sN" in text else (0,)), done.stderr
    return done.stdout.decode()


def test_copies_of_views_give_what_is_shown(tour: dict[str, Seen], live: service.Service) -> None:
    wrong, compared = [], 0
    for name, seen in tour.items():
        assert seen.curls, name
        for text in sorted(set(seen.curls)):
            path = shlex.split(text.rpartition('"$api"')[2])[0]
            printed = run(text)
            if "-sN" in text or path.endswith("/log"):
                known = (
                    json.loads(printed.splitlines()[0])["cursor"] if "/events" in path else printed
                )
                wrong += [] if known else [text]
                continue
            compared += path in seen.answers
            # Cleaning in the background may have changed the answer since the page was opened.
            there = [still(body) for body in (seen.answers.get(path), live.get(path)) if body]
            if still(json.loads(printed)) not in there:
                wrong.append(f"{name}: {text}\n{printed[:200]}")
    assert wrong == [], "\n".join(wrong)
    assert compared > len(tour)


def test_no_dialog_violates_a_rule_in_light_or_dark(
    open_page: OpenPage, live: service.Service, sights: Sights
) -> None:
    page = open_page(live)
    dialog = page.get_by_role("dialog")
    wrong, below = [], ""
    for address, name in DIALOGS:
        if address != below:
            below = address
            cold(page, live, sights.addresses[address])
            if address == "fleet":
                page.get_by_role("checkbox", name="Select").first.check()
                page.evaluate("scrollTo(0, 0)")  # else the header covers a row of the list above
                wrong += [f"selection: {text}" for text in violations(page)]
        if address == "failed node":
            press(page, name)
        else:
            page.get_by_role("button", name=name, exact=True).first.click()
        dialog.wait_for()
        expect(page.locator(".skeleton")).to_have_count(0)
        wrong += [f"{name}: {text}" for text in [*violations(page, "dialog"), *lost(page)]]
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
    assert wrong == [], "\n".join(wrong)


def test_list_of_batches_shows_the_request_of_each(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("asks-1")
    live.provision("asks-1", "manage", "manageable")
    steps = [{"interface": "deploy", "step": "erase_devices_metadata"}]
    request = {"target": "clean", "clean_steps": steps}
    body = {"nodes": ["asks-1"], "request": request, "name": "asking"}
    assert live.ask("POST", "/v1/batches", body).status_code == 201
    page.goto(to(live, "/v1/batches"))
    shown = page.get_by_role("region", name="Batches").get_by_role("row", name="asking")
    expect(shown).to_contain_text("Clean, deploy.erase_devices_metadata")
    shown.get_by_role("link", name="asking").click()
    expect(page.locator(".node-head")).to_contain_text("Clean, deploy.erase_devices_metadata")
    live.settled("asks-1", "manageable")
