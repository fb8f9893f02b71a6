/** The map of the fleet: the nodes of the list as squares, by rack, switch or name. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { duration, now, since } from "../state/clock";
import {
  beginning,
  chosen,
  grouped,
  type Grouping,
  GROUPINGS,
  markOf,
  MEANINGS,
  switchesOf,
} from "../state/heat";
import { rackOf } from "../state/machines";
import { fleet, named, type Node, select, selection } from "../state/nodes";
import { changeRoute, go, route } from "../state/route";
import { type Mark } from "../state/squares";
import { type Fault, oneAtATime, pages, UUIDS_AT_ONCE } from "../wire/api";
import { Select } from "./fields";
import { wrong } from "./read";
import { Sign, Squares } from "./squares";
import { nodeAddress } from "./text";

const AGAIN_MS = 60_000;
const NONE: Record<Grouping, string> = {
  name: "no name",
  rack: "no rack",
  switch: "no switch",
  class: "no class",
  all: "all",
};

/** Groups that the list does not know, with what is read of them: the path, the list, its filter by nodes. */
const READ: Partial<Record<Grouping, [string, string, string]>> = {
  rack: ["/v1/nodes?fields=uuid,extra,properties&limit=1000", "nodes", "uuid"],
  switch: ["/v1/ports?fields=node_uuid,pxe_enabled,local_link_connection&limit=1000", "ports", "nodes"],
};
/** For more nodes, all of them are read. */
const MOST_NAMED = 600;

/**
 * Read the groups of nodes by their UUIDs.
 * @param named the UUIDs of few nodes; "" for all, or those of a filter
 */
async function readGroups(by: Grouping, named: string, filter: string, abort: AbortSignal) {
  const [list, key, name] = READ[by] ?? ["", "", ""];
  const uuids = named.split(",");
  const rows: Record<string, any>[] = [];
  for (let at = 0; at < uuids.length; at += UUIDS_AT_ONCE) {
    const some = uuids.slice(at, at + UUIDS_AT_ONCE);
    const chosen = named ? `&${name}=${some}` : by === "rack" ? filter : "";
    for await (const page of pages(`${list}${chosen}`, key, abort)) rows.push(...page);
  }
  return by === "switch" ? switchesOf(rows) : new Map(rows.map((row) => [row.uuid, rackOf(row)] as const));
}

interface Found {
  by?: Grouping;
  groups?: Map<string, string>;
  fault?: Fault;
}

/** @param rows the nodes that the filter shows */
function useGroups(by: Grouping, rows: Node[]): Found {
  const few = by in READ && rows.length <= MOST_NAMED;
  const named = useMemo(
    () =>
      few
        ? rows
            .map(({ uuid }) => uuid)
            .sort()
            .join()
        : "",
    [few, rows],
  );
  // Of a very large fleet the list has the nodes of the filter alone.
  const filter = fleet.status.value === "partial" ? `&${route.value.query}` : "";
  const [found, setFound] = useState<Found>({});
  useEffect(() => {
    if (!(by in READ) || !rows.length) return undefined;
    let over = false;
    setFound((old) => (old.by === by ? old : { by }));
    const reading = oneAtATime((abort) =>
      readGroups(by, named, filter, abort).then(
        (groups) => over || setFound({ by, groups }),
        (fault) => over || setFound((old) => ({ ...old, fault })),
      ),
    );
    reading.now();
    const timer = setInterval(() => document.hidden || reading.now(), AGAIN_MS);
    return () => {
      over = true;
      clearInterval(timer);
      reading.stop();
    };
  }, [by, named, filter]);
  // What is found is that of the grouping before until the effect has run.
  return found.by === by ? found : {};
}

/** @param props `rows`: the nodes that the filter shows */
export function FleetMap({ rows }: { rows: Node[] }) {
  const { view } = route.value;
  const by = chosen(GROUPINGS, view.map);
  const meaning = chosen(MEANINGS, view.color);
  const { groups: known, fault } = useGroups(by, rows);
  const turn = fleet.slowTick.value;
  const failed = fleet.failed.value;
  const groups = useMemo(() => {
    const shown = new Set(rows.map(({ uuid }) => uuid));
    const groupOf: Record<Grouping, (node: Node) => string> = {
      name: (node) => beginning(node.name ?? ""),
      rack: (node) => known?.get(node.uuid) ?? "",
      switch: (node) => known?.get(node.uuid) ?? "",
      class: (node) => node.resource_class ?? "",
      all: () => "",
    };
    const beside = { failedAt: (uuid: string) => failed.get(uuid)?.ended_at, now: now.peek() };
    return grouped(
      named().filter(({ uuid }) => shown.has(uuid)),
      groupOf[by],
      NONE[by],
      (node) => markOf(meaning, node, beside),
    );
  }, [rows, turn, failed, by, meaning, known]);
  const waits = by in READ && rows.length > 0 && !known && !fault;
  const about = (uuid: string) => {
    const { provision_state: state, provision_updated_at: at } = fleet.nodes.get(uuid) ?? {};
    return [meaning !== "state" && state, at && duration(since(at))].filter(Boolean).join(" · ");
  };
  return (
    <section class="map" aria-label="Map of the fleet">
      <div class="filters">
        <Select
          label="Group by"
          value={by}
          onChange={(map) => changeRoute({ "~map": map }, { replace: true })}
          choices={GROUPINGS as unknown as [string, string][]}
        />
        <Select
          label="Show"
          value={meaning}
          onChange={(color) => changeRoute({ "~color": color }, { replace: true })}
          choices={MEANINGS as unknown as [string, string][]}
        />
        <Legend groups={groups} />
      </div>
      {wrong(fault ?? null)}
      {waits ? (
        <p role="status">Reading {by === "rack" ? "the racks" : "the ports"}…</p>
      ) : (
        groups.length > 0 && (
          <Squares
            groups={groups}
            label="Nodes on the map"
            selected={selection.value}
            onSelect={select}
            onPress={(uuid) => go(nodeAddress(fleet.nodes.get(uuid) ?? { uuid }))}
            about={about}
          />
        )
      )}
    </section>
  );
}

/** Each mark with its number; a press selects its nodes. */
function Legend({ groups }: { groups: ReturnType<typeof grouped> }) {
  const found = useMemo(() => {
    const marks = new Map<string, Mark & { ids: string[] }>();
    for (const { squares } of groups)
      for (const { id, mark } of squares) {
        const known = marks.get(mark.word);
        if (known) known.ids.push(id);
        else marks.set(mark.word, { ...mark, ids: [id] });
      }
    return [...marks.values()].sort((one, other) => other.ids.length - one.ids.length);
  }, [groups]);
  return (
    <div class="chips" role="group" aria-label="Select by what the squares show">
      {found.map((mark) => (
        <button
          title={`Select these ${mark.ids.length}`}
          onClick={() => select(new Set([...selection.value, ...mark.ids]))}
        >
          <Sign mark={mark} /> {mark.word} {mark.ids.length}
        </button>
      ))}
    </div>
  );
}
