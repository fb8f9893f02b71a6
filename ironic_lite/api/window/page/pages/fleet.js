/** The fleet: what needs attention, filters with counts, all nodes, and acts on many of them. */
import { STATES } from "../facts.js";
import { useEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { predicate, remote } from "../state/filters.js";
import * as fleet from "../state/nodes.js";
import { change, go, href, path, route } from "../state/route.js";
import { get } from "../wire/api.js";
import { State } from "../parts/chip.js";
import { Curl } from "../parts/copy.js";
import { Bulk } from "../parts/bulk.js";
import { Attention } from "../parts/attention.js";
import { opened } from "../parts/dialog.js";
import { openEnroll } from "../parts/enroll.js";
import { FaultBox } from "../parts/read.js";
import { Table } from "../parts/table.js";
import { Ago, html, Text } from "../parts/text.js";
import { FAILED_STATES, KINDS } from "../parts/words.js";

/** @typedef {Record<string, any>} Node */

const COLUMNS = [
  { key: "name", title: "Name", width: "minmax(9rem, 1.4fr)", cell: Name },
  { key: "provision_state", title: "State", width: "minmax(8rem, 1fr)", cell: Where },
  { key: "provision_updated_at", title: "Since", width: "6rem", cell: Since },
  { key: "under", title: "Under way", width: "minmax(10rem, 1.6fr)", cell: Under, wide: true },
  { key: "power_state", title: "Power", width: "5rem", cell: Power },
  { key: "resource_class", title: "Class", width: "7rem", cell: shown("resource_class"), wide: true },
  { key: "conductor", title: "Conductor", width: "7rem", cell: shown("conductor"), wide: true },
];

/** @param {Node} node */
function Name(node) {
  return html`<a href=${href(path("nodes", node.name ?? node.uuid))} tabindex="-1">
    ${h(Text, { of: node.name ?? node.uuid })}
  </a>`;
}
/** @param {Node} node */
function Where(node) {
  return h(State, { state: node.provision_state });
}
/** @param {Node} node */
function Since(node) {
  return h(Ago, { at: node.provision_updated_at });
}
/** @param {Node} node */
function Power(node) {
  return h(Text, { of: String(node.power_state ?? "").replace("power ", "") });
}
/** @param {string} name */
function shown(name) {
  return /** @param {Node} node */ (node) => h(Text, { of: node[name] ?? "" });
}
/** @param {Node} node */
function Under(node) {
  const held = fleet.holds.value.get(node.uuid);
  const run = fleet.under.value.get(node.uuid);
  const place = run?.place;
  if (place) {
    return h(Text, { of: `${place.ordinal + 1}/${place.of} ${place.interface}.${place.step}` });
  }
  if (run) return h(Text, { of: run.verb });
  if (held) return h(Text, { of: `■ held: ${held[0].reason}` });
  if (node.maintenance) return h(Text, { of: `maintenance${node.fault ? `: ${node.fault}` : ""}` });
  return h(Text, { of: fleet.failed.value.get(node.uuid)?.code ?? "" });
}

export function Fleet() {
  const { query, view } = route.value;
  const words = view.q ?? "";
  const sort = view.sort ?? "need";
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const [held, setHeld] = useState(false);
  useEffect(() => void fleet.start(), []);
  useEffect(() => {
    const clear = /** @param {KeyboardEvent} event */ (event) =>
      event.key === "Escape" && !opened.value && setSelected(new Set());
    addEventListener("keydown", clear);
    return () => removeEventListener("keydown", clear);
  }, []);
  const given = useRemote(query);
  const rows = useRows(query, words, sort, held, given);
  void fleet.tick.value;
  return html`<h1 class="unseen">Fleet</h1>
    ${h(Attention, {})} ${h(Filters, { words })} ${h(Chips, {})}
    ${fleet.failure.value && h(FaultBox, { fault: fleet.failure.value })}
    ${h(Table, {
      rows: rows.shown, columns: COLUMNS, id: (/** @type {Node} */ node) => node.uuid,
      label: "Nodes", selected, onSelect: setSelected, onHold: setHeld,
      sort, onSort: (/** @type {string} */ key) =>
        change({ "~sort": sort === key ? `-${key}` : key }, { replace: true }),
      onOpen: (/** @type {Node} */ node) => go(href(path("nodes", node.name ?? node.uuid))),
    })}
    ${selected.size > 0 && h(Bulk, { selected, shown: rows.shown, onClear: () => setSelected(new Set()) })}
    <p class="footer" role="note">${footer(rows, sort)}</p>`;
}

/** @param {{shown: Node[], waiting: number}} rows @param {string} sort */
function footer(rows, sort) {
  const of = fleet.nodes.size;
  const state = { loading: " · loading", whole: "", partial: " · narrow the filter to see all rows" };
  const held = rows.waiting ? ` · ${rows.waiting} changes wait while you point here` : "";
  const order = sort === "need" ? "need" : sort.replace(/^-/, "");
  return `${rows.shown.length} of ${of} · sorted by ${order}${state[fleet.status.value]}${held}`;
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
    get(`/v1/nodes?${text}&fields=uuid&limit=1000`, abort.signal).then(
      ({ body }) => setGiven(new Set(body.nodes.map((/** @type {Node} */ one) => one.uuid))),
      () => setGiven(new Set()),
    );
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
    const rows = [...fleet.nodes.values()].filter(
      (node) => accepts(node) && (given === null || given.has(node.uuid)),
    );
    rows.sort(order(sort));
    last.current = { key: asked, rows, turn };
    return { shown: rows, waiting: 0 };
  }, [turn, text, words, sort, held, given, ...lists]);
}

