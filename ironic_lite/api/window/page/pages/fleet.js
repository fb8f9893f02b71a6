/** The fleet: what needs attention, filters with counts, all nodes, and acts on many of them. */
import { STATES } from "../facts.js";
import { useEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { Bulk } from "./batches.js";
import { opened, openEnroll } from "../parts/dialog.js";
import { openLift } from "../parts/holds.js";
import { openStop, openVerb } from "../parts/plan.js";
import { FaultBox } from "../parts/read.js";
import { Table } from "../parts/table.js";
import {
  Ago, bdi, copy, Curl, DATA_STATES, FAILED_STATES, html, KINDS, nodeAddress, nodeLink, State, stepName, told, typed,
  verb,
} from "../parts/text.js";
import { fleet, followFleet, kindOf, needOf, predicate, remote, setFilter } from "../state/nodes.js";
import { changeRoute, clockTime, go, href, path, prefs, route } from "../state/route.js";
import { curl, get, may, pages } from "../wire/api.js";

/** @typedef {Record<string, any>} Node */

const COLUMNS = [
  { key: "name", title: "Name", width: "minmax(9rem, 1fr)", cell: nodeLink },
  { key: "provision_state", title: "State", width: "minmax(8rem, 1fr)", cell: Where },
  { key: "provision_updated_at", title: "Since", width: "6rem", cell: Since },
  { key: "under", title: "Under way", width: "minmax(10rem, 1.8fr)", cell: Under, wide: true },
  { key: "power_state", title: "Power", width: "5rem", cell: Power },
  { key: "resource_class", title: "Class", width: "7rem", cell: shown("resource_class"), wide: true },
  { key: "conductor", title: "Conductor", width: "7rem", cell: shown("conductor"), wide: true },
  { key: "data_state", title: "Data", width: "5rem", cell: shown("data_state"), wide: true },
];

/** @param {Node} node */
function Where(node) {
  return html`${h(State, { state: node.provision_state })}
    ${fleet.holds.value.has(node.uuid) && html` <strong class="held-mark">■ HELD</strong>`}`;
}
/** @param {Node} node */
function Since(node) {
  return h(Ago, { at: node.provision_updated_at });
}
/** @param {Node} node */
function Power(node) {
  return bdi(String(node.power_state ?? "").replace("power ", ""));
}
/** @param {string} name */
function shown(name) {
  return /** @param {Node} node */ (node) => bdi(node[name] ?? "");
}
/** @param {Node} node @returns {string} why its last run has failed */
function failureOf(node) {
  const { error, code } = fleet.failed.value.get(node.uuid) ?? {};
  return error?.cause?.text ?? error?.text ?? code ?? "";
}
/** @param {Node} node */
function Under(node) {
  const held = fleet.holds.value.get(node.uuid);
  const run = fleet.under.value.get(node.uuid);
  const place = run?.place;
  if (place) {
    return html`${bdi(`${place.ordinal + 1}/${place.of} ${stepName(place)}`)}
      ${run.eta && !fleet.overdue.value.has(node.uuid) && html`<span>~${clockTime(run.eta.ends_at, prefs.value.utc)}</span>`}`;
  }
  if (run) return bdi(run.verb);
  if (held) return bdi(`${held[0].kind}: ${held[0].reason}`);
  if (node.maintenance) return bdi(`maintenance${node.fault ? `: ${node.fault}` : ""}`);
  return bdi(failureOf(node));
}

const DATA = ["", ...DATA_STATES];

export function Fleet() {
  const { query, view } = route.value;
  const words = view.q ?? "";
  const sort = view.sort ?? "need";
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const [held, setHeld] = useState(false);
  useEffect(() => void followFleet(), []);
  useEffect(() => {
    const clear = /** @param {KeyboardEvent} event */ (event) =>
      event.key === "Escape" && !opened.value && setSelected(new Set());
    addEventListener("keydown", clear);
    return () => removeEventListener("keydown", clear);
  }, []);
  useEffect(() => setFilter(query.toString()), [query.toString()]);
  const given = useRemote(query);
  const rows = useRows(query, words, sort, held, given);
  void fleet.tick.value;
  return html`<h1 class="unseen">Fleet</h1>
    ${h(Attention, {})} ${h(Filters, { words })} ${h(Chips, {})}
    ${fleet.failure.value && h(FaultBox, { fault: fleet.failure.value })}
    ${h(Table, {
      rows: rows.shown, columns: COLUMNS, id: (/** @type {Node} */ node) => node.uuid,
      label: "Nodes", view: `${query}|${words}`, selected, onSelect: setSelected, onHold: setHeld,
      sort, onSort: (/** @type {string} */ key) =>
        changeRoute({ "~sort": sort === key ? `-${key}` : key }, { replace: true }),
      onCopy: (/** @type {Node} */ node) => void copy(curl("GET", path("nodes", node.name ?? node.uuid))),
      onOpen: (/** @type {Node} */ node) => go(href(path("nodes", node.name ?? node.uuid))),
    })}
    ${!rows.shown.length && fleet.status.value !== "loading" && (query.size || words) &&
    html`<p role="status">No node matches. <button onClick=${clearFilters}>Clear filters</button></p>`}
    ${h(Bulk, { selected, shown: rows.shown, onClear: () => setSelected(new Set()) })}
    <p class="footer" role="note">${footer(rows, sort)}</p>
    ${h(Told, {})}`;
}

const TOLD_MS = 10_000;

/** For screen readers: how many events came, once in a while and not for each. */
function Told() {
  const [text, setText] = useState("");
  useEffect(() => {
    let known = fleet.heard.count;
    const timer = setInterval(() => {
      const more = fleet.heard.count - known;
      known += more;
      setText(more ? `${more} changes in 10 seconds` : "");
    }, TOLD_MS);
    return () => clearInterval(timer);
  }, []);
  return html`<div class="unseen" role="status" aria-label="Changes">${text}</div>`;
}

/** @returns {number} nodes of the whole fleet */
function total() {
  const counts = fleet.counts.value;
  return counts ? [...counts.values()].reduce((sum, one) => sum + one, 0) : fleet.nodes.size;
}

/** @param {{shown: Node[], waiting: number}} rows @param {string} sort */
function footer(rows, sort) {
  const of = total();
  const loading = fleet.status.value === "loading" ? " · loading" : "";
  const state = fleet.narrow.value ? " · narrow the filter to see rows" : loading;
  const held = rows.waiting ? ` · ${rows.waiting} changes wait, the order is held while you are here` : "";
  const by = sort === "need" ? "need" : sort.replace(/^-/, "");
  return `${rows.shown.length} of ${of} · sorted by ${by}${state}${held}`;
}

/**
 * The UUIDs that the API gives for filters that only it knows; null if there is no such filter.
 * @param {URLSearchParams} query
 */
function useRemote(query) {
  const [given, setGiven] = useState(/** @type {Set<string> | null} */ (null));
  const text = remote(query).length ? query.toString() : "";
  useEffect(() => {
    if (!text) return setGiven(null);
    const abort = new AbortController();
    const read = async () => {
      const found = new Set();
      const from = `/v1/nodes?${text}&fields=uuid&limit=1000`;
      for await (const page of pages(from, "nodes", abort.signal)) for (const one of page) found.add(one.uuid);
      return found;
    };
    read().then(setGiven, () => !abort.signal.aborted && setGiven(new Set()));
    return () => abort.abort();
  }, [text]);
  return given;
}

/**
 * Rows in their order. While the pointer is in the table the order stays, and changes are counted.
 * @param {URLSearchParams} query @param {string} words @param {string} sort @param {boolean} held
 * @param {Set<string> | null} given
 */
function useRows(query, words, sort, held, given) {
  const turn = fleet.slowTick.value;
  const lists = [fleet.overdue.value, fleet.holds.value];
  const text = query.toString();
  const last = useRef({ key: "", rows: /** @type {Node[]} */ ([]), turn: 0 });
  return useMemo(() => {
    const asked = `${text}|${words}|${sort}|${given?.size}`;
    const old = last.current;
    if (held && old.key === asked && old.rows.length) {
      const rows = old.rows.map((row) => fleet.nodes.get(row.uuid) ?? row);
      return { shown: rows, waiting: turn - old.turn };
    }
    const accepts = predicate(query, words);
    const found = [...fleet.nodes.values()].filter(
      (node) => accepts(node) && (given === null || given.has(node.uuid)),
    );
    const rows = ordered(found, sort);
    last.current = { key: asked, rows, turn };
    return { shown: rows, waiting: 0 };
  }, [turn, text, words, sort, held, given, ...lists]);
}

const collator = new Intl.Collator(undefined, { numeric: true });

/** @param {Node[]} rows @param {string} sort @returns {Node[]} rows by a column, or by need; then by name */
function ordered(rows, sort) {
  const down = sort.startsWith("-") ? -1 : 1;
  const key = sort.replace(/^-/, "");
  const byNeed = key === "need" || key === "under";
  // Made once for each row, not for each comparison.
  const keyed = rows.map((node) => ({
    node, first: byNeed ? needOf(node) : key === "name" ? "" : String(node[key] ?? ""),
    name: String(node.name ?? node.uuid),
  }));
  const byName = key === "name" ? down : 1;
  keyed.sort((a, b) =>
    a.first < b.first ? -down : a.first > b.first ? down : byName * collator.compare(a.name, b.name));
  return keyed.map((one) => one.node);
}

/** @param {{words: string}} props */
function Filters({ words }) {
  const { query } = route.value;
  return html`<div class="filters">
    <input
      id="filter"
      type="search"
      aria-label="Filter by name, state, class or conductor"
      placeholder="/ filter"
      value=${words}
      onInput=${typed((value) => changeRoute({ "~q": value }, { replace: true }))}
    />
    ${[...query].map(
      ([name, value]) =>
        html`<button class="pressed" onClick=${() => changeRoute({ [name]: "" })}>
          ${name}: ${bdi(value)} <span aria-label="remove">×</span>
        </button>`,
    )}
    <select
      aria-label="State of the data"
      onChange=${typed((data_state) => changeRoute({ data_state }))}
    >
      ${DATA.map(
        (one) => html`<option value=${one} selected=${one === (query.get("data_state") ?? "")}>
          ${one ? `data: ${one}` : "any data"}
        </option>`,
      )}
    </select>
    <button onClick=${openEnroll}>Enroll…</button>
    ${h(Curl, { path: href("/v1/nodes", query).slice(1), label: "curl of these" })}
  </div>`;
}

/** States of the whole fleet with their counts; a click filters. */
function Chips() {
  const turn = fleet.slowTick.value;
  const counts = useMemo(() => {
    /** @type {Map<string, number>} */
    const found = new Map(fleet.counts.value ?? []);
    for (const node of fleet.counts.value ? [] : fleet.nodes.values()) {
      const state = node.provision_state;
      found.set(state, (found.get(state) ?? 0) + 1);
    }
    return [...found].sort(([one], [other]) => rank(one) - rank(other));
  }, [turn, fleet.counts.value]);
  const chosen = (route.value.query.get("provision_state") ?? "").split(",").filter(Boolean);
  const pick = /** @type {(state: string, more: boolean) => void} */ (state, more) => {
    const others = more ? chosen.filter((one) => one !== state) : [];
    const next = chosen.includes(state) ? others : [...others, state];
    changeRoute({ provision_state: next.join(",") });
  };
  const failed = counts.filter(([state]) => FAILED_STATES.includes(state));
  return html`<div class="chips" role="group" aria-label="States">
    <button aria-pressed=${!route.value.query.size && !route.value.view.q} onClick=${clearFilters}>
      all ${total()}
    </button>
    ${failed.length > 1 &&
    html`<button onClick=${() => changeRoute({ provision_state: failed.map(([one]) => one).join(",") })}>
      ▲ failed ${failed.reduce((sum, [, count]) => sum + count, 0)}
    </button>`}
    ${counts.map(([state, count]) => {
      const kind = STATES[state]?.kind ?? "stable";
      return html`<button
        class=${`state ${kind}`}
        aria-pressed=${chosen.includes(state)}
        onClick=${(/** @type {MouseEvent} */ event) => pick(state, event.shiftKey)}
      >
        <span class="sign" aria-hidden="true">${KINDS[kind]?.sign}</span> ${state} ${count}
      </button>`;
    })}
  </div>`;
}

const clearFilters = () => go(href("/v1/nodes", {}, { sort: route.value.view.sort ?? "" }));

const ORDER = ["stable", "busy", "wait", "held", "fail"];
/** @param {string} state */
const rank = (state) => -ORDER.indexOf(STATES[state]?.kind ?? "stable");

// -- What needs somebody: failed, overdue and held nodes, and conductors that are down.

const EACH = 5;
const CONDUCTORS_MS = 30000;

/** @typedef {Record<string, any>} Json */

function Attention() {
  const [all, setAll] = useState(false);
  const down = useConductors();
  void fleet.slowTick.value;
  const rows = {
    failed: nodesWhere((node) => kindOf(node) === "fail"),
    overdue: nodesWhere((node) => fleet.overdue.value.has(node.uuid)),
    held: nodesWhere((node) => fleet.holds.value.has(node.uuid)),
  };
  const shown = rows.failed.length + rows.overdue.length + rows.held.length;
  // Numbers of the whole fleet, also when only some of its nodes are held here.
  const counted = fleet.counts.value;
  const failed = counted
    ? FAILED_STATES.reduce((sum, state) => sum + (counted.get(state) ?? 0), 0)
    : rows.failed.length;
  const overdue = fleet.overdue.value.size;
  const held = fleet.holds.value.size;
  const counts = [
    failed && html`<a href=${href("/v1/nodes", { provision_state: FAILED_STATES.join(",") })}>▲ ${failed} failed</a> `,
    overdue && html`<a href="#/v1/runs?overdue=true">◷ ${overdue} overdue</a> `,
    held && html`<a href="#/v1/nodes?held=true">■ ${held} held</a> `,
    down.length && html`<a href="#/v1/doctor">! ${down.length} conductor${down.length > 1 ? "s" : ""} down</a>`,
  ].filter(Boolean);
  if (!counts.length) return html`<p class="attention none">Nothing needs attention.</p>`;
  const cut = all ? shown : EACH;
  return html`<section class="attention" aria-labelledby="attention-title">
    <h2 id="attention-title">Needs attention</h2>
    <span class="counts">${counts}</span>
    ${shown > 2 * EACH &&
    html`<button class="quiet" onClick=${() => setAll(!all)}>${all ? "show fewer" : "show all"}</button>`}
    <ul>
      ${rows.overdue.slice(0, cut).map((node) => h(Overdue, { key: `o${node.uuid}`, node }))}
      ${rows.failed.slice(0, cut).map((node) => h(Failed, { key: node.uuid, node, since: node.provision_updated_at }))}
      ${rows.held.slice(0, cut).map((node) => h(Held, { key: `h${node.uuid}`, node, state: node.provision_state }))}
      ${down.map((one) => h(Down, { key: one.hostname, conductor: one }))}
    </ul>
  </section>`;
}

/** @param {(node: Json) => boolean} accepts */
function nodesWhere(accepts) {
  return [...fleet.nodes.values()]
    .filter(accepts)
    .sort((a, b) => String(b.provision_updated_at).localeCompare(String(a.provision_updated_at)));
}

/** @returns {Json[]} conductors that are not alive */
function useConductors() {
  const [down, setDown] = useState(/** @type {Json[]} */ ([]));
  useEffect(() => {
    const read = async () => {
      if (!(await may("baremetal:conductor:get"))) return;
      const { body } = await get("/v1/conductors");
      setDown(body.conductors.filter((/** @type {Json} */ one) => !one.alive));
    };
    void read().catch(() => {});
    const timer = setInterval(() => !document.hidden && void read().catch(() => {}), CONDUCTORS_MS);
    return () => clearInterval(timer);
  }, []);
  return down;
}

/**
 * The node's `why`, read once for each state it comes to.
 * @param {Json} node
 */
function useWhy(node) {
  const [why, setWhy] = useState(/** @type {Json | null} */ (null));
  useEffect(() => {
    const abort = new AbortController();
    get(path("nodes", node.uuid, "why"), abort.signal).then(({ body }) => setWhy(body), () => {});
    return () => abort.abort();
  }, [node.uuid, node.provision_state, node.provision_updated_at]);
  return why;
}

/** @param {{node: Json, since: string}} props `since` tells a new failure of the same node */
function Failed({ node }) {
  const why = useWhy(node);
  const offered = (why?.verbs ?? []).filter((/** @type {Json} */ one) => !one.refused);
  const first = offered.find((/** @type {Json} */ one) => one.target === "retry") ?? offered[0];
  const says = why ? told(why.says) : failureOf(node);
  return html`<li>
    ${nodeLink(node)} ${h(State, { state: node.provision_state })}
    <span class="says" title=${says}>${bdi(says)}</span>
    ${h(Ago, { at: node.provision_updated_at })}
    ${first &&
    html`<button onClick=${() => openVerb(node, first.target)}>${verb(first.target)}…</button>`}
    <a class="button" href=${nodeAddress(node)}>Why</a>
  </li>`;
}

/** @param {{node: Json}} props */
function Overdue({ node }) {
  const why = useWhy(node);
  return html`<li>
    ${nodeLink(node)} ${h(State, { state: node.provision_state })}
    <span class="says" title=${why?.says}>◷ ${bdi(why ? told(why.says) : "overdue")}</span>
    ${h(Ago, { at: node.provision_updated_at })}
    ${why?.run &&
    html`<button onClick=${() => openStop({ own: path("nodes", node.uuid), name: node.name ?? node.uuid })}>Stop…</button>`}
    <a class="button" href=${nodeAddress(node)}>Why</a>
  </li>`;
}

/** @param {{node: Json, state: string}} props `state` tells a change of the same node */
function Held({ node }) {
  const holds = fleet.holds.value.get(node.uuid) ?? [];
  const name = node.name ?? node.uuid;
  const lift = () => openLift({ own: path("nodes", node.uuid), name, holds });
  return html`<li>
    ${nodeLink(node)} ${h(State, { state: node.provision_state })}
    <span class="says"><strong class="held-mark">■ HELD</strong> ${bdi(holds.map((one) => `${one.kind}: ${one.reason}`).join("; "))}</span>
    ${h(Ago, { at: holds[0]?.created_at })} <button onClick=${lift}>Lift hold…</button>
  </li>`;
}

/** @param {{conductor: Json}} props */
function Down({ conductor }) {
  return html`<li>
    <a href=${href(path("conductors", conductor.hostname))}>${bdi(conductor.hostname)}</a>
    <span class="says">! This conductor gives no sign of life.</span>
    <a class="button" href="#/v1/doctor">Doctor</a>
  </li>`;
}
