/** The fleet: what needs attention, filters with counts, all nodes, and acts on many of them. */
import { STATES } from "../facts.js";
import { useEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { Attention, failureOf } from "../parts/attention.js";
import { Bulk } from "../parts/bulk.js";
import { covered, Menu, openEnroll } from "../parts/dialog.js";
import { FaultBox, LIST_MS } from "../parts/read.js";
import { Table } from "../parts/table.js";
import {
  Ago, bdi, checkbox, choice, copy, Curl, DATA_STATES, expected, FAILED_STATES, filters, html, KINDS, many, nameOf, nodeAddress, nodeLink, OVERDUE, State, stepName, stopOf, sum, typed,
} from "../parts/text.js";
import { fleet, followFleet, KIND_ORDER, named, needOf, predicate, remote, select, selection, selectNone, setFilter } from "../state/nodes.js";
import { changeRoute, go, href, path, route, small } from "../state/route.js";
import { curl, pages, passing } from "../wire/api.js";

/** @typedef {Record<string, any>} Node */

const COLUMNS = [
  { key: "name", title: "Name", width: "minmax(9rem, 1fr)", cell: nodeLink },
  { key: "provision_state", title: "State", width: "minmax(12.5rem, 1fr)", cell: Where },
  { key: "provision_updated_at", title: "Since", width: "6rem", cell: Since },
  { key: "under", title: "Under way", width: "minmax(10rem, 1.8fr)", cell: Under, wide: true },
  { key: "power_state", title: "Power", width: "5rem", cell: Power },
  { key: "resource_class", title: "Class", width: "7rem", cell: shown("resource_class"), wide: true },
  { key: "conductor", title: "Conductor", width: "7rem", cell: shown("conductor"), wide: true },
  { key: "data_state", title: "Data", width: "5rem", cell: shown("data_state"), wide: true },
];

/** Further columns that an address may name: fields of nodes. */
const MORE = ["driver", "owner", "lessee", "shard", "conductor_group", "fault", "instance_name"];

/** @param {string} key */
const columnOf = (key) => COLUMNS.find((one) => one.key === key) ??
  { key, title: key.replaceAll("_", " "), cell: shown(key), wide: true };
/** @param {string | undefined} named `~cols` of the address, with commas */
const columnsOf = (named) => named ? named.split(",").map(columnOf) : COLUMNS;

/** A box for each column; a card of a narrow screen has no others. */
function Columns() {
  const chosen = columnsOf(route.value.view.cols).map((one) => one.key);
  const all = [...COLUMNS, ...MORE.map(columnOf)];
  return h(Menu, { name: "Columns" }, all.map(({ key, title }) => checkbox(title, () => {
    const next = all.map((one) => one.key).filter((one) => chosen.includes(one) !== (one === key));
    changeRoute({ "~cols": next.join(",") }, { replace: true });
  }, chosen.includes(key))));
}

/** @param {Node} node */
function Where(node) {
  return html`${h(State, { state: node.provision_state })}
    ${fleet.overdue.value.has(node.uuid) && html` <strong class="danger" title=${OVERDUE}>overdue</strong>`}
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
/** @param {Node} node */
function Under(node) {
  const held = fleet.holds.value.get(node.uuid);
  const run = fleet.under.value.get(node.uuid);
  if (run) {
    const { place, eta } = run;
    return html`${bdi(place ? `${place.ordinal + 1}/${place.of} ${stepName(place)}` : run.verb)}
      <span>${stopOf(run) || (eta && !fleet.overdue.value.has(node.uuid) && expected(eta, true))}</span>`;
  }
  if (held) return bdi(`${held[0].kind}: ${held[0].reason}`);
  const maintenance = node.maintenance && `maintenance${node.fault ? `: ${node.fault}` : ""}`;
  return bdi([failureOf(node), maintenance].filter(Boolean).join("; "));
}

export function Fleet() {
  const { query, view } = route.value;
  const words = view.q ?? "";
  const sort = view.sort ?? "need";
  const selected = selection.value;
  const [held, setHeld] = useState(false);
  useEffect(() => void followFleet(), []);
  useEffect(() => {
    const clear = /** @param {any} event */ (event) =>
      event.key === "Escape" && !covered() && event.target.type !== "search" && selectNone();
    addEventListener("keydown", clear);
    return () => removeEventListener("keydown", clear);
  }, []);
  useEffect(() => setFilter(query.toString()), [query.toString()]);
  const { given, fault } = useRemote(query);
  const rows = useRows(query, words, sort, held, given);
  const wrong = fault ?? fleet.failure.value;
  void fleet.tick.value;
  return html`<h1 class="unseen">Fleet</h1>
    ${h(Attention, { brief: !!(query.size || words) })} ${h(Filters, { words })} ${h(Chips, {})}
    ${wrong && h(FaultBox, { fault: wrong })}
    ${h(Table, {
      rows: rows.shown, columns: columnsOf(view.cols), id: (/** @type {Node} */ node) => node.uuid,
      label: "Nodes", view: `${query}|${words}`, selected, onSelect: select, onHold: setHeld,
      sort, onSort: (/** @type {string} */ key) =>
        changeRoute({ "~sort": sort === key ? `-${key}` : key }, { replace: true }),
      onCopy: (/** @type {Node} */ node) => copy(curl("GET", path("nodes", nameOf(node)))),
      onOpen: (/** @type {Node} */ node) => go(nodeAddress(node)),
    })}
    ${!rows.shown.length && !wrong && given !== NOT_YET && fleet.status.value !== "loading" && (query.size || words) &&
    html`<p role="status">No node matches. <button onClick=${clearFilters}>Clear filters</button></p>`}
    ${h(Bulk, { shown: rows.shown })}
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
      setText(more ? `${many(more, "change")} in 10 seconds` : "");
    }, TOLD_MS);
    return () => clearInterval(timer);
  }, []);
  return html`<div class="unseen" role="status" aria-label="Changes">${text}</div>`;
}

