"""The window in a real Chromium, with 10 000 nodes: loading, memory, typing, scrolling, events.

The service and the browser share the processors. Loading is the median of several rounds. Events
are written into the database at a steady rate, and the window receives them by its stream.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
import time
from typing import Any

from playwright import sync_api

from benchmarks import counting_api, harness
from benchmarks.figures import Figure, report
from ironic_lite.core import clock
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events
from tests.support import chromium

NODES = 10_000
ROUNDS = 5
PATIENCE_MS = 60_000
_PORTION = 20
"""Portions of events in a second."""
_STATES = ("available", "cleaning", "clean wait", "manageable")
_PROBED = ("cleaning", "clean wait")
"""States that events report of one node in turn; its document has another."""
_PROBE_EACH = 10
"""Portions of events from one event of this node to the next."""
_REST_SECONDS = 10
_SLOWER_PACE = 12
"""Seconds after an event in which the API looks for the next one more often."""

# Notes when rows appear, the longest frame and task, the time from each key and click to the next
# paint, and of one node: when a line of the stream names it, and when its row shows another state.
_WATCH = """
    window.seen = { frame: 0, task: 0, events: [], came: [], applied: [] };
    const time = () => performance.timeOrigin + performance.now();
    const Decoder = TextDecoderStream;
    window.TextDecoderStream = class extends Decoder {
      get readable() {
        const note = new TransformStream({
          transform(text, to) {
            if (seen.probe && text.includes(seen.probe)) seen.came.push(time());
            to.enqueue(text);
          },
        });
        return super.readable.pipeThrough(note);
      }
    };
    const look = new MutationObserver(() => {
      const state = seen.probe && document.querySelector(".body .provision_state bdi")?.textContent;
      if (state !== seen.state) {
        seen.state = state;
        seen.applied.push([state, time()]);
      }
      const grid = document.querySelector("[role=grid]");
      const count = grid ? grid.querySelectorAll("[role=row]").length : 0;
      if (!seen.first && count > 10) seen.first = performance.now();
      const all = Number(grid?.getAttribute("aria-rowcount") ?? 0);
      if (!seen.all && all > NODES) seen.all = performance.now();
    });
    const kinds = { childList: true, subtree: true, attributes: true, characterData: true };
    look.observe(document, kinds);
    let last = 0;
    const frame = (now) => {
      if (seen.scrolling && last) seen.frame = Math.max(seen.frame, now - last);
      last = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    new PerformanceObserver((list) => {
      for (const one of list.getEntries()) seen.task = Math.max(seen.task, one.duration);
    }).observe({ type: "longtask", buffered: true });
    new PerformanceObserver((list) => {
      for (const one of list.getEntries()) seen.events.push([one.name, one.duration]);
    }).observe({ type: "event", durationThreshold: 16 });
""".replace("NODES", str(NODES))


class Tab:
    """A tab of the browser, with its own storage and cache."""

    def __init__(self, browser: sync_api.Browser, url: str) -> None:
        self._context = browser.new_context(viewport={"width": 1280, "height": 800})
        self._context.set_default_timeout(PATIENCE_MS)
        self.page = self._context.new_page()
        self.page.add_init_script(_WATCH)
        self._protocol = self._context.new_cdp_session(self.page)
        self._protocol.send("Performance.enable")
        self._url = url

    def open(self) -> None:
        """Open the page of the fleet, and wait for all rows."""
        self.page.goto(f"{self._url}/ui/#/v1/nodes")
        self._wait()

    def search(self, words: str) -> None:
        """Show the one node that the words find."""
        self.page.get_by_role("searchbox").fill(words)
        self.page.locator("[role=grid][aria-rowcount='2']").wait_for()

    def reload(self) -> None:
        """Load the page again, with the files in the cache."""
        self.page.reload()
        self._wait()

    def _wait(self) -> None:
        grid = self.page.locator(f"[role=grid][aria-rowcount='{NODES + 1}']")
        grid.wait_for()

    def painted(self) -> float:
        """Return the milliseconds until the first contentful paint."""
        asked = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
        return float(self.page.evaluate(asked))

    def seen(self, name: str) -> Any:
        """Return a value of the page's notes."""
        return self.page.evaluate(f"seen.{name}")

    def note(self, name: str, value: Any) -> None:
        """Set a value of the page's notes."""
        self.page.evaluate(f"(value) => {{ seen.{name} = value; }}", value)

    def slowest(self, *names: str) -> float:
        """Return the longest milliseconds from a key or click to the next paint, 16 at least."""
        self.page.wait_for_timeout(500)
        found = [duration for name, duration in self.seen("events") if name in names]
        self.note("events", [])
        return float(max(found, default=16.0))

    def heap(self) -> float:
        """Return the JavaScript heap in MB, without garbage."""
        self._protocol.send("HeapProfiler.collectGarbage")
        return self.metric("JSHeapUsedSize") / 1e6

    def metric(self, name: str) -> float:
        """Return a metric of the browser."""
        found = self._protocol.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in found if one["name"] == name))

    def close(self) -> None:
        """Close the tab."""
        self._context.close()


