/** Reads what the page Activity shows: events as they come, and the runs and batches around them. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Batch, floorOf, readFrom, runsSince, untold } from "../state/activity";
import { now } from "../state/clock";
import { type FeedEvent, kindsOf } from "../state/kinds";
import { path } from "../state/route";
import { type Span } from "../state/spans";
import { type Fault, get, oneAtATime, pages, passing } from "../wire/api";
import { Feed, followFrom, POLL_MS } from "../wire/feed";
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
/** Pages of batches in which that of a run is looked for. */
const MOST_LISTS = 10;
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
  /** the person who asked */
  requester: string;
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
  const { since, before, node, one, group, run, requester, from, upto, all } = asked;
  const [read, setRead] = useState({ of: "", events: [] as FeedEvent[], more: false });
  const [fault, setFault] = useState(null as Fault | null);
  const [gaps, setGaps] = useState(0);
  const again = useRef(0);
  const current = useRef("");
  const filter = { node, run, requester, kind: asked.kind || kindsOf(group, one).join() };
  const until = upto || iso(before);
  const limit = String(since === null ? PAGE : PAGE_OF_SPAN);
  // What was read for other arguments is not shown, nor used for what is read beside it.
  const key = asking("/v1/events", { ...filter, since: from, before: until, limit });
  const events = read.of === key ? read.events : null;
  useEffect(() => {
    current.current = key;
    setFault(null);
    return () => clearTimeout(again.current);
  }, [key]);
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
        setRead((old) => {
          const all = [...old.events, ...some];
          return { ...old, events: all.slice(-MOST_EVENTS), more: old.more || all.length > MOST_EVENTS };
        });
      }, GATHER_MS);
    };
    // Events were lost: those that are read would stand beside a gap.
    const anew = () => setGaps((last) => last + 1);
    const given = Object.fromEntries(Object.entries(filter).filter(([, value]) => value));
    const stop = followFrom(
      key,
      ({ events: found, cursor }) => {
        setFault(null);
        // With a cursor, the API answers with the oldest events, and the others follow.
        setRead({ of: key, events: found, more: !from && found.length === Number(limit) });
        return follows ? new Feed(cursor, add, anew, given, true) : { stop: () => undefined };
      },
      setFault,
    );
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [key, paused, gaps]);
  const oldest = events?.[0];
  const more = read.more && !!oldest && (since === null || Date.parse(oldest.at) >= since);
  const older = async (): Promise<void> => {
    if (!more) return;
    clearTimeout(again.current);
    const upto = String(Number(oldest.cursor) - 1);
    try {
      const { body } = await get(asking("/v1/events", { ...filter, before: upto, limit }));
      const found = { more: body.events.length === Number(limit) };
      // Of two answers, and after a gap, only what goes on from the oldest is taken.
      setRead((old) =>
        old.of === key && old.events[0]?.cursor === oldest.cursor
          ? { ...old, ...found, events: [...body.events, ...old.events] }
          : old,
      );
      setFault(null);
    } catch (error) {
      if (current.current !== key) return;
      setFault(error as Fault);
      if (passing(error as Fault)) again.current = setTimeout(() => void older(), POLL_MS);
    }
  };
  const found = useMemo(() => {
    const inSpan = ({ at }: FeedEvent) =>
      (since === null || Date.parse(at) >= since) && (before === null || Date.parse(at) < before);
    return events?.filter(inSpan) ?? [];
  }, [events, since, before]);
  const floor = floorOf(since, oldest, more);
  const { runs, batches } = useRuns(asked, found, floor, !!events && !paused);
  const known = useMemo(() => (floor === null ? runs : runsSince(runs, found, floor)), [runs, found, floor]);
  const named = asked.kind || (group && filter.kind);
  return {
    runs: known,
    batches,
    events: found,
    ready: !!events,
    fault,
    more,
    older,
    list: asking("/v1/events", {
      node,
      run,
      requester,
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
  const { node, group, kind, run: only, requester, before } = asked;
  const [beside, setBeside] = useState({ runs: [], batches: [] } as Beside);
  /** The runs of batches that are over, and what cannot be read. */
  const ended = useRef(new Map<string, Set<string>>());
  const absent = useRef(new Set<string>());
  const newest = useRef(events);
  newest.current = events;
  const reading = useRef({ again: () => {} });
  const timer = useRef(0);
  const wanted = !group || group === "runs";
  const told = events.filter(({ run, kind }) => run || kind.startsWith("batch"));
  // Their number alone stands still once the oldest are dropped.
  const mark = `${told.length} ${told.at(-1)?.cursor}`;
  const seen = useRef(mark);
  const from = floor === null ? null : readFrom(floor);
  const filter = [node, group, kind, only, requester].join(" ");
  useEffect(() => {
    ended.current.clear();
    for (const list of [RUNS, BATCHES]) absent.current.delete(list);
  }, [filter]);
  useEffect(() => {
    if (!ready || from === null) return undefined;
    const span = { since: iso(from), before: iso(before), node, requester };
    /** A list that the caller may not read, or that the service does not have, is asked for once. */
    const unless = (list: string) => (error: unknown) => {
      if (passing(error as Fault)) throw error;
      absent.current.add(list);
      return [];
    };
    let over = false;
    const read = async (abort: AbortSignal) => {
      const known = newest.current;
      const listed = wanted && !kind && !only && !absent.current.has(RUNS);
      const runs = listed ? await readRuns(span, abort).catch(unless(RUNS)) : [];
      const listedOnes = new Set([...runs.map(({ uuid }) => uuid), ...absent.current]);
      const earlier = wanted ? untold(known, listedOnes) : [];
      for (const uuid of earlier.slice(-MOST_EARLIER_RUNS)) {
        const [found] = await documentOf(`${path("runs", uuid)}?fields=${RUN_FIELDS}`, abort).catch(
          unless(uuid),
        );
        if (found) runs.push(found);
      }
      if (!over) setBeside((old) => ({ ...old, runs }));
      const people = new Set(runs.map(({ requester }) => requester));
      const batches = absent.current.has(BATCHES)
        ? []
        : await readBatches(span, people, node || null, ended.current, abort).catch(unless(BATCHES));
      if (!over) setBeside({ runs, batches });
    };
    // A reading ends before the next one, or a busy fleet would never have its batches.
    const found = oneAtATime((abort) => {
      clearTimeout(timer.current);
      timer.current = 0;
      // What was read stays; the events have what matters most.
      return read(abort).catch(() => {
        if (!over) timer.current ||= setTimeout(found.again, POLL_MS);
      });
    });
    reading.current = found;
    found.now();
    return () => {
      over = true;
      clearTimeout(timer.current);
      timer.current = 0;
      found.stop();
    };
  }, [filter, before, from, ready]);
  useEffect(() => {
    if (mark === seen.current) return;
    seen.current = mark;
    timer.current ||= setTimeout(() => reading.current.again(), AGAIN_MS);
  }, [mark]);
  return beside;
}

const documentOf = async (from: string, abort: AbortSignal): Promise<Json[]> => [
  (await get(from, abort)).body,
];

type Where = { since: string; before: string; node: string; requester: string };

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

/** @returns whether a batch may have begun runs of a time */
const overlaps = (since: string, before: string) => (batch: Json) =>
  (!batch.ended_at || Date.parse(batch.ended_at) >= Date.parse(since)) &&
  (!before || Date.parse(batch.created_at) <= Date.parse(before));

const LIST_OF_BATCHES = `/v1/batches?limit=100&fields=${BATCH_FIELDS}`;
// The nodes of a batch have also the runs of nodes that are deleted.
const nodesOf = (batch: string) => `${path("batches", batch)}/nodes?fields=run&limit=1000`;

/**
 * The batch in which a run of a person was begun.
 * @returns null: in none; undefined: there are too many batches of that time
 */
export async function readBatchOf(
  run: Json,
  { since, before }: { since: string; before: string },
  abort: AbortSignal,
): Promise<Json | null | undefined> {
  const then = overlaps(since, before);
  let left = MOST_BATCHES;
  let lists = MOST_LISTS;
  for await (const list of pages(LIST_OF_BATCHES, "batches", abort)) {
    if (!lists) return undefined;
    lists -= 1;
    for (const batch of list.filter(then)) {
      if (batch.requester !== run.requester) continue;
      if (!left) return undefined;
      left -= 1;
      for await (const page of pages(nodesOf(batch.uuid), "nodes", abort))
        if (page.some((node) => node.run === run.uuid)) return batch;
    }
  }
  return null;
}

/**
 * Batches of a time; of those whose requester is one of some people, also their runs.
 * @param node the only one whose runs are wanted; null for all
 * @param ended the runs of batches that are over, which are read once
 */
async function readBatches(
  { since, before }: { since: string; before: string },
  people: Set<string | null>,
  node: string | null,
  ended: Map<string, Set<string>>,
  abort: AbortSignal,
): Promise<Batch[]> {
  const { body } = await get(LIST_OF_BATCHES, abort);
  const found: Batch[] = [];
  for (const document of body.batches.filter(overlaps(since, before)).slice(0, MOST_BATCHES)) {
    const { uuid, requester, ended_at: over } = document;
    let runs = ended.get(uuid) ?? new Set<string>();
    if (people.has(requester) && !ended.has(uuid)) {
      runs = new Set();
      const [list, key] = node
        ? [asking("/v1/runs", { batch: uuid, node, fields: "uuid", limit: "1000" }), "runs"]
        : [nodesOf(uuid), "nodes"];
      for await (const page of pages(list, key, abort))
        for (const { uuid, run } of page) runs.add(uuid ?? run);
      if (over) ended.set(uuid, runs);
    }
    found.push({ document, runs });
  }
  return found;
}
