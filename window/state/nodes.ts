/** All nodes that the caller may see, kept up to date by the feed of events. */
import { signal, type Signal } from "@preact/signals";
import { STATES } from "../facts";
import { get, pages, passing, UUIDS_AT_ONCE } from "../wire/api";
import { Feed, type FeedEvent, followFrom } from "../wire/feed";
import { readOpenBatches } from "./batches";
import { changeRoute, route } from "./route";

const FIELDS = [
  "uuid",
  "name",
  "provision_state",
  "target_provision_state",
  "provision_updated_at",
  "power_state",
  "maintenance",
  "fault",
  "resource_class",
  "driver",
  "conductor_group",
  "conductor",
  "owner",
  "lessee",
  "shard",
  "retired",
  "protected",
  "instance_name",
  "instance_uuid",
  "data_state",
  "health",
];
const PAGE = 1000;
/** More nodes than this are not held. */
const MOST_NODES = 20000;
const AGAIN_MS = 1000;
const LATE_MS = 50;
const TRY_AGAIN_MS = 5000;
const COUNTS_MS = 10000;
const MANY_MARKED = 3000;
const LISTS_MS = 2000;
const LISTS_APART_MS = 5000;
/** Kinds of events after which runs, overdue steps and holds are read again. */
const OF_LISTS = /^(provision|fault|overdue|step|stop)/;

const nodes: Map<string, Node> = new Map();
/** Moves when nodes have changed, at most once in an animation frame. */
const tick = signal(0);
/** Moves when the order and the counts are to be made again, at most once a second. */
const slowTick = signal(0);
/** `loading`, `whole`; `partial`: there are too many, so rows of the filter alone are held. */
const status = signal("loading" as "loading" | "whole" | "partial");
/** Numbers of all nodes by state, counted by the API; null while all nodes are held here. */
const counts = signal(null as Map<string, number> | null);
/** True if even the filter selects too many nodes. */
const narrow = signal(false);
const failure = signal(null as any);
/** Runs under way and latest failed runs by the UUID of their node. */
const under = signal(new Map() as Map<string, any>);
const failed = signal(new Map() as Map<string, any>);
const overdue = signal(new Map() as Map<string, any>);
const holds = signal(new Map() as Map<string, any[]>);

/** What is known of the fleet. */
export const fleet = {
  /** Events of nodes since the page was opened. */
  heard: { count: 0 },
  nodes,
  tick,
  slowTick,
  status,
  counts,
  narrow,
  failure,
  under,
  failed,
  overdue,
  holds,
};

let following = false;
/** Nodes were added or have other names, so they are to be put in the order of their names. */
let renamed = false;
const marked: Set<string> = new Set();
let again = 0;
let lists = 0;
let holding = 0;
let listsAt = -Infinity;
let drawing = 0;
let loads = 0;
/** The last reading of all nodes that has ended. */
let loaded = 0;
let filter = "";
let counting = 0;

/** @returns the kind of its state */
export const kindOf = (node: Node): string => STATES[node.provision_state] ?? "stable";

/** Draw in the next frame, or soon: a browser with much to do gives frames late. */
function changed() {
  if (drawing) return;
  const draw = () => {
    cancelAnimationFrame(drawing);
    clearTimeout(late);
    drawing = 0;
    tick.value += 1;
  };
  drawing = requestAnimationFrame(draw);
  const late = setTimeout(draw, LATE_MS);
}
setInterval(() => {
  if (slowSeen !== tick.value) slowTick.value = slowSeen = tick.value;
}, 1000);
let slowSeen = 0;

/** Begin to follow the fleet; a second call has no effect. */
export async function followFleet() {
  if (following) return;
  following = true;
  followFrom(
    "/v1/events?since=now",
    ({ cursor }) => {
      void load();
      return new Feed(cursor, onEvents, () => load());
    },
    (fault) => (failure.value = fault),
  );
}

/** Read all nodes again, or those of the filter; rows that are no more there go at the end. */
async function load() {
  const turn = ++loads;
  const seen = new Set();
  try {
    const many = await countNodes();
    const from = many ? (filter ? `${listPath()}&${filter}` : "") : listPath();
    for await (const page of pages(from, "nodes")) {
      if (turn !== loads) return;
      for (const node of page) seen.add(put(node).uuid);
      // Rows appear with the first page; a fleet that is read again is put in order once a second.
      if (status.value === "loading") slowTick.value += 1;
      changed();
      if (seen.size > MOST_NODES) break;
    }
    narrow.value = many && (!filter || seen.size > MOST_NODES);
    if (narrow.value) seen.clear();
    status.value = many ? "partial" : "whole";
    failure.value = null;
  } catch (error) {
    if (turn !== loads) return;
    failure.value = error;
    loaded = turn;
    setTimeout(() => turn === loads && load(), TRY_AGAIN_MS);
    return;
  }
  loaded = turn;
  for (const uuid of nodes.keys()) if (!seen.has(uuid)) nodes.delete(uuid);
  slowTick.value += 1;
  changed();
  await readLists();
}