def loading(browser: sync_api.Browser, url: str) -> list[Figure]:
    """Measure the first visit, and a second one."""
    found: dict[str, list[float]] = {"cold": [], "again": [], "first": [], "all": []}
    for _ in range(ROUNDS):
        tab = Tab(browser, url)
        tab.open()
        found["cold"].append(tab.painted())
        found["first"].append(tab.seen("first"))
        found["all"].append(tab.seen("all"))
        tab.reload()
        found["again"].append(tab.painted())
        tab.close()
    cold, again, first, complete = (statistics.median(each) for each in found.values())
    return [
        Figure("first contentful paint, cold", cold, "ms", 400),
        Figure("... after a reload", again, "ms", 150),
        Figure("first rows on the screen", first, "ms", 700),
        Figure(f"all {NODES} rows", complete, "ms", 1500),
    ]


def using(tab: Tab) -> list[Figure]:
    """Measure memory, typing, sorting and scrolling."""
    page, heap = tab.page, tab.heap()
    page.keyboard.press("/")
    tab.slowest()
    page.keyboard.type("node-12", delay=120)
    typed = tab.slowest("keydown", "keypress", "input", "beforeinput")
    page.keyboard.press("Escape")
    page.get_by_role("searchbox").fill("")
    tab.slowest()
    page.get_by_role("columnheader", name="Name").get_by_role("button").click()
    sorted_ = tab.slowest("click", "pointerup", "mouseup")
    page.locator("[role=grid] [role=row]").nth(5).hover()
    tab.note("scrolling", True)
    for _ in range(60):
        page.mouse.wheel(0, 700)
        page.wait_for_timeout(16)
    tab.note("scrolling", False)
    return [
        Figure("JavaScript heap", heap, "MB", 40),
        Figure("key in the filter, longest", typed, "ms", 50),
        Figure("sort", sorted_, "ms", 100),
        Figure("elements in the document", page.locator("*").count(), "", 1500),
        Figure("longest frame while scrolling", tab.seen("frame"), "ms", 50),
    ]


def rest(tab: Tab) -> list[Figure]:
    """Measure what an open page asks of the API while nothing happens."""
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.page.wait_for_timeout(5000)
    return [Figure("requests in 5 s at rest", len(asked), "", 0)]


def _event(number: int, uuids: list[str]) -> Row:
    before, after = _STATES[number % 4], _STATES[(number + 1) % 4]
    about = {"kind": "provision", "event": "clean", "before": before, "after": after}
    return {"at": clock.now(), "node_uuid": uuids[number * 7 % len(uuids)], **about}


def _send_events(
    opened: Database, uuids: list[str], rate: int, seconds: int, probe: str = ""
) -> list[tuple[str, float]]:
    """Write events at a steady rate.

    :param probe: a node that gets an event of its own from time to time.
    :returns: the states that were written of this node, and when in milliseconds since the epoch.
    """
    each, begin = rate // _PORTION, time.monotonic()
    sent: list[tuple[str, float]] = []
    for portion in range(seconds * _PORTION):
        rows = [_event(portion * each + place, uuids) for place in range(each)]
        if probe and portion % _PROBE_EACH == 0:
            state = _PROBED[len(sent) % len(_PROBED)]
            rows.append({**_event(portion, uuids), "node_uuid": probe, "after": state})
            sent.append((state, time.time() * 1000))
        opened.write(lambda conn, rows=rows: events.add(conn, rows))  # type: ignore[misc]
        time.sleep(max(0.0, begin + (portion + 1) / _PORTION - time.monotonic()))
    return sent


