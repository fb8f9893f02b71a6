/** One history of what happened: events, runs and batches as entries, with person and process apart. */
import { type Json } from "../wire/json";
import { type Actors, actors } from "./actors";
import { because, type FeedEvent, type Group, KINDS, sentence, UPDATED } from "./kinds";

export interface Change {
  path: string;
  old?: unknown;
  new?: unknown;
  old_length?: number;
  new_length?: number;
}

export interface RunOf {
  uuid: string;
  /** null if its begin is not known */
  verb: string | null;
  state: string;
  /** null while it is under way */
  seconds: number | null;
  /** the step that failed */
  step: string | null;
  error: string | null;
  retry: boolean;
  /** its document was read */
  known: boolean;
}

/** A document of the API, and the UUIDs of its runs. */
export interface Batch {
  document: Json;
  runs: Set<string>;
}

export interface Entry extends Actors {
  key: string;
  at: string;
  /** the same, in milliseconds */
  time: number;
  group: Group;
  node: { uuid: string; name: string | null } | null;
  /** what happened; "" where `changes` or `run` say it */
  text: string;
  changes: Change[];
  failed: boolean;
  /** what belongs to a run or a batch, the newest first */
  inside: Entry[];
  run?: RunOf;
  /** the batch that is told, or in which the run was begun */
  batch?: Json;
  /** the run in which it happened */
  of?: string;
  erasure?: string;
}

const MAINTENANCE = new Set(["maintenance", "maintenance_reason"]);

function entryOf(event: FeedEvent): Entry {
  const data = event.data ?? {};
  const [group, tell] = KINDS[event.kind] ?? ["service" as Group, () => sentence(event.kind)];
  const changes: Change[] = data.changes ?? [];
  const entry: Entry = {
    ...actors(event),
    key: event.cursor,
    at: event.at,
    time: time(event.at),
    group,
    node: event.node ? { uuid: event.node, name: event.name } : null,
    text: tell(event, data),
    changes: [],
    failed: event.event === "fail" || !!data.error,
    inside: [],
    ...(event.run && { of: event.run }),
    ...(data.erasure && { erasure: data.erasure }),
  };
  if (event.kind !== UPDATED) return entry;
  if ((data.fields ?? []).some((field: string) => !MAINTENANCE.has(field)))
    return changes.length ? { ...entry, text: "", changes } : entry;
  const value = (path: string) => changes.find((change) => change.path === path)?.new;
  const on = value("maintenance");
  const begins = on ? "Maintenance" : on === false ? "Maintenance ended" : "Reason of the maintenance";
  return { ...entry, group: "maintenance", text: `${begins}${because(value("maintenance_reason"))}` };
}

// -- Merging.

/** Kinds of which one request makes several events: its begin, its end, and what was found. */
const ORDERS = new Set(["power", "management"]);

/** What people ask of a run stands beside it, because another person may have asked for the run. */
const ASKED = new Set(["abort_requested", "stop_requested", "stop_withdrawn", "step_waived"]);

/** How a run ends, by its last move. */
const ENDS: Record<string, string> = { done: "done", fail: "failed", abort: "aborted" };
/** Moves that begin nothing. */
const GOES_ON = new Set([...Object.keys(ENDS), "wait", "resume"]);

const time = (at: string) => Date.parse(at);
const newest = (one: Entry, other: Entry) =>
  other.time - one.time || Number(other.key) - Number(one.key) || 0;

/** The events of one order as one entry, at the time of its begin. */
function orderOf(events: FeedEvent[]): Entry {
  const [first] = events as [FeedEvent, ...FeedEvent[]];
  const said = events.findLast(({ event }) => event !== "changed") ?? first;
  return { ...entryOf(said), key: first.cursor, at: first.at, time: time(first.at) };
}

function entriesOf(events: FeedEvent[]): Entry[] {
  const orders = new Map<string, FeedEvent[]>();
  for (const event of events) {
    const { kind, node, cursor, request_id: request } = event;
    const key = ORDERS.has(kind) && request ? `${kind} ${node} ${request}` : cursor;
    put(orders, key, event);
  }
  return [...orders.values()].map(orderOf).sort(newest);
}

function runOf(uuid: string, document: Json | undefined, events: FeedEvent[]): Entry {
  const moves = events.filter(({ kind }) => kind === "provision");
  const first = moves[0] ?? events[0];
  const last = moves.at(-1);
  const end = ENDS[last?.event ?? ""];
  const state = document?.ended_at ? document.state : (end ?? document?.state ?? "running");
  const at = document?.started_at ?? first?.at;
  const ended = document?.ended_at ?? (end ? last?.at : null);
  const known = moves[0]?.event && !GOES_ON.has(moves[0].event);
  const who = actors(document ?? first ?? {});
  const other = state === "aborted" && last ? actors(last).person : null;
  return {
    ...who,
    key: uuid,
    at,
    time: time(at),
    group: "runs",
    node: {
      uuid: document?.node_uuid ?? first?.node,
      name: document?.node_name ?? events.at(-1)?.name ?? null,
    },
    text: other && other !== who.person ? `by ${other}` : "",
    changes: [],
    failed: state === "failed",
    inside: entriesOf(
      events.filter(({ kind }) => kind !== "provision").map((event) => ({ ...event, run: null })),
    ),
    run: {
      uuid,
      verb: document?.verb ?? (known ? (moves[0]?.event ?? null) : null),
      state,
      seconds: ended ? (time(ended) - time(at)) / 1000 : null,
      step: document?.error?.step ?? null,
      error: document?.error?.cause?.text ?? document?.error?.text ?? last?.data?.error ?? null,
      retry: !!document?.retry_of,
      known: !!document,
    },
  };
}

