/** All nodes that the caller may see, kept up to date by the feed of events. */
import { STATES } from "../facts.js";
import { signal } from "../vendor/signals.js";
import { get, pages } from "../wire/api.js";
import { Feed } from "../wire/feed.js";

const FIELDS = [
  "uuid", "name", "provision_state", "target_provision_state", "provision_updated_at",
  "power_state", "maintenance", "fault", "resource_class", "driver", "conductor_group", "conductor",
  "owner", "lessee", "shard", "retired", "protected", "instance_name", "instance_uuid",
];
const PAGE = 1000;
/** More nodes than this are not held. */
export const MOST_NODES = 20000;
/** As many UUIDs as one request may name. */
const AT_ONCE = 150;
const AGAIN_MS = 1000;
const MANY_MARKED = 3000;
const LISTS_MS = 2000;
const LISTS_APART_MS = 5000;
/** Kinds of events after which runs, overdue steps and holds are read again. */
const OF_LISTS = new Set(["provision", "fault", "overdue", "hold_added", "hold_ended", "step"]);

/** @typedef {Record<string, any>} Node */
/** @type {Map<string, Node>} */
export const nodes = new Map();
/** Moves when nodes have changed, at most once in an animation frame. */
export const tick = signal(0);
/** Moves when the order and the counts are to be made again, at most once a second. */
export const slowTick = signal(0);
/** `loading`, `whole`, or `partial`: there are too many to hold all of them. */
export const status = signal(/** @type {"loading" | "whole" | "partial"} */ ("loading"));
export const failure = signal(/** @type {Error | null} */ (null));
/** Runs under way and latest failed runs by the UUID of their node. */
export const under = signal(/** @type {Map<string, any>} */ (new Map()));
export const failed = signal(/** @type {Map<string, any>} */ (new Map()));
export const overdue = signal(/** @type {Map<string, any>} */ (new Map()));
export const holds = signal(/** @type {Map<string, any[]>} */ (new Map()));

/** @type {Feed | null} */
let feed = null;
/** @type {Set<string>} */
const marked = new Set();
let again = 0;
let lists = 0;
let listsAt = -Infinity;
let drawing = 0;
let loads = 0;

/** @param {Node} node @returns {string} the kind of its state */
export const kind = (node) => STATES[node.provision_state]?.kind ?? "stable";

function changed() {
  drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    tick.value += 1;
  });
}
setInterval(() => {
  if (slowSeen !== tick.value) slowTick.value = slowSeen = tick.value;
}, 1000);
let slowSeen = 0;

/** Begin to follow the fleet; a second call has no effect. */
export async function start() {
  if (feed) return;
  try {
    const { body } = await get("/v1/events?since=now");
    feed = new Feed(body.cursor, onEvents, () => void load());
    await load();
  } catch (error) {
    failure.value = /** @type {Error} */ (error);
  }
}

/** Read all nodes again; rows that are no more there go at the end. */
export async function load() {
  const mine = ++loads;
  const seen = new Set();
  try {
    for await (const page of pages(listPath(), "nodes")) {
      if (mine !== loads) return;
      for (const node of page) seen.add(put(node).uuid);
      slowTick.value += 1;
      changed();
      if (nodes.size > MOST_NODES) break;
    }
    failure.value = null;
  } catch (error) {
    failure.value = /** @type {Error} */ (error);
    return;
  }
  const whole = nodes.size <= MOST_NODES;
  if (whole) for (const uuid of nodes.keys()) if (!seen.has(uuid)) nodes.delete(uuid);
  status.value = whole ? "whole" : "partial";
  slowTick.value += 1;
  changed();
  await readLists();
}

export const listPath = () => `/v1/nodes?limit=${PAGE}&fields=${FIELDS.join(",")}`;

/** @param {Node} node */
function put(node) {
  delete node.links;
  nodes.set(node.uuid, node);
  return node;
}

