/** Acts on one node: verbs, power, maintenance, delete, and the orders to its BMC. */
import { path } from "../state/route";
import { type Json } from "../wire/json";
import { Menu, show } from "./dialog";
import {
  openHold,
  openLift,
  openMaintenance,
  openPower,
  openSimple,
  openStop,
  openVerb,
  USED,
} from "./openers";
import { orderOf, Refusable } from "./refusable";
import { Declare } from "./simple";
import { POWER_ACTS, verb, VERB_HINTS, verbsFrom } from "./words";

export function Actions({ why, node, reload }: { why: Json; node: Json | null; reload: () => void }) {
  const self = node ?? {
    uuid: why.node,
    name: why.name,
    provision_state: why.provision_state,
    maintenance: why.maintenance,
  };
  // Verbs with more than one name are shown once; a retry comes first.
  const names = verbsFrom(new Set([why.provision_state]));
  const isFirst = (choice: Json) => choice.target === "retry" && !choice.refused;
  const offered = why.verbs
    .filter((choice: Json) => names.includes(choice.target))
    .sort((a: Json, b: Json) => Number(isFirst(b)) - Number(isFirst(a)));
  const own = path("nodes", why.node);
  const simple = (request: Json) => openSimple({ ...request, of: own, reload });
  const name = why.name ?? why.node;
  const { holds } = why;
  return (
    <div class="actions" role="group" aria-label="Acts on this node">
      {offered.map((choice: Json, at: number) => (
        <VerbButton key={choice.target} choice={choice} node={self} first={at === 0} />
      ))}
      {underWay(why.run) && (
        <>
          <button onClick={() => openStop({ own, name, reload })}>Stop at the next step…</button>
          {why.run.stop?.progress === "asked" && (
            <button
              onClick={() =>
                simple({
                  title: `Withdraw the stop of ${name}`,
                  kind: "none",
                  method: "DELETE",
                  button: "Withdraw",
                  path: `${own}/runs/${why.run.uuid}/stop`,
                  waits: false,
                  says: "The run then goes on with its next step.",
                })
              }
            >
              Stop is requested: withdraw…
            </button>
          )}
        </>
      )}
      <Menu name="Power">
        {POWER_ACTS.map((act) => {
          const { refused, targets } = orderOf(why, "power") ?? {};
          const label = verb(act[0]);
          const lacks = targets?.includes(act[0]) ? null : { text: `${label} is not possible now.` };
          return (
            <Refusable
              refused={refused ?? lacks}
              onClick={() => openPower(self, act, reload)}
            >{`${label}…`}</Refusable>
          );
        })}
      </Menu>
      <button onClick={() => openHold({ own, name, reload, holds })}>Hold…</button>
      {holds.length > 0 && <button onClick={() => openLift({ own, name, reload, holds })}>Lift hold…</button>}
      <button
        onClick={() => show(() => <Declare own={own} name={name} now={why.data_state} reload={reload} />)}
      >
        Data…
      </button>
      {node && (
        <Refusable
          refused={orderOf(why, "maintenance")?.refused}
          onClick={() => openMaintenance(node, reload)}
        >
          {node.maintenance ? "End maintenance…" : "Maintenance…"}
        </Refusable>
      )}
      <Refusable
        refused={orderOf(why, "delete")?.refused}
        onClick={() =>
          simple({
            title: `Delete ${name}`,
            kind: "name",
            name,
            method: "DELETE",
            path: own,
            button: `Delete ${name}`,
            then: "#/v1/nodes",
            says: USED.test(why.provision_state) && "An instance is running on it.",
            does: "makes the service forget",
          })
        }
      >
        Delete…
      </Refusable>
    </div>
  );
}

const underWay = (run: Json | null) => ["running", "waiting"].includes(run?.state);

/**
 * Verbs that may be the primary button: no data and no run ends by them. A retry asks for the name
 * first.
 */
const HARMLESS = ["retry", "manage", "unhold"];

function VerbButton({ choice, node, first }: { choice: Json; node: Json; first: boolean }) {
  const { refused, target } = choice;
  const onClick = () => openVerb(node, target);
  const hint = `${VERB_HINTS[target] ?? ""}; leads to ${choice.leads_to}`;
  return (
    <Refusable
      refused={refused}
      onClick={onClick}
      hint={hint}
      primary={first && HARMLESS.includes(target)}
    >{`${verb(target)}…`}</Refusable>
  );
}