/** A batch at the time of the first thing that is shown of it. */
function batchOf({ document }: { document: Json }, inside: Entry[]): Entry {
  const sorted = inside.toSorted(newest);
  const at = sorted.at(-1)?.at ?? document.created_at;
  return {
    ...actors({ requester: document.requester }),
    key: document.uuid,
    at,
    time: time(at),
    group: "batches",
    node: null,
    text: "",
    changes: [],
    failed: sorted.some(({ failed }) => failed),
    inside: sorted,
    batch: document,
  };
}

/** Runs whose begin no event tells, of nodes that are not deleted: only their documents say what they are. */
export function untold(events: FeedEvent[], known: Set<string>): string[] {
  const deleted = new Set(events.filter(({ kind }) => kind === "node_deleted").map(({ node }) => node));
  const runs = by(events, ({ run, node }) => (run && !known.has(run) && !deleted.has(node) ? run : null));
  const begins = ({ kind, event }: FeedEvent) => kind === "provision" && !GOES_ON.has(event ?? "");
  return [...runs].filter(([, own]) => !own.some(begins)).map(([run]) => run);
}

/** Runs are read from such a time on: a busy fleet would else ask anew with each event that is dropped. */
const STEP_MS = 600_000;

/** @returns the time from which runs are read, in milliseconds */
export const readFrom = (floor: number): number => Math.floor(floor / STEP_MS) * STEP_MS;

/**
 * @param floor the events before it are not read: without them, a time with runs alone would look quiet
 * @returns the runs that have begun since then, or of which an event tells
 */
export function runsSince(runs: Json[], events: FeedEvent[], floor: number): Json[] {
  const told = new Set(events.map(({ run }) => run));
  return runs.filter(({ uuid, started_at: at }) => told.has(uuid) || time(at) >= floor);
}

/**
 * The time from which all is known of what is shown, in milliseconds; null: there is no event.
 * @param more there are older events that are not read
 */
export function floorOf(since: number | null, oldest: FeedEvent | undefined, more: boolean): number | null {
  const first = oldest ? time(oldest.at) : null;
  return more ? first : (since ?? first);
}

/** Add a value to the list of a key. */
function put<Value>(lists: Map<string, Value[]>, key: string, value: Value) {
  const list = lists.get(key);
  if (list) list.push(value);
  else lists.set(key, [value]);
}

/** Events by a key, in their order. */
function by(events: FeedEvent[], key: (event: FeedEvent) => string | null | undefined) {
  const found = new Map<string, FeedEvent[]>();
  for (const event of events) {
    const name = key(event);
    if (name) put(found, name, event);
  }
  return found;
}

/**
 * Merge documents of the API into one history, the newest first.
 * @param events the oldest first
 * @param runs documents of the list; a run whose node was deleted has none
 * @param group the entries that are wanted; all without one
 * @param node the batches of one node are marks of its runs; in the fleet they contain their runs
 */
export function history(
  { events, runs, batches }: { events: FeedEvent[]; runs: Json[]; batches: Batch[] },
  { group = "", node = false }: { group?: string; node?: boolean } = {},
): Entry[] {
  const folds = !group || group === "runs";
  const inRun = ({ run, kind }: FeedEvent) => (folds && run && !ASKED.has(kind) ? run : null);
  const inBatch = ({ kind, data }: FeedEvent) => (KINDS[kind]?.[0] === "batches" ? data?.batch : null);
  const documents = new Map(folds ? runs.map((run) => [run.uuid, run]) : []);
  const ofRuns = by(events, inRun);
  const ofBatches = by(events, inBatch);
  const of = new Map(batches.flatMap((batch) => [...batch.runs].map((run) => [run, batch.document])));
  const found = entriesOf(events.filter((event) => !inRun(event) && !inBatch(event)));
  const folded = new Map<string, Entry[]>();
  for (const uuid of new Set([...documents.keys(), ...ofRuns.keys()])) {
    const entry = runOf(uuid, documents.get(uuid), ofRuns.get(uuid) ?? []);
    const batch = of.get(uuid);
    if (!batch || node || group) found.push(batch ? { ...entry, batch } : entry);
    else put(folded, batch.uuid, entry);
  }
  const known = new Map(batches.map(({ document }) => [document.uuid, document]));
  for (const uuid of new Set([...folded.keys(), ...ofBatches.keys()])) {
    const own = ofBatches.get(uuid) ?? [];
    const { requester, data } = own[0] ?? {};
    const document = known.get(uuid) ?? { uuid, name: data?.name, requester };
    found.push(batchOf({ document }, [...entriesOf(own), ...(folded.get(uuid) ?? [])]));
  }
  return found.filter((entry) => !group || entry.group === group).sort(newest);
}

/** @returns whether an entry, or what belongs to it, is by this process; "" is all */
export const passes = (entry: Entry, process: string): boolean =>
  !process || entry.process === process || entry.inside.some((other) => passes(other, process));

/** @returns the names of all persons, or all processes, of entries */
export const names = (entries: Entry[], what: keyof Actors): string[] =>
  [
    ...new Set(
      entries.flatMap((entry) => [entry[what], ...names(entry.inside, what)]).filter((name) => name !== null),
    ),
  ].sort();
