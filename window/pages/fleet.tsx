/** The fleet: what needs attention, filters with counts, all nodes, and acts on many of them. */
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Attention, failureOf } from "../parts/attention";
import { Bulk } from "../parts/bulk";
import { covered, Menu } from "../parts/dialog";
import { Checkbox, Select } from "../parts/fields";
import { openEnroll } from "../parts/openers";
import { lazy } from "../parts/lazy";
import { Chips, clearFilters, QueryField, total, Views } from "../parts/query";
import { LIST_MS, wrong } from "../parts/read";
import { Table } from "../parts/table";
import { Ago, bdi, filters, Health, link, Marks, nodeAddress, nodeLink, State } from "../parts/text";
import { copy } from "../parts/toasts";
import { DATA_STATES, expected, many, nameOf, OVERDUE, stepName, stopOf } from "../parts/words";
import { openBatches } from "../state/batches";
import { healthNeed } from "../state/health";
import { READ_COLUMNS, useColumns } from "../state/columns";
import {
  fleet,
  followFleet,
  named,
  needOf,
  predicate,
  remote,
  select,
  selection,
  selectNone,
  setFilter,
} from "../state/nodes";
import { changeRoute, go, path, route } from "../state/route";
import { hitText, useSearch, type Hit } from "../state/search";
import { small } from "../state/settings";
import { withoutTokens } from "../state/tokens";
import { Fault, oneAtATime, pages, passing } from "../wire/api";
import { curl } from "../wire/curl";

export type Node = Record<string, any>;

const FleetMap = lazy(async () => (await import("../parts/map")).FleetMap);

const COLUMNS = [
  { key: "name", title: "Name", width: "minmax(9rem, 1fr)", cell: Name },
  { key: "provision_state", title: "State", width: "minmax(12.5rem, 1fr)", cell: Where },
  { key: "provision_updated_at", title: "Since", width: "6rem", cell: Since },
  { key: "under", title: "Under way", width: "minmax(10rem, 1.8fr)", cell: Under, wide: true },
  { key: "power_state", title: "Power", width: "5rem", cell: Power },
  { key: "resource_class", title: "Class", width: "7rem", cell: fieldCell("resource_class"), wide: true },
  { key: "conductor", title: "Conductor", width: "7rem", cell: fieldCell("conductor"), wide: true },
  { key: "data_state", title: "Data", width: "5rem", cell: fieldCell("data_state"), wide: true },
  { key: "batch", title: "Batch", width: "minmax(5rem, 0.6fr)", cell: InBatch, wide: true },
];

/** Further columns that an address may name: fields of nodes. */
const MORE = [
  "health",
  "driver",
  "owner",
  "lessee",
  "shard",
  "conductor_group",
  "fault",
  "instance_name",
  "retired",
  "protected",
  ...READ_COLUMNS,
];

const columnOf = (key: string) =>
  COLUMNS.find((column) => column.key === key) ?? {
    key,
    title: key === "bmc" ? "BMC" : key.replaceAll("_", " "),
    cell: key === "health" ? HealthCell : fieldCell(key),
    wide: true,
  };
/** @param named `~cols` of the address, with commas */
const columnsOf = (named: string | undefined) => (named ? named.split(",").map(columnOf) : COLUMNS);

/** A box for each column; a card of a narrow screen has no others. */
function Columns() {
  const chosen = columnsOf(route.value.view.cols).map((column) => column.key);
  const all = [...COLUMNS, ...MORE.map(columnOf)];
  return (
    <Menu name="Columns">
      {all.map(({ key, title }) => (
        <Checkbox
          label={title}
          onChange={() => {
            const next = all
              .map((column) => column.key)
              .filter((name) => chosen.includes(name) !== (name === key));
            changeRoute({ "~cols": next.join(",") }, { replace: true });
          }}
          on={chosen.includes(key)}
        />
      ))}
    </Menu>
  );
}

/** The hits of the words that are searched, by the UUIDs of their nodes. */
const hits = signal(new Map() as Map<string, Hit>);

/** The name, and the value by which the node is found if the row does not show it. */
function Name(node: Node) {
  const hit = hits.value.get(node.uuid);
  if (!hit || node.text.includes(hit.value.toLowerCase())) return nodeLink(node);
  const text = hitText(hit);
  return (
    <>
      {nodeLink(node)}{" "}
      <span class="small" title={text}>
        {bdi(text)}
      </span>
    </>
  );
}