/** @param {import("../wire/feed.js").Event[]} events */
function onEvents(events) {
  for (const event of events) {
    if (!event.node) continue;
    const node = nodes.get(event.node);
    if (event.kind === "deleted" || (event.kind === "node" && event.event === "delete")) {
      nodes.delete(event.node);
      continue;
    }
    if (node && event.kind === "provision" && event.after) {
      node.provision_state = event.after;
      node.provision_updated_at = event.at;
    } else if (node && event.kind === "power" && event.after) {
      node.power_state = event.after;
    }
    marked.add(event.node);
    if (OF_LISTS.has(event.kind)) lists ||= window.setTimeout(readLists, pauseOfLists());
  }
  again ||= window.setTimeout(readMarked, AGAIN_MS);
  changed();
}

function pauseOfLists() {
  return Math.max(LISTS_MS, listsAt + LISTS_APART_MS - performance.now());
}

/** Read the marked nodes again: events are hints, documents are the truth. */
async function readMarked() {
  again = 0;
  if (marked.size > MANY_MARKED) {
    marked.clear();
    return load();
  }
  const some = [...marked].slice(0, AT_ONCE);
  for (const uuid of some) marked.delete(uuid);
  if (marked.size) again = window.setTimeout(readMarked, AGAIN_MS);
  try {
    const { body } = await get(`${listPath()}&uuid=${some.join(",")}`);
    const missing = new Set(some);
    for (const node of body.nodes) missing.delete(put(node).uuid);
    for (const uuid of missing) nodes.delete(uuid);
    changed();
  } catch {
    for (const uuid of some) marked.add(uuid);
    again ||= window.setTimeout(readMarked, 5 * AGAIN_MS);
  }
}

const OF_RUN = "uuid,node_uuid,verb,state,place";
const LISTS = /** @type {const} */ ([
  [under, `/v1/runs?state=running,waiting&limit=1000&fields=${OF_RUN}`, "runs"],
  [failed, "/v1/runs?state=failed,aborted&latest=true&limit=1000", "runs"],
  [overdue, "/v1/runs?overdue=true", "runs"],
]);

/** Read what is under way, failed, overdue and held. */
export async function readLists() {
  lists = 0;
  listsAt = performance.now();
  await Promise.allSettled([...LISTS.map(([into, from, key]) => readList(into, from, key)), readHolds()]);
  changed();
}

/**
 * @param {import("../vendor/signals.js").Signal<Map<string, any>>} into
 * @param {string} from @param {string} key
 */
async function readList(into, from, key) {
  const { body } = await get(from);
  into.value = new Map(body[key].map((/** @type {any} */ run) => [run.node_uuid, run]));
}

async function readHolds() {
  const { body } = await get("/v1/holds");
  /** @type {Map<string, any[]>} */
  const found = new Map();
  for (const hold of body.holds) {
    const of = hold.node_uuid ?? hold.node;
    found.set(of, [...(found.get(of) ?? []), hold]);
  }
  holds.value = found;
}

const RANKS = /** @type {Record<string, number>} */ ({ held: 4, wait: 5, busy: 6, stable: 7 });

/** @param {Node} node @returns {number} the smaller, the more it needs somebody */
export function need(node) {
  if (overdue.value.has(node.uuid)) return 0;
  if (kind(node) === "fail") return 1;
  if (node.fault) return 2;
  if (holds.value.has(node.uuid)) return 3;
  return RANKS[kind(node)] ?? 7;
}

// A hidden tab gives its stream back after a while, and reads what it missed when it is seen again.
let hiding = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = window.setTimeout(pause, 10000);
  else if (feed === null && resumeAt) resume();
});
/** @type {string | null} */
let resumeAt = null;

function pause() {
  if (!feed) return;
  resumeAt = feed.cursor;
  feed.stop();
  feed = null;
}

function resume() {
  feed = new Feed(resumeAt ?? "now", onEvents, () => void load());
  resumeAt = null;
}
