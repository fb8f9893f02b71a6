/** Acts on the selected nodes: a batch, or one request for each where there is no batch. */
import { fleet, predicate, remote, selectedNodes, selection, selectNone } from "../state/nodes";
import { route } from "../state/route";
import { get, UUIDS_AT_ONCE } from "../wire/api";
import { type Json } from "../wire/json";
import { show } from "./dialog";
import { lazy } from "./lazy";
import { MenuCurl } from "./toasts";
import { POWERS, verbsFrom } from "./words";

const BatchDialog = lazy(async () => (await import("./batch")).BatchDialog);
const Holding = lazy(async () => (await import("./each")).Holding);
const Maintaining = lazy(async () => (await import("./each")).Maintaining);

/** More UUIDs than these become a filter with its count, so that the request stays readable. */
const NAMED = 50;

/** Acts on many nodes. */
export const BULK: Record<string, (nodes: Json[]) => void> = {
  Batch: (nodes) => openBatch(nodes),
  Power: (nodes) => openBatch(nodes, POWERS),
  Hold: (nodes) => show(() => <Holding nodes={nodes} />),
  Maintenance: (nodes) => show(() => <Maintaining nodes={nodes} />),
};

export function Bulk({ shown }: { shown: Json[] }) {
  const selected = selection.value;
  if (!selected.size) return <p class="bulk">Select nodes to act on many of them.</p>;
  const visible = shown.filter((node) => selected.has(node.uuid)).length;
  const hidden = selected.size - visible;
  return (
    <div class="bulk" role="region" aria-label="Selected nodes">
      <span>
        {selected.size} selected{hidden ? `, ${hidden} of them hidden by the filter` : ""}
      </span>
      {Object.entries(BULK).map(([name, act]) => (
        <button onClick={() => act(selectedNodes())}>{name}…</button>
      ))}
      <MenuCurl
        path={`/v1/nodes?uuid=${[...selected].slice(0, UUIDS_AT_ONCE).join(",")}`}
        label="the selected nodes"
      />
      <button class="quiet" onClick={selectNone}>
        Clear <kbd>Esc</kbd>
      </button>
    </div>
  );
}

function openBatch(nodes: Json[], offered = verbsFrom(new Set(nodes.map((node) => node.provision_state)))) {
  show(() => (
    <BatchDialog
      of={targets(nodes)}
      nodes={nodes}
      count={nodes.length}
      offered={offered}
      example={nodes[0]?.uuid}
    />
  ));
}

/**
 * Begin a batch with the nodes that stand in a failure of a cause, but for those that are held.
 * @param cause of the document of attention
 */
export async function openCause({ cause, sample }: Json, target: string) {
  const { body } = await get(`/v1/stats/nodes?by=provision_state&held=false&cause=${cause}`);
  const of = { nodes: { cause, held: false }, expect: body.of };
  show(() => <BatchDialog of={of} count={body.of} named={[]} offered={[target]} example={sample[0]?.uuid} />);
}

/**
 * Begin a batch with the nodes of another one that have this result.
 * @param some some of its nodes
 */
export function openNext({ uuid, counts }: Json, result: string, some: Json[], target: string) {
  const of = { nodes: { batch: uuid, result }, expect: counts[result] };
  const nodes = some.filter((node) => node.result === result);
  show(() => (
    <BatchDialog
      of={of}
      count={counts[result]}
      named={nodes.map(withName)}
      offered={[target]}
      example={nodes[0]?.uuid}
    />
  ));
}

/** A node of a batch with the name that it has now. */
const withName = ({ uuid, name }: Json): Json => ({ uuid, name: fleet.nodes.get(uuid)?.name ?? name });

/** Begin a batch with some nodes of another one, by their UUIDs: the batch keeps names of its beginning. */
export const openSome = (nodes: Json[], target: string) =>
  show(() => (
    <BatchDialog
      of={{ nodes: nodes.map(({ uuid }) => uuid) }}
      count={nodes.length}
      named={nodes.map(withName)}
      offered={[target]}
      example={nodes[0]?.uuid}
    />
  ));

function targets(nodes: Json[]): { nodes: unknown; expect?: number } {
  // A name may be that of another node by then.
  const uuids = nodes.map(({ uuid }) => uuid);
  const { parts, query } = route.value;
  const whole = parts.length === 1 && query.size > 0 && !remote(query).length;
  if (uuids.length <= NAMED || !whole) return { nodes: uuids };
  // The filter stands for the nodes only if it gives these and no other.
  const chosen = new Set(nodes.map((node) => node.uuid));
  const matches = [...fleet.nodes.values()].filter(predicate(query, ""));
  const same = matches.length === chosen.size && matches.every((node) => chosen.has(node.uuid));
  return same ? { nodes: Object.fromEntries(query), expect: matches.length } : { nodes: uuids };
}