/** @returns {number} nodes of the whole fleet */
function total() {
  const counts = fleet.counts.value;
  return counts ? sum(counts.values()) : fleet.nodes.size;
}

/** @param {{shown: Node[], waiting: number}} rows @param {string} sort */
function footer(rows, sort) {
  const of = total();
  const loading = fleet.status.value === "loading" ? " · loading" : "";
  const state = fleet.narrow.value ? " · narrow the filter to see rows" : loading;
  const held = rows.waiting ? ` · ${rows.waiting} changes wait while you are here` : "";
  const by = sort === "need" ? "need" : sort.replace(/^-/, "");
  return `${rows.shown.length} of ${of} · sorted by ${by}${state}${held}`;
}

/** @type {Set<string>} */
const NOT_YET = new Set();

/**
 * The UUIDs that the API gives for filters that only it knows, `NOT_YET` until they are read; null if
 * there is no such filter. They stay while the service is away.
 * @param {URLSearchParams} query
 * @returns {{given: Set<string> | null, fault?: import("../wire/api.js").Fault}}
 */
function useRemote(query) {
  const [found, setFound] = useState(/** @type {any} */ ({}));
  const text = remote(query).length ? query.toString() : "";
  useEffect(() => {
    if (!text) return undefined;
    const abort = new AbortController();
    const read = async () => {
      const given = new Set();
      const from = `/v1/nodes?${text}&fields=uuid&limit=1000`;
      for await (const page of pages(from, "nodes", abort.signal)) for (const one of page) given.add(one.uuid);
      return { given, text };
    };
    const again = () => document.hidden ||
      read().then(setFound, (fault) => abort.signal.aborted || setFound((/** @type {any} */ old) =>
        ({ ...(passing(fault) && old.text === text ? old : { given: NOT_YET, text }), fault })));
    again();
    const timer = setInterval(again, LIST_MS);
    return () => {
      clearInterval(timer);
      abort.abort();
    };
  }, [text]);
  return !text ? { given: null } : found.text === text ? found : { given: NOT_YET };
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
    const found = named().filter((node) => accepts(node) && (given === null || given.has(node.uuid)));
    const rows = ordered(found, sort);
    last.current = { key: asked, rows, turn };
    return { shown: rows, waiting: 0 };
  }, [turn, text, words, sort, held, given, ...lists]);
}

/** @param {Node[]} rows by name @param {string} sort @returns {Node[]} rows by a column, or by need; then by name */
function ordered(rows, sort) {
  const down = sort.startsWith("-") ? -1 : 1;
  const key = sort.replace(/^-/, "");
  if (key === "name") return down < 0 ? rows.reverse() : rows;
  const byNeed = key === "need" || key === "under";
  // Made once for each row, not for each comparison.
  const keyed = rows.map((node) => ({ node, first: byNeed ? needOf(node) : String(node[key] ?? "") }));
  keyed.sort((a, b) => (a.first < b.first ? -down : a.first > b.first ? down : 0));
  return keyed.map((one) => one.node);
}

/** Enter and ↓ lead from the field to the rows, Esc out of it when it is empty. @param {any} event */
function leave(event) {
  const { key, currentTarget: field } = event;
  if (key === "Escape" && !field.value) field.blur();
  else if (key === "Enter" || key === "ArrowDown") /** @type {any} */ (document.querySelector(".grid")).focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
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
      onKeyDown=${leave}
    />
    ${filters(query)}
    ${choice("Data", query.get("data_state") ?? "", (data_state) => changeRoute({ data_state }), [["", "any"], ...DATA_STATES])}
    ${!small.value && h(Columns, {})} <button onClick=${openEnroll}>Enroll…</button>
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
    html`<button onClick=${() => changeRoute({ provision_state: FAILED_STATES.join() })}>
      ▲ failed ${sum(failed.map(([, count]) => count))}
    </button>`}
    ${counts.map(([state, count]) => {
      const kind = STATES[state] ?? "stable";
      return html`<button
        class=${`state ${kind}`}
        aria-pressed=${chosen.includes(state)}
        onClick=${(/** @type {MouseEvent} */ event) => pick(state, event.shiftKey)}
      >
        <span class="sign" aria-hidden="true">${KINDS[kind]}</span> ${state} ${count}
      </button>`;
    })}
  </div>`;
}

const clearFilters = () => {
  const { view } = route.value;
  go(href("/v1/nodes", {}, { ...view, q: "" }), { sel: view.sel });
};

/** @param {string} state */
const rank = (state) => -KIND_ORDER.indexOf(STATES[state] ?? "stable");