/**
 * Count all nodes by state. If they are too many to hold, count them again every 10 seconds.
 * @returns true if they are too many
 */
async function countNodes(): Promise<boolean> {
  const { body } = await get("/v1/stats/nodes?by=provision_state");
  const many = body.of > MOST_NODES;
  const found = body.counts.map((row: any) => [row.provision_state, row.count]);
  counts.value = many ? new Map(found) : null;
  clearTimeout(counting);
  if (many) counting = setTimeout(countAgain, COUNTS_MS);
  return many;
}

function countAgain() {
  const later = () => (counting = setTimeout(countAgain, COUNTS_MS));
  const before = String([...(counts.value ?? [])]);
  if (document.hidden) later();
  else {
    countNodes().then((many) => {
      // A reading under way goes on: it may take longer than the time between two counts.
      if (loaded === loads && (!many || String([...(counts.value ?? [])]) !== before)) void load();
    }, later);
  }
}

/** Hold the rows of this filter alone if there are too many nodes. */
export function setFilter(text: string) {
  if (filter === text) return;
  filter = text;
  if (status.value === "partial") void load();
}

const listPath = () => `/v1/nodes?limit=${PAGE}&fields=${FIELDS.join(",")}`;

/**
 * Keep what was read of a node, in the object that its row has: another one would be drawn only when
 * the rows are put in order again.
 */
function put(node: Node) {
  delete node.links;
  const known = nodes.get(node.uuid);
  if (known?.name !== node.name) renamed = true;
  node.text = textOf(node);
  if (known) Object.assign(known, node);
  else nodes.set(node.uuid, node);
  return node;
}

function onEvents(events: FeedEvent[]) {
  for (const event of events) {
    if (!event.node) continue;
    fleet.heard.count += 1;
    const node = nodes.get(event.node);
    // It is read again as well: an older answer that is still under way may bring it back.
    if (event.kind === "node_deleted") nodes.delete(event.node);
    else if (node && event.kind === "provision" && event.after) {
      node.provision_state = event.after;
      node.provision_updated_at = event.at;
      node.text = textOf(node);
    } else if (node && event.kind === "power" && event.after) {
      node.power_state = event.after;
    }
    if (node || status.value !== "partial") marked.add(event.node);
    if (event.kind.startsWith("hold_")) holding ||= setTimeout(() => readHolds().catch(readLists), 100);
    else if (OF_LISTS.test(event.kind)) {
      lists ||= setTimeout(readLists, Math.max(LISTS_MS, listsAt + LISTS_APART_MS - performance.now()));
    }
  }
  again ||= setTimeout(readMarked, AGAIN_MS);
  changed();
}

/** Read the marked nodes again: events are hints, documents are the truth. */
async function readMarked() {
  again = 0;
  if (marked.size > MANY_MARKED) {
    marked.clear();
    return load();
  }
  const some = [...marked].slice(0, UUIDS_AT_ONCE);
  if (!some.length) return undefined; // Only events of no node.
  for (const uuid of some) marked.delete(uuid);
  if (marked.size) again = setTimeout(readMarked, AGAIN_MS);
  try {
    const { body } = await get(`${listPath()}&uuid=${some.join(",")}`);
    const missing = new Set(some);
    for (const node of body.nodes) missing.delete(put(node).uuid);
    for (const uuid of missing) nodes.delete(uuid);
    if (status.value === "whole" && nodes.size > MOST_NODES) void load();
    changed();
  } catch {
    for (const uuid of some) marked.add(uuid);
    again ||= setTimeout(readMarked, 5 * AGAIN_MS);
  }
}

const OF_RUN = "uuid,node_uuid,verb,state,place,eta,stop";
const LISTS = [
  [under, `state=running,waiting&fields=${OF_RUN}`],
  [failed, "state=failed,aborted&latest=true"],
  [overdue, "overdue=true"],
] as const;

