/** Reads what the page Activity shows: events as they come, and the runs and batches around them. */
import { useEffect, useRef, useState } from "preact/hooks";
import { type Batch, untold } from "../state/activity";
import { now } from "../state/clock";
import { type FeedEvent, kindsOf } from "../state/kinds";
import { path } from "../state/route";
import { type Span } from "../state/spans";
import { type Fault, get, pages, passing } from "../wire/api";
import { Feed, followFrom } from "../wire/feed";
import { type Json } from "../wire/json";

/** Events of one request, without and with a time of the begin. */
const PAGE = 200;
const PAGE_OF_SPAN = 1000;
/** What comes later takes the place of the oldest. */
const MOST_EVENTS = 5000;
/** What comes within this time is drawn at once. */
const GATHER_MS = 200;
const MOST_PAGES_OF_RUNS = 3;
/** Runs that have begun before the first event that is shown are read one by one. */
const MOST_EARLIER_RUNS = 20;
const MOST_BATCHES = 20;
/** Runs and batches are read again so long after an event of a run. */
const AGAIN_MS = 3000;
const RUN_FIELDS =
  "uuid,node_uuid,node_name,verb,state,requester,conductor,started_at,ended_at,error,retry_of";
const BATCH_FIELDS = "uuid,name,state,waves,requester,created_at,ended_at,request";

const [RUNS, BATCHES] = ["runs", "batches"];

/** What is asked for; an empty text is no filter. */
export interface Asked extends Span {
  /** UUID or name */
  node: string;
  /** the page is that of this node */
  one: boolean;
  group: string;
  /** kinds of events that the address names, instead of those of the group */
  kind: string;
  run: string;
  /** `since` and `before` of the address, where they are no times */
  from: string;
  upto: string;
  /** `since=0` */
  all: boolean;
}

const iso = (at: number | null) => (at === null ? "" : new Date(at).toISOString());

/** @returns a path with the arguments that are not empty */
const asking = (target: string, query: Record<string, string>) =>
  `${target}?${new URLSearchParams(Object.entries(query).filter(([, value]) => value))}`;

/**
 * @param paused nothing new is read
 * @returns what is read so far, the oldest first, with `list`: the request for all of it
 */