function Where(node: Node) {
  return (
    <>
      <State state={node.provision_state} />
      <Marks node={node} />
      {fleet.overdue.value.has(node.uuid) && (
        <>
          {" "}
          <strong class="danger" title={OVERDUE}>
            overdue
          </strong>
        </>
      )}
      {fleet.holds.value.has(node.uuid) && (
        <>
          {" "}
          <strong class="held-mark">■ HELD</strong>
        </>
      )}
    </>
  );
}
function InBatch(node: Node) {
  const batch = openBatches.value.get(node.uuid);
  return batch && link(path("batches", batch.uuid), batch.name ?? "batch");
}
function Since(node: Node) {
  return <Ago at={node.provision_updated_at} />;
}
function HealthCell(node: Node) {
  return node.health && <Health value={node.health} />;
}
function Power(node: Node) {
  return bdi(String(node.power_state ?? "").replace("power ", ""));
}
function fieldCell(name: string) {
  return (node: Node) => bdi({ true: "yes", false: "" }[String(node[name])] ?? node[name] ?? "");
}
function Under(node: Node) {
  const held = fleet.holds.value.get(node.uuid);
  const run = fleet.under.value.get(node.uuid);
  if (run) {
    const { place, eta } = run;
    return (
      <>
        {bdi(place ? `${place.ordinal + 1}/${place.of} ${stepName(place)}` : run.verb)}
        <span>{stopOf(run) || (eta && !fleet.overdue.value.has(node.uuid) && expected(eta, true))}</span>
      </>
    );
  }
  if (held) return bdi(`${held[0].kind}: ${held[0].reason}`);
  const maintenance = node.maintenance && `maintenance${node.fault ? `: ${node.fault}` : ""}`;
  return bdi([failureOf(node), maintenance].filter(Boolean).join("; "));
}

export function Fleet() {
  const { query, view } = route.value;
  const words = withoutTokens(view.q ?? "");
  const sort = view.sort ?? "need";
  const selected = selection.value;
  const [held, setHeld] = useState(false);
  useEffect(() => void followFleet(), []);
  useEffect(() => {
    const clear = (event: any) =>
      event.key === "Escape" && !covered() && event.target.type !== "search" && selectNone();
    addEventListener("keydown", clear);
    return () => removeEventListener("keydown", clear);
  }, []);
  useEffect(() => setFilter(query.toString()), [query.toString()]);
  // A table that goes does not tell that the pointer has left it.
  useEffect(() => setHeld(false), [!!view.map]);
  useColumns((view.cols ?? "").split(","));
  const { given: matches, fault } = useRemote(query);
  const found = useSearch(words, MOST_HITS);
  const known = useMemo(() => new Map(found.hits.map((hit) => [hit.uuid, hit])), [found]);
  useLayoutEffect(() => void (hits.value = known), [known]);
  const rows = useRows(query, words, sort, held, matches, known);
  const failure = fault ?? fleet.failure.value;
  void fleet.tick.value;
  return (
    <>
      <h1 class="unseen">Fleet</h1>
      <Attention brief={!!(query.size || words)} /> <Views /> <Filters words={view.q ?? ""} /> <Chips />
      {wrong(failure)}
      {view.map ? (
        <FleetMap rows={rows.shown} />
      ) : (
        <Table
          rows={rows.shown}
          columns={columnsOf(view.cols)}
          id={(node: Node) => node.uuid}
          label="Nodes"
          view={`${query}|${view.q ?? ""}`}
          selected={selected}
          onSelect={select}
          onHold={setHeld}
          sort={sort}
          onSort={(key: string) =>
            changeRoute({ "~sort": sort === key ? `-${key}` : key }, { replace: true })
          }
          onCopy={(node: Node) => copy(curl("GET", path("nodes", nameOf(node))))}
          onOpen={(node: Node) => go(nodeAddress(node))}
        />
      )}
      {!rows.shown.length &&
        !failure &&
        matches !== NOT_YET &&
        fleet.status.value !== "loading" &&
        (query.size || words) && (
          <p role="status">
            No node matches. <button onClick={clearFilters}>Clear filters</button>
          </p>
        )}
      <Bulk shown={rows.shown} />
      <p class="footer" role="note">
        {footer(rows, sort)}
        {found.more && ` · the first ${MOST_HITS} values that the service has found; type more of it`}
      </p>
      <Told />
    </>
  );
}

/** Hits of the search that are shown among the rows. */
const MOST_HITS = 100;
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
  return (
    <div class="unseen" role="status" aria-label="Changes">
      {text}
    </div>
  );
}

