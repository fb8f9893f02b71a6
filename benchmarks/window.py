"""The window in a real Chromium, with 10 000 nodes: loading, memory, typing, scrolling, events.

The service and the browser share the processors. Loading is the median of several rounds. Events
are written into the database at a steady rate, and the page receives them by its stream.
"""

from __future__ import annotations

import contextlib
import pathlib
import statistics
import sys
import time
from typing import Any

from playwright import sync_api

from benchmarks import counting_api, harness
from benchmarks.figures import Figure, not_measured, quantile, report, size
from ironic_lite.core import clock
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events
from tests.support import chromium
from tests.support.service import short_folder

NODES = size(10_000, smoke=50)
ROUNDS = size(5, smoke=1)
RATE = size(1000, smoke=20)
"""Events a second; `storms` also has five times as many."""
PATIENCE_MS = 60_000
_BATCHES = 20
"""Transactions in a second that write events."""
_STATES = ("available", "cleaning", "clean wait", "manageable")
_PROBE_STATES = ("cleaning", "clean wait")
"""States in the events of one node, in turn; its document has another state."""
_PROBE_INTERVAL = 10
"""Transactions from one event of this node to the next."""
_IDLE_SECONDS = size(10, smoke=1)
_QUIET = size(12, smoke=1)
"""Seconds after the last event until the API polls the database at its slower pace."""

# Records when rows appear, the longest frame and task, the time from each key and click to the next
# paint, and of one node: when a line of the stream names it, and when its row shows another state.
_RECORDER = """
    window.seen = { frame: 0, task: 0, events: [], received: [], applied: [] };
    const time = () => performance.timeOrigin + performance.now();
    const Decoder = TextDecoderStream;
    window.TextDecoderStream = class extends Decoder {
      get readable() {
        const recorder = new TransformStream({
          transform(text, to) {
            if (seen.probe && text.includes(seen.probe)) seen.received.push(time());
            to.enqueue(text);
          },
        });
        return super.readable.pipeThrough(recorder);
      }
    };
    const observer = new MutationObserver(() => {
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
    observer.observe(document, kinds);
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
        self.page.add_init_script(_RECORDER)
        self._protocol = self._context.new_cdp_session(self.page)
        self._protocol.send("Performance.enable")
        self._url = url

    def open(self) -> None:
        """Open the page of the fleet, and wait for all rows."""
        self.page.goto(f"{self._url}/ui/#/v1/nodes")
        self._wait()

    def search(self, text: str) -> None:
        """Show the one node that matches a text."""
        self.page.get_by_role("searchbox").fill(text)
        self.page.locator("[role=grid][aria-rowcount='2']").wait_for()

    def reload(self) -> None:
        """Load the page again, with the files in the cache."""
        self.page.reload()
        self._wait()

    def _wait(self) -> None:
        grid = self.page.locator(f"[role=grid][aria-rowcount='{NODES + 1}']")
        grid.wait_for()

    def first_paint(self) -> float:
        """Return the milliseconds until the first contentful paint."""
        script = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
        return float(self.page.evaluate(script))

    def seen(self, name: str) -> Any:
        """Return a value that the page has recorded."""
        return self.page.evaluate(f"seen.{name}")

    def record(self, name: str, value: Any) -> None:
        """Set a value of the page's records."""
        self.page.evaluate(f"(value) => {{ seen.{name} = value; }}", value)

    def slowest(self, *names: str) -> float:
        """Return the longest milliseconds from a key or click to the next paint, 16 at least."""
        self.page.wait_for_timeout(500)
        durations = [duration for name, duration in self.seen("events") if name in names]
        self.record("events", [])
        return float(max(durations, default=16.0))

    def heap(self) -> float:
        """Return the JavaScript heap in MB, without garbage."""
        self._protocol.send("HeapProfiler.collectGarbage")
        return self.metric("JSHeapUsedSize") / 1e6

    def metric(self, name: str) -> float:
        """Return a metric of the browser."""
        metrics = self._protocol.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == name))

    def close(self) -> None:
        """Close the tab."""
        self._context.close()


def loading(browser: sync_api.Browser, url: str) -> list[Figure]:
    """Measure the first load of the page, and a reload."""
    times: dict[str, list[float]] = {"cold": [], "reload": [], "first": [], "all": []}
    for _ in range(ROUNDS):
        tab = Tab(browser, url)
        tab.open()
        times["cold"].append(tab.first_paint())
        times["first"].append(tab.seen("first"))
        times["all"].append(tab.seen("all"))
        tab.reload()
        times["reload"].append(tab.first_paint())
        tab.close()
    cold, reload, first, complete = (statistics.median(each) for each in times.values())
    return [
        Figure("first contentful paint, cold", cold, "ms", 400),
        Figure("... after a reload", reload, "ms", 150),
        Figure("first rows on the screen", first, "ms", 700),
        Figure(f"all {NODES} rows", complete, "ms", 1500),
    ]


def interaction(tab: Tab) -> list[Figure]:
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
    tab.record("scrolling", True)
    for _ in range(60):
        page.mouse.wheel(0, 700)
        page.wait_for_timeout(16)
    tab.record("scrolling", False)
    return [
        Figure("JavaScript heap", heap, "MB", 40),
        Figure("key in the filter, longest", typed, "ms", 50),
        Figure("sort", sorted_, "ms", 100),
        Figure("elements in the document", page.locator("*").count(), "", 1500),
        Figure("longest frame while scrolling", tab.seen("frame"), "ms", 50),
    ]


def idle_requests(tab: Tab) -> list[Figure]:
    """Count the requests of an open page without events."""
    urls: list[str] = []
    tab.page.on("request", lambda request: urls.append(request.url))
    tab.page.wait_for_timeout(size(5000, smoke=500))
    return [Figure("requests in 5 s at rest", len(urls), "", 0)]


