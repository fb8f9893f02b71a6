/** The head of a node's page: who it is, what it does, and what keeps it from common use. */
import { identityOf } from "../state/machines";
import { path } from "../state/route";
import { type Json } from "../wire/json";
import { openLift } from "./openers";
import { advice, Ago, bdi, Health, link, State } from "./text";
import { copy } from "./toasts";
import { marksOf, optionsIn, wording } from "./words";

/** @param props `inventory`: its answer, null if there is none; `children`: the acts */
export function Head({
  why,
  node,
  inventory,
  own,
  reload,
  children,
}: {
  why: Json;
  node: Json | null;
  inventory: Json | null;
  own: string;
  reload: () => void;
  children?: any;
}) {
  const name = why.name ?? why.node;
  const { maintenance, lock } = why;
  const marks = [
    maintenance && `maintenance${maintenance.fault ? `: ${maintenance.fault}` : ""}`,
    ...marksOf(node),
  ].filter(Boolean);
  return (
    <header class="node-top">
      <div class="node-head">
        <h1>{bdi(name)}</h1>
        <span>
          <State state={why.provision_state} />{" "}
          <span class="small">
            {/* One clock with the run: its state may change on the way. */}
            <Ago at={["busy", "wait"].includes(why.kind) ? (why.run?.started_at ?? why.since) : why.since} />
          </span>
        </span>
        {node?.power_state && <span class="tag">{bdi(node.power_state)}</span>}
        {why.holds.map((hold: Json) => (
          <button
            class="tag held-mark"
            title="Lift this hold…"
            onClick={() => openLift({ own, name, reload, holds: why.holds, chosen: hold.uuid })}
          >
            ■ HELD ({hold.kind}): {bdi(hold.reason)}
          </button>
        ))}
        {marks.map((mark) => (
          <span class="tag">{bdi(mark)}</span>
        ))}
        {/* Its room stays, because a lock comes and goes. */}
        <span class={lock ? "tag lock" : "tag lock free"}>
          locked
          {lock && <span class="unseen"> by {bdi(`${lock.host}${lock.for ? ` for ${lock.for}` : ""}`)}</span>}
        </span>
      </div>
      {children}
      <Identity why={why} node={node} inventory={inventory} />
    </header>
  );
}

function Identity({ why, node, inventory }: { why: Json; node: Json | null; inventory: Json | null }) {
  const { maker, serial, rack, bmc } = identityOf(node, inventory);
  const facts: [string, any][] = [
    ["Machine", maker],
    [
      "Serial",
      serial && (
        <>
          {bdi(serial)}{" "}
          <button class="quiet" aria-label="Copy the serial number" onClick={() => copy(serial)}>
            <span aria-hidden="true">⧉</span>
          </button>
        </>
      ),
    ],
    ["Rack", rack],
    ["BMC", bmc],
    ["Driver", node?.driver],
    ["Class", node?.resource_class],
    ["Owner", node?.owner],
    ["Data", why.data_state],
    ["Health", node?.health && <Health value={node.health} />],
  ];
  return (
    <dl class="identity">
      {facts
        .filter(([, fact]) => fact)
        .map(([term, fact]) => (
          <div>
            <dt>{term}</dt> <dd>{typeof fact === "string" ? bdi(fact) : fact}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A lock comes and goes: the head has it in a place of its own. */
const LOCKED = new RegExp(
  [
    String.raw` It is locked by the conductor \S+?( for [^.]+)?\.(?= |$)`,
    String.raw`, but locked by the conductor \S+?( for [^.]+)?(?=\.( |$))`,
    String.raw` Every verb is refused now: Node \S+ is locked by host [^,]+,[^.]*\.`,
  ].join("|"),
  "g",
);

/** Why the node is in its state, and what to do next. */
export const Says = ({ why }: { why: Json }) => (
  <p class="says">
    <span title={optionsIn(why.says)}>{bdi(wording(why.says).replace(LOCKED, ""))}</span> {advice(why)}{" "}
    {why.batch && link(path("batches", why.batch.uuid), why.batch.name ?? "batch")}
  </p>
);