/** Read what is under way, failed, overdue and held. */
async function readLists() {
  lists = 0;
  listsAt = performance.now();
  readOpenBatches();
  const found = await Promise.allSettled([
    ...LISTS.map(([into, query]) => readList(into, query)),
    readHolds(),
  ]);
  const failed = found.some((one) => one.status === "rejected" && passing(one.reason));
  if (failed) lists ||= setTimeout(readLists, TRY_AGAIN_MS);
  changed();
}

/** @param query of the list of runs */
async function readList(into: Signal<Map<string, any>>, query: string) {
  const found = new Map();
  for await (const page of pages(`/v1/runs?limit=1000&${query}`, "runs"))
    for (const run of page) found.set(run.node_uuid, run);
  into.value = found;
}

async function readHolds() {
  holding = 0;
  const found: Map<string, any[]> = new Map();
  for await (const page of pages("/v1/holds?limit=1000", "holds")) {
    for (const hold of page) found.set(hold.node_uuid, [...(found.get(hold.node_uuid) ?? []), hold]);
  }
  holds.value = found;
}

const collator = new Intl.Collator(undefined, { numeric: true });

/** @returns all nodes in the order of their names, which the map keeps until a name changes */
export function named(): Node[] {
  if (renamed) {
    const all = [...nodes.values()].sort((a, b) => collator.compare(a.name ?? a.uuid, b.name ?? b.uuid));
    nodes.clear();
    for (const node of all) nodes.set(node.uuid, node);
    renamed = false;
  }
  return [...nodes.values()];
}

/** Kinds of states; the later, the more a node needs somebody. */
export const KIND_ORDER = ["stable", "busy", "wait", "held", "fail"];

/** @returns the smaller, the more it needs somebody */
export function needOf(node: Node): number {
  if (overdue.value.has(node.uuid)) return 0;
  if (kindOf(node) === "fail") return 1;
  if (node.fault) return 2;
  if (holds.value.has(node.uuid)) return 3;
  return 7 - KIND_ORDER.indexOf(kindOf(node));
}

// -- The selected nodes: part of the route, so each entry of the browser's history has its own.

/** UUIDs of the selected nodes. */
export const selection = signal(new Set() as Set<string>);

route.subscribe(({ view: { sel } }) => {
  selection.value = new Set(sel ? sel.split(",") : []);
});

export const select = (uuids: Set<string>) =>
  changeRoute({ "~sel": [...uuids].join(",") }, { replace: true });

export const selectNone = () => selection.value.size && select(new Set());

/** @returns the selected nodes that are known */
export const selectedNodes = (): Node[] => [...selection.value].flatMap((uuid) => nodes.get(uuid) ?? []);

// -- Filters of the list of nodes that the browser applies to the rows that it has.

export type Node = Record<string, any>;

const truth = (text: string) => /^(true|1|yes|on|t|y)$/i.test(text);
export type Equality = (node: Node, value: string, name: string) => boolean;
const text: Equality = (node, value, name) => String(node[name] ?? "") === value;
const flag: Equality = (node, value, name) => !!node[name] === truth(value);
const listed: Equality = (node, value, name) => value.split(",").includes(node[name]);

/** Equality filters by the argument of the API. */
const EQUALITY: Record<string, Equality> = {
  provision_state: listed,
  shard: listed,
  uuid: listed,
  resource_class: text,
  driver: text,
  conductor: text,
  owner: text,
  lessee: text,
  fault: text,
  instance_uuid: text,
  instance_name: text,
  data_state: text,
  health: text,
  conductor_group: (node, value) => String(node.conductor_group ?? "").toLowerCase() === value.toLowerCase(),
  maintenance: flag,
  retired: flag,
  associated: (node, value) => !!node.instance_uuid === truth(value),
};

const SEARCHED = [
  ...["name", "uuid", "provision_state", "resource_class", "conductor", "instance_name"],
  ...["owner", "lessee", "driver", "shard", "fault", "instance_uuid"],
];

/** @returns what is searched, made once for each change of the node */
const textOf = (node: Node): string =>
  SEARCHED.map((name) => node[name])
    .join("\n")
    .toLowerCase();

/**
 * @param query filters of the API
 * @param words searched in names, states and the like; all of them must be found
 */
export function predicate(query: URLSearchParams, words: string): (node: Node) => boolean {
  const tests = [...query].flatMap(([name, value]) => {
    const test = EQUALITY[name];
    return test ? [(node: Node) => test(node, value, name)] : [];
  });
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return (node) => tests.every((test) => test(node)) && wanted.every((word) => node.text.includes(word));
}

/** @returns names that only the API can filter by */
export function remote(query: URLSearchParams): string[] {
  return [...query.keys()].filter((name) => !(name in EQUALITY));
}