export function useHistory(asked: Asked, paused: boolean) {
  const { since, before, node, one, group, run, from, upto, all } = asked;
  const [read, setRead] = useState({ of: "", events: [] as FeedEvent[], more: false });
  const [fault, setFault] = useState(null as Fault | null);
  const filter = { node, run, kind: asked.kind || kindsOf(group, one).join() };
  const until = upto || iso(before);
  const limit = String(since === null ? PAGE : PAGE_OF_SPAN);
  const first = asking("/v1/events", { ...filter, since: from, before: until, limit });
  // What was read for other arguments is not shown, nor used for what is read beside it.
  const key = `${first} ${since}`;
  const events = read.of === key ? read.events : null;
  useEffect(() => setFault(null), [key]);
  useEffect(() => {
    if (paused && read.of === key) return undefined;
    const follows = !paused && !upto && (before === null || before > now.peek());
    let come: FeedEvent[] = [];
    let timer = 0;
    // A busy fleet has many events in a second, and each drawing merges all.
    const add = (found: FeedEvent[]) => {
      come.push(...found);
      timer ||= setTimeout(() => {
        const some = come;
        [come, timer] = [[], 0];
        setRead((old) => ({ ...old, events: [...old.events, ...some].slice(-MOST_EVENTS) }));
      }, GATHER_MS);
    };
    const given = Object.fromEntries(Object.entries(filter).filter(([, value]) => value));
    const stop = followFrom(
      first,
      ({ events: found, cursor }) => {
        setFault(null);
        // With a cursor, the API answers with the oldest events, and the others follow.
        setRead({ of: key, events: found, more: !from && found.length === Number(limit) });
        return follows ? new Feed(cursor, add, null, given) : { stop: () => undefined };
      },
      setFault,
    );
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [key, paused]);
  const oldest = events?.[0];
  const more = read.more && !!oldest && (since === null || Date.parse(oldest.at) >= since);
  const older = async () => {
    if (!more) return;
    const upto = String(Number(oldest.cursor) - 1);
    try {
      const { body } = await get(asking("/v1/events", { ...filter, before: upto, limit }));
      const found = { more: body.events.length === Number(limit) };
      setRead((old) =>
        old.of === key ? { ...old, ...found, events: [...body.events, ...old.events] } : old,
      );
    } catch (error) {
      setFault(error as Fault);
    }
  };
  const inSpan = ({ at }: FeedEvent) =>
    (since === null || Date.parse(at) >= since) && (before === null || Date.parse(at) < before);
  const found = events?.filter(inSpan) ?? [];
  const floor = since ?? (oldest ? Date.parse(oldest.at) : null);
  const beside = useRuns(asked, found, floor, !!events && !paused);
  const named = asked.kind || (group && filter.kind);
  return {
    ...beside,
    events: found,
    ready: !!events,
    fault,
    more,
    older,
    list: asking("/v1/events", {
      node,
      run,
      kind: named,
      since: from || iso(since) || (all ? "0" : ""),
      before: until,
    }),
  };
}

interface Beside {
  runs: Json[];
  batches: Batch[];
}

/**
 * The runs of a time, and the batches in which they were begun.
 * @param floor milliseconds; null: there is no event
 */
function useRuns(asked: Asked, events: FeedEvent[], floor: number | null, ready: boolean): Beside {
  const { node, group, before } = asked;
  const [beside, setBeside] = useState({ runs: [], batches: [] } as Beside);
  const [turn, setTurn] = useState(0);
  /** The runs of batches that are over, and what cannot be read. */
  const ended = useRef(new Map<string, Set<string>>());
  const absent = useRef(new Set<string>());
  const timer = useRef(0);
  const wanted = !group || group === "runs";
  const count = events.filter(({ run, kind }) => run || kind.startsWith("batch")).length;
  const seen = useRef(0);
  const key = JSON.stringify([asked, floor]);
  useEffect(() => () => clearTimeout(timer.current), []);
  useEffect(() => {
    ended.current.clear();
    for (const list of [RUNS, BATCHES]) absent.current.delete(list);
  }, [key]);
  useEffect(() => {
    seen.current = count;
    if (!ready || floor === null) return undefined;
    const abort = new AbortController();
    const span = { since: iso(floor), before: iso(before), node };
    /** A list that the caller may not read, or that the service does not have, is asked for once. */
    const unless = (list: string) => (error: unknown) => {
      if (passing(error as Fault)) throw error;
      absent.current.add(list);
      return [];
    };
    const read = async () => {
      const listed = wanted && !asked.kind && !asked.run && !absent.current.has(RUNS);
      const runs = listed ? await readRuns(span, abort.signal).catch(unless(RUNS)) : [];
      const known = new Set([...runs.map(({ uuid }) => uuid), ...absent.current]);
      const earlier = wanted ? untold(events, known) : [];
      for (const uuid of earlier.slice(-MOST_EARLIER_RUNS)) {
        const found = await document(`${path("runs", uuid)}?fields=${RUN_FIELDS}`);
        if (found) runs.push(found);
        else absent.current.add(uuid);
      }
      if (!abort.signal.aborted) setBeside((old) => ({ ...old, runs }));
      const people = new Set(runs.map(({ requester }) => requester));
      const batches = absent.current.has(BATCHES)
        ? []
        : await readBatches(span, people, node || null, ended.current, abort.signal).catch(unless(BATCHES));
      if (!abort.signal.aborted) setBeside({ runs, batches });
    };
    const document = (from: string) =>
      get(from, abort.signal).then(
        ({ body }) => body,
        () => null,
      );
    read().catch(() => undefined); // What was read stays; the events have what matters most.
    return () => abort.abort();
  }, [key, turn, ready]);
  useEffect(() => {
    if (count <= seen.current) return;
    timer.current ||= setTimeout(() => {
      timer.current = 0;
      setTurn((last) => last + 1);
    }, AGAIN_MS);
  }, [count]);
  return beside;
}

type Where = { since: string; before: string; node: string };

async function readRuns(where: Where, abort: AbortSignal): Promise<Json[]> {
  const found: Json[] = [];
  const list = asking("/v1/runs", { ...where, fields: RUN_FIELDS, limit: "1000" });
  let left = MOST_PAGES_OF_RUNS;
  for await (const page of pages(list, "runs", abort)) {
    found.push(...page);
    left -= 1;
    if (!left) break;
  }
  return found;
}

/**
 * Batches of a time; of those whose requester is one of some people, also their runs.
 * @param node the only one whose runs are wanted; null for all
 * @param ended the runs of batches that are over, which are read once
 */
export async function readBatches(
  { since, before }: { since: string; before: string },
  people: Set<string | null>,
  node: string | null,
  ended: Map<string, Set<string>>,
  abort: AbortSignal,
): Promise<Batch[]> {
  const { body } = await get(`/v1/batches?limit=100&fields=${BATCH_FIELDS}`, abort);
  const then = (batch: Json) =>
    (!batch.ended_at || Date.parse(batch.ended_at) >= Date.parse(since)) &&
    (!before || Date.parse(batch.created_at) <= Date.parse(before));
  const found: Batch[] = [];
  for (const document of body.batches.filter(then).slice(0, MOST_BATCHES)) {
    const { uuid, requester, ended_at: over } = document;
    let runs = ended.get(uuid) ?? new Set<string>();
    if (people.has(requester) && !ended.has(uuid)) {
      runs = new Set();
      // The nodes of a batch have also the runs of nodes that are deleted.
      const [list, key] = node
        ? [asking("/v1/runs", { batch: uuid, node, fields: "uuid", limit: "1000" }), "runs"]
        : [`${path("batches", uuid)}/nodes?fields=run&limit=1000`, "nodes"];
      for await (const page of pages(list, key, abort))
        for (const { uuid, run } of page) runs.add(uuid ?? run);
      if (over) ended.set(uuid, runs);
    }
    found.push({ document, runs });
  }
  return found;
}