def latency(tab: Tab, opened: Database, uuids: list[str]) -> list[Figure]:
    """Measure how soon the page shows an event, at 1 000 events a second."""
    *others, probe = uuids
    tab.open()
    tab.search(f"node-{NODES - 1}")
    tab.note("probe", probe)
    sent = _send_events(opened, others, 1000, 40, probe)
    tab.page.wait_for_timeout(2000)
    came, applied = tab.seen("came"), tab.seen("applied")
    written, received = [], []
    for (state, begin), (_, end) in zip(sent, [*sent[1:], ("", float("inf"))], strict=True):
        shown = next((at for what, at in applied if what == state and begin < at < end), None)
        line = next((at for at in came if begin < at < end), None)
        if shown is not None and line is not None:
            written.append(shown - begin)
            received.append(shown - line)
    return [
        Figure("... line received to event applied, p50", _share(received, 0.5), "ms"),
        Figure("... line received to event applied, p99", _share(received, 0.99), "ms", 100),
        Figure("... event written to event applied, p50", _share(written, 0.5), "ms"),
        Figure("... event written to event applied, p99", _share(written, 0.99), "ms"),
        Figure("... of the measured events, not applied in 500 ms", len(sent) - len(written)),
    ]


def _share(times: list[float], share: float) -> float:
    return sorted(times)[int(len(times) * share)] if times else float("inf")


def busy(tab: Tab, opened: Database, uuids: list[str], rate: int, seconds: int) -> float:
    """Send events; return the share of the main thread's time in percent, with its re-reads."""
    before, begin = tab.metric("TaskDuration"), time.monotonic()
    _send_events(opened, uuids, rate, seconds)
    return (tab.metric("TaskDuration") - before) / (time.monotonic() - begin) * 100


def storms(tab: Tab, opened: Database, uuids: list[str]) -> list[Figure]:
    """Measure the main thread and the memory while events come.

    The first re-read of all documents doubles the heap once, so the growth counts from after it.
    """
    tab.note("task", 0)
    many = busy(tab, opened, uuids, 1000, 12)
    longest = tab.seen("task")
    tab.page.wait_for_timeout(5000)
    heap = tab.heap()
    busy(tab, opened, uuids, 1000, 24)
    tab.page.wait_for_timeout(5000)
    grown = max(0.0, tab.heap() - heap)
    return [
        Figure("1 000 events/s: main thread busy", many, "%", 25),
        Figure("... longest task (0: none over 50 ms)", longest, "ms", 50),
        Figure("... heap after the first re-read of all nodes", heap, "MB", 40),
        Figure("... its growth by 24 000 events more", grown, "MB", 1),
        Figure("5 000 events/s: main thread busy", busy(tab, opened, uuids, 5000, 8), "%", 50),
    ]


def statements(browser: sync_api.Browser, folder: pathlib.Path) -> Figure:
    """Measure the statements of the API while a page is open and nothing happens."""
    counter = counting_api.create(folder / "statements")
    connection = f"sqlite:///{folder}/ironic-lite.sqlite"
    with harness.api(folder, "rest", connection, counter) as alone:
        tab = Tab(browser, f"http://{harness.HOST}:{alone.port}")
        tab.open()
        time.sleep(_SLOWER_PACE)
        before = counting_api.read(counter)
        time.sleep(_REST_SECONDS)
        each = (counting_api.read(counter) - before) / _REST_SECONDS
        tab.close()
    return Figure("statements of the API in a second at rest", each, "", 2)


def main() -> int:
    """Measure and print; return the exit status."""
    path = chromium.program()
    if path is None:
        print(f"not measured: {chromium.MISSING}")
        return 0
    with harness.folder() as folder:
        opened = harness.database(folder)
        uuids = harness.fill(opened, NODES)
        with harness.service(folder) as service, chromium.running(path) as browser:
            url = f"http://{harness.HOST}:{service.port}"
            found = loading(browser, url)
            tab = Tab(browser, url)
            tab.open()
            found += using(tab) + rest(tab) + storms(tab, opened, uuids)
            tab.close()
            tab = Tab(browser, url)
            found += latency(tab, opened, uuids)
            tab.close()
        with chromium.running(path) as browser:
            found.append(statements(browser, folder))
        opened.close()
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