function footer(rows: { shown: Node[]; waiting: number }, sort: string) {
  const of = total();
  const loading = fleet.status.value === "loading" ? " · loading" : "";
  const state = fleet.narrow.value ? " · narrow the filter to see rows" : loading;
  const held = rows.waiting ? " · paused while you point here" : "";
  const by = sort === "need" ? "need" : sort.replace(/^-/, "");
  return `${rows.shown.length} of ${of} · sorted by ${by}${state}${held}`;
}

const NOT_YET: Set<string> = new Set();

/**
 * The UUIDs that the API gives for filters that only it knows, `NOT_YET` until they are read; null if
 * there is no such filter. They stay while the service is away.
 */
function useRemote(query: URLSearchParams): { given: Set<string> | null; fault?: Fault } {
  const [found, setFound] = useState({} as any);
  const text = remote(query).length ? query.toString() : "";
  useEffect(() => {
    if (!text) return undefined;
    let over = false;
    const reading = oneAtATime(async (abort) => {
      const given = new Set();
      const from = `/v1/nodes?${text}&fields=uuid&limit=1000`;
      try {
        for await (const page of pages(from, "nodes", abort)) for (const node of page) given.add(node.uuid);
        if (!over) setFound({ given, text });
      } catch (fault) {
        if (over) return;
        setFound((old: any) => ({
          ...(passing(fault as Fault) && old.text === text ? old : { given: NOT_YET, text }),
          fault,
        }));
      }
    });
    reading.now();
    const timer = setInterval(() => document.hidden || reading.now(), LIST_MS);
    return () => {
      over = true;
      clearInterval(timer);
      reading.stop();
    };
  }, [text]);
  return !text ? { given: null } : found.text === text ? found : { given: NOT_YET };
}

/** Rows in their order. While the pointer is in the table the order stays, and changes are counted. */
function useRows(
  query: URLSearchParams,
  words: string,
  sort: string,
  held: boolean,
  matches: Set<string> | null,
  known: Map<string, Hit>,
) {
  const turn = fleet.slowTick.value;
  const lists = [fleet.overdue.value, fleet.holds.value];
  const text = query.toString();
  const last = useRef({ key: "", rows: [] as Node[], turn: 0 });
  return useMemo(() => {
    const key = `${text}|${words}|${sort}|${matches?.size}|${known.size}`;
    const old = last.current;
    if (held && old.key === key && old.rows.length) {
      const rows = old.rows.map((row) => fleet.nodes.get(row.uuid) ?? row);
      return { shown: rows, waiting: turn - old.turn };
    }
    const accepts = predicate(query, words);
    const fits = predicate(query, "");
    const found = named().filter(
      (node) =>
        (accepts(node) || (known.has(node.uuid) && fits(node))) &&
        (matches === null || matches.has(node.uuid)),
    );
    const rows = ordered(found, sort);
    last.current = { key: key, rows, turn };
    return { shown: rows, waiting: 0 };
  }, [turn, text, words, sort, held, matches, known, ...lists]);
}

/**
 * @param rows by name
 * @returns rows by a column, or by need; then by name
 */
function ordered(rows: Node[], sort: string): Node[] {
  const down = sort.startsWith("-") ? -1 : 1;
  const key = sort.replace(/^-/, "");
  if (key === "name") return down < 0 ? rows.reverse() : rows;
  const byNeed = key === "need" || key === "under";
  const first = (node: Node) =>
    byNeed ? needOf(node) : key === "health" ? healthNeed(node.health) : String(node[key] ?? "");
  // Made once for each row, not for each comparison.
  const keyed = rows.map((node) => ({ node, first: first(node) }));
  keyed.sort((a, b) => (a.first < b.first ? -down : a.first > b.first ? down : 0));
  return keyed.map((row) => row.node);
}

function Filters({ words }: { words: string }) {
  const { query, view } = route.value;
  return (
    <div class="filters">
      <QueryField words={words} />
      {filters(query)}
      <Select
        label="Data"
        value={query.get("data_state") ?? ""}
        onChange={(data_state) => changeRoute({ data_state })}
        choices={[["", "any"], ...DATA_STATES]}
      />
      {!small.value && !view.map && <Columns />}
      <button
        aria-pressed={!!view.map}
        onClick={() => changeRoute({ "~map": view.map ? "" : "name", "~color": "" })}
      >
        Map
      </button>{" "}
      <button onClick={openEnroll}>Enroll…</button>
    </div>
  );
}
