/** One node: what it does, why it stands there, what can be done, and all that is known of it. */
import { h } from "../vendor/preact.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { href, path, route } from "../state/route.js";
import { get, local } from "../wire/api.js";
import { Feed } from "../wire/feed.js";
import { State } from "../parts/chip.js";
import { Curl } from "../parts/copy.js";
import { Actions } from "../parts/actions.js";
import { Log } from "../parts/log.js";
import { Machine } from "../parts/machine.js";
import { FaultBox, Skeleton, useDocument } from "../parts/read.js";
import { Ago, html, Text } from "../parts/text.js";
import { Timeline } from "../parts/timeline.js";
import { Bmc, Erasures, Fields, History, Holds, Inventory, Ports, Runs } from "../parts/tabs.js";

/** @typedef {Record<string, any>} Json */

const TABS = /** @type {Record<string, string>} */ ({
  runs: "Runs", log: "Log", bmc: "BMC", ports: "Ports", inventory: "Inventory", fields: "Fields",
  history: "History", holds: "Holds", erasures: "Erasures",
});
const RUN_MS = 2000;

export function NodePage() {
  const { parts } = route.value;
  const name = parts[1] ?? "";
  const own = path("nodes", name);
  const [turn, setTurn] = useState(0);
  const why = useDocument(`${own}/why`, { again: turn });
  const node = useDocument(own, { again: turn });
  useEvents(name, why.body?.node, () => setTurn((last) => last + 1));
  const run = useDocument(runPath(own, why.body, parts), {
    again: turn, each: why.body && busy(why.body) ? RUN_MS : 0,
  });
  if (why.fault) return h(FaultBox, { fault: why.fault, path: `${own}/why` });
  if (!why.body) return h(Skeleton, { rows: 8 });
  const tab = parts[2] === "why" || !parts[2] ? "runs" : parts[2];
  const reload = () => setTurn((last) => last + 1);
  return html`${h(Head, { why: why.body, node: node.body, own })}
    ${h(Actions, { why: why.body, node: node.body, tag: node.tag, reload })}
    ${h(Machine, { why: why.body })}
    ${run.body && tab === "runs" && h(Timeline, { run: run.body, why: why.body })}
    ${why.body.failure && tab === "runs" && h(Failure, { failure: why.body.failure })}
    ${h(Tabs, { own, tab })}
    <section aria-label=${TABS[tab] ?? tab}>${panel(tab, { own, node, why: why.body, run, reload, turn })}</section>`;
}

/** @param {Json} why */
const busy = (why) => ["busy", "wait"].includes(why.kind);

/** @param {string} own @param {Json | null} why @param {string[]} parts */
function runPath(own, why, parts) {
  if (parts[2] === "runs" && parts[3]) return `${own}/runs/${encodeURIComponent(parts[3])}`;
  return why?.run ? `${own}/runs/${why.run.uuid}` : null;
}

/**
 * Call back, at most once a second, when an event of this node comes.
 * @param {string} name @param {string | undefined} uuid @param {() => void} onEvent
 */
function useEvents(name, uuid, onEvent) {
  const call = useRef(onEvent);
  call.current = onEvent;
  useEffect(() => {
    if (!uuid) return undefined;
    let timer = 0;
    let stopped = false;
    /** @type {Feed | null} */
    let feed = null;
    const soon = () => {
      timer ||= window.setTimeout(() => {
        timer = 0;
        call.current();
      }, 300);
    };
    get("/v1/events?since=now").then(({ body }) => {
      if (stopped) return;
      feed = new Feed(body.cursor, soon, soon, { node: uuid });
      soon(); // The documents were read before the cursor: what happened between is read now.
    }, () => {});
    return () => {
      stopped = true;
      clearTimeout(timer);
      feed?.stop();
    };
  }, [name, uuid]);
}

/** @param {{why: Json, node: Json | null, own: string}} props */
function Head({ why, node, own }) {
  const facts = [
    why.maintenance && `maintenance${why.maintenance.fault ? `: ${why.maintenance.fault}` : ""}`,
    why.data_state && `data: ${why.data_state}`,
    ...why.holds.map((/** @type {Json} */ one) => `■ held (${one.kind}): ${one.reason}`),
    node?.power_state,
    node?.retired && "retired",
    node?.protected && "protected",
    why.lock && `locked by ${why.lock.host}${why.lock.for ? ` for ${why.lock.for}` : ""}`,
  ].filter(Boolean);
  return html`<header class="node-head">
      <h1>${h(Text, { of: why.name ?? why.node })}</h1>
      ${h(State, { state: why.provision_state })} <span class="small">${h(Ago, { at: why.since })}</span>
      ${facts.map((fact) => html`<span class="tag">${h(Text, { of: fact })}</span>`)}
      ${h(Curl, { path: `${own}/why` })}
    </header>
    <p class="says">${h(Text, { of: why.says })}</p>`;
}

/** @param {{failure: Json}} props */
function Failure({ failure }) {
  const log = failure.evidence?.find((/** @type {Json} */ one) => one.kind === "log");
  return html`<section class="evidence" aria-label="Evidence">
    ${failure.evidence
      ?.filter((/** @type {Json} */ one) => one.text)
      .map((/** @type {Json} */ one) => html`<p>${one.kind}: ${h(Text, { of: one.text })}</p>`)}
    ${log?.tail?.length > 0 &&
    html`<pre>${log.tail.map((/** @type {string} */ line) => html`${h(Text, { of: line })}${"\n"}`)}</pre>`}
    ${log && html`<a href=${`#${local(log.href)}`}>the whole log</a>`}
  </section>`;
}

/** @param {{own: string, tab: string}} props */
function Tabs({ own, tab }) {
  return html`<nav class="tabs" aria-label="Parts of the node">
    ${Object.entries(TABS).map(
      ([name, label], at) =>
        html`<a
          href=${href(`${own}/${name}`)}
          aria-current=${tab === name ? "page" : undefined}
          data-key=${at + 1}
          >${label}</a
        >`,
    )}
  </nav>`;
}

/** @param {string} tab @param {any} props */
function panel(tab, props) {
  const { own, run, why } = props;
  if (tab === "log" || route.value.parts[4] === "log") {
    if (!run.body) return html`<p>This node has no run.</p>`;
    return h(Log, { path: `${own}/runs/${run.body.uuid}`, live: !run.body.ended_at });
  }
  const page = {
    runs: Runs, bmc: Bmc, ports: Ports, inventory: Inventory, fields: Fields, history: History,
    holds: Holds, erasures: Erasures,
  }[/** @type {"runs"} */ (tab)];
  return page ? h(page, { ...props, uuid: why.node }) : html`<p>There is no page for this path.</p>`;
}