def _event(number: int, uuids: list[str]) -> Row:
    before, after = _STATES[number % 4], _STATES[(number + 1) % 4]
    move = {"kind": "provision", "event": "clean", "before": before, "after": after}
    return {"at": clock.now(), "node_uuid": uuids[number * 7 % len(uuids)], **move}


def _write_events(
    opened: Database, uuids: list[str], rate: int, seconds: int, probe: str = ""
) -> list[tuple[str, float]]:
    """Write events at a steady rate.

    :param probe: a node that gets an event of its own at intervals.
    :returns: the states of this node, each with its time in milliseconds since the epoch.
    """
    count, begin = rate // _BATCHES, time.monotonic()
    written: list[tuple[str, float]] = []
    for batch in range(seconds * _BATCHES):
        rows = [_event(batch * count + place, uuids) for place in range(count)]
        if probe and batch % _PROBE_INTERVAL == 0:
            state = _PROBE_STATES[len(written) % len(_PROBE_STATES)]
            rows.append({**_event(batch, uuids), "node_uuid": probe, "after": state})
            written.append((state, time.time() * 1000))
        opened.write(lambda conn, rows=rows: events.add(conn, rows))  # type: ignore[misc]
        time.sleep(max(0.0, begin + (batch + 1) / _BATCHES - time.monotonic()))
    return written


def latency(tab: Tab, opened: Database, uuids: list[str]) -> list[Figure]:
    """Measure the time until the page shows an event, at 1 000 events a second."""
    *others, probe = uuids
    tab.open()
    tab.search(f"node-{NODES - 1}")
    tab.record("probe", probe)
    written = _write_events(opened, others, RATE, size(40, smoke=2), probe)
    tab.page.wait_for_timeout(2000)
    received, applied = tab.seen("received"), tab.seen("applied")
    from_write, from_line = [], []
    for (state, begin), (_, end) in zip(written, [*written[1:], ("", float("inf"))], strict=True):
        shown = next((at for name, at in applied if name == state and begin < at < end), None)
        line = next((at for at in received if begin < at < end), None)
        if shown is not None and line is not None:
            from_write.append(shown - begin)
            from_line.append(shown - line)
    return [
        Figure("... line received to event applied, p50", quantile(from_line, 0.5), "ms"),
        Figure("... line received to event applied, p99", quantile(from_line, 0.99), "ms", 100),
        Figure("... event written to event applied, p50", quantile(from_write, 0.5), "ms"),
        Figure("... event written to event applied, p99", quantile(from_write, 0.99), "ms"),
        Figure("... events not applied in 500 ms", len(written) - len(from_write)),
    ]


def busy(tab: Tab, opened: Database, uuids: list[str], rate: int, seconds: int) -> float:
    """Write events; return the percentage of time in which the main thread is busy."""
    before, begin = tab.metric("TaskDuration"), time.monotonic()
    _write_events(opened, uuids, rate, size(seconds, smoke=1))
    return (tab.metric("TaskDuration") - before) / (time.monotonic() - begin) * 100


def storms(tab: Tab, opened: Database, uuids: list[str]) -> list[Figure]:
    """Measure the main thread and the memory while the page receives events.

    The first re-read of all documents doubles the heap once, so the growth counts from its end.
    """
    pause = size(5000, smoke=500)
    tab.record("task", 0)
    share = busy(tab, opened, uuids, RATE, 12)
    longest = tab.seen("task")
    tab.page.wait_for_timeout(pause)
    heap = tab.heap()
    busy(tab, opened, uuids, RATE, 24)
    tab.page.wait_for_timeout(pause)
    growth = max(0.0, tab.heap() - heap)
    large = busy(tab, opened, uuids, 5 * RATE, 8)
    return [
        Figure(f"{RATE} events/s: main thread busy", share, "%", 25),
        Figure("... longest task (0: none over 50 ms)", longest, "ms", 50),
        Figure("... heap after the first re-read of all nodes", heap, "MB", 40),
        Figure(f"... growth by {24 * RATE} more events", growth, "MB", 1),
        Figure(f"{5 * RATE} events/s: main thread busy", large, "%", 50),
    ]


def statements(browser: sync_api.Browser, folder: pathlib.Path) -> Figure:
    """Count the statements of the API with an open page and without events."""
    counter = counting_api.create(folder / "statements")
    connection = f"sqlite:///{folder}/ironic-lite.sqlite"
    with harness.api(folder, connection, counter=counter) as service:
        tab = Tab(browser, f"http://{harness.HOST}:{service.port}")
        tab.open()
        time.sleep(_QUIET)
        before = counting_api.read(counter)
        time.sleep(_IDLE_SECONDS)
        rate = (counting_api.read(counter) - before) / _IDLE_SECONDS
        tab.close()
    return Figure("statements of the API in a second at rest", rate, "", 2)


def main() -> int:
    """Measure and print; return the exit status."""
    path = chromium.program()
    if path is None:
        return not_measured(chromium.MISSING)
    with short_folder() as folder, contextlib.closing(harness.database(folder)) as opened:
        uuids = harness.fill(opened, NODES)
        with harness.service(folder) as service, chromium.running(path) as browser:
            url = f"http://{harness.HOST}:{service.port}"
            found = loading(browser, url)
            tab = Tab(browser, url)
            tab.open()
            found += interaction(tab) + idle_requests(tab) + storms(tab, opened, uuids)
            tab.close()
            tab = Tab(browser, url)
            found += latency(tab, opened, uuids)
            tab.close()
        with chromium.running(path) as browser:
            found.append(statements(browser, folder))
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