const collator = new Intl.Collator(undefined, { numeric: true });

/** @param {string} sort @returns {(one: Node, other: Node) => number} */
function order(sort) {
  const down = sort.startsWith("-") ? -1 : 1;
  const key = sort.replace(/^-/, "");
  const name = /** @param {Node} node */ (node) => String(node.name ?? node.uuid);
  const byName = /** @type {(a: Node, b: Node) => number} */ (a, b) =>
    collator.compare(name(a), name(b));
  if (key === "name") return (a, b) => down * byName(a, b);
  if (key === "need" || key === "under") {
    return (a, b) => down * (fleet.need(a) - fleet.need(b)) || byName(a, b);
  }
  return (a, b) => {
    const [one, other] = [String(a[key] ?? ""), String(b[key] ?? "")];
    return (one < other ? -down : one > other ? down : 0) || byName(a, b);
  };
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
      onInput=${(/** @type {any} */ event) => change({ "~q": event.target.value }, { replace: true })}
    />
    ${[...query].map(
      ([name, value]) =>
        html`<button class="pressed" onClick=${() => change({ [name]: "" })}>
          ${name}: ${h(Text, { of: value })} <span aria-label="remove">×</span>
        </button>`,
    )}
    <button onClick=${openEnroll}>Enroll…</button>
    ${h(Curl, { path: `/v1/nodes?${new URLSearchParams(query)}`, label: "curl of these" })}
  </div>`;
}

/** States of the whole fleet with their counts; a click filters. */
function Chips() {
  const turn = fleet.slowTick.value;
  const counts = useMemo(() => {
    /** @type {Map<string, number>} */
    const found = new Map();
    for (const node of fleet.nodes.values()) {
      const state = node.provision_state;
      found.set(state, (found.get(state) ?? 0) + 1);
    }
    return [...found].sort(([one], [other]) => rank(one) - rank(other));
  }, [turn]);
  const chosen = (route.value.query.get("provision_state") ?? "").split(",").filter(Boolean);
  const pick = /** @type {(state: string, more: boolean) => void} */ (state, more) => {
    const others = more ? chosen.filter((one) => one !== state) : [];
    const next = chosen.includes(state) ? others : [...others, state];
    change({ provision_state: next.join(",") });
  };
  const failed = counts.filter(([state]) => FAILED_STATES.includes(state));
  return html`<div class="chips" role="group" aria-label="States">
    <button aria-pressed=${!chosen.length} onClick=${() => change({ provision_state: "" })}>
      all ${fleet.nodes.size}
    </button>
    ${failed.length > 1 &&
    html`<button onClick=${() => change({ provision_state: failed.map(([one]) => one).join(",") })}>
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

const ORDER = ["stable", "busy", "wait", "held", "fail"];
/** @param {string} state */
const rank = (state) => -ORDER.indexOf(STATES[state]?.kind ?? "stable");
