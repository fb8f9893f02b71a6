/** Acts on one node: the one that comes next, a menu of its power, and a menu of all others. */
import { href, path } from "../state/route";
import { type Json } from "../wire/json";
import { Menu, show } from "./dialog";
import {
  openHold,
  openLift,
  openMaintenance,
  openPower,
  openRetirement,
  openSimple,
  openStop,
  openVerb,
  USED,
} from "./openers";
import { orderOf, Refusable } from "./refusable";
import { Declare } from "./simple";
import { copy } from "./toasts";
import { POWER_ACTS, verb, VERB_HINTS, verbsFrom } from "./words";

/** Something that can be done with a node. */
type Act = { label: string; hint: string; refused?: Json | null | undefined; act: () => void };

/** The verb that comes next: the first of these that the node offers. */
const NEXT = ["retry", "unhold", "active", "manage", "provide", "unrescue", "adopt", "deleted"];

/**
 * Verbs that may be the primary button: no data and no run ends by them. A retry asks for the name
 * first.
 */
const HARMLESS = ["retry", "manage", "unhold"];

type Shown = { why: Json; node: Json | null; reload: () => void };

/** @param props `log`: the address of the log */
export function Actions({ log, ...shown }: Shown & { log: string }) {
  const { why } = shown;
  const verbs = verbActs(shown);
  const runs = runActs(shown);
  const next = [...verbs].sort((a, b) => rank(a) - rank(b))[0];
  const primary = next?.target === "unhold" ? next : (runs[0] ?? next);
  const rest = [...runs, ...verbs].filter((act) => act !== primary);
  const name = why.name ?? why.node;
  return (
    <div class="actions" role="group" aria-label="Acts on this node">
      {primary && (
        <Refusable
          refused={primary.refused}
          onClick={primary.act}
          hint={primary.hint}
          primary={HARMLESS.includes(next?.target ?? "") && primary === next}
        >
          <span>{primary.label}</span>
        </Refusable>
      )}
      <Menu name="Power">{powerActs(shown).map(entry)}</Menu>
      <Menu name="···" label="More acts">
        {[...rest, ...careActs(shown)].map(entry)}
        <hr />
        <a href={log} data-key="l">
          log of the run
        </a>
        <a href={href("/v1/doctor", { node: name })}>doctor</a>
        <button class="quiet" onClick={() => copy(location.href)}>
          copy link
        </button>
      </Menu>
    </div>
  );
}

const entry = ({ label, hint, refused, act }: Act) => (
  <Refusable key={label} refused={refused} onClick={act} hint={hint} line>
    <span>{label}</span>
  </Refusable>
);

type VerbAct = Act & { target: string };

/** @returns the smaller, the sooner it comes next */
const rank = ({ target, refused }: VerbAct) =>
  ((NEXT.indexOf(target) + NEXT.length + 1) % (NEXT.length + 1)) + (refused ? 100 : 0);

/** @returns verbs; those with more than one name once */
function verbActs({ why, node, reload }: Shown): VerbAct[] {
  const self = node ?? {
    uuid: why.node,
    name: why.name,
    provision_state: why.provision_state,
    maintenance: why.maintenance,
  };
  const names = verbsFrom(new Set([why.provision_state]));
  return why.verbs
    .filter((choice: Json) => names.includes(choice.target))
    .map(({ target, refused, leads_to: end }: Json) => ({
      target,
      label: `${verb(target)}…`,
      hint: `${VERB_HINTS[target] ?? ""}; leads to ${end}`,
      refused,
      act: () => openVerb(self, target, reload),
    }));
}

/** @returns acts on the run under way */
function runActs({ why, reload }: Shown): Act[] {
  const { run } = why;
  if (!["running", "waiting"].includes(run?.state)) return [];
  const own = path("nodes", why.node);
  const name = why.name ?? why.node;
  const stop = {
    label: "Stop at the next step…",
    hint: "ends the run between two steps",
    act: () => openStop({ own, name, reload }),
  };
  if (run.stop?.progress !== "asked") return [stop];
  const withdraw = {
    label: "Stop is requested: withdraw…",
    hint: "lets the run go on",
    act: () =>
      openSimple({
        title: `Withdraw the stop of ${name}`,
        kind: "none",
        method: "DELETE",
        button: "Withdraw",
        path: `${own}/runs/${run.uuid}/stop`,
        waits: false,
        says: "The run then goes on with its next step.",
        of: own,
        reload,
      }),
  };
  return [withdraw, stop];
}

function powerActs({ why, node, reload }: Shown): Act[] {
  const { refused, targets } = orderOf(why, "power") ?? {};
  const self = node ?? { uuid: why.node, name: why.name, provision_state: why.provision_state };
  return POWER_ACTS.map((power) => {
    const label = verb(power[0]);
    const lacks = targets?.includes(power[0]) ? null : { text: `${label} is not possible now.` };
    return {
      label: `${label}…`,
      hint: `${power[1].toLowerCase()} the machine`,
      refused: refused ?? lacks,
      act: () => openPower(self, power, reload),
    };
  });
}

/** @returns acts by which a node is kept, marked, or given up */
function careActs({ why, node, reload }: Shown): Act[] {
  const own = path("nodes", why.node);
  const name = why.name ?? why.node;
  const { holds } = why;
  const lift = {
    label: "Lift hold…",
    hint: "allows again what the hold blocks",
    act: () => openLift({ own, name, reload, holds }),
  };
  const marks = (self: Json): Act[] => [
    {
      label: self.maintenance ? `End maintenance${self.fault ? "…" : ""}` : "Maintenance…",
      hint: self.maintenance
        ? "lets the service use it again"
        : "keeps the service from using it, with a reason",
      refused: orderOf(why, "maintenance")?.refused,
      act: () => openMaintenance(self, reload),
    },
    {
      label: self.retired ? "End retirement" : "Retire",
      hint: self.retired ? "lets it be used again" : "gives it no further instance",
      act: () => openRetirement(self, reload),
    },
  ];
  return [
    {
      label: "Hold…",
      hint: "blocks changes, erasure or new users, with a reason",
      act: () => openHold({ own, name, reload, holds }),
    },
    ...(holds.length > 0 ? [lift] : []),
    ...(node ? marks(node) : []),
    {
      label: "Data…",
      hint: "declares the state of its data",
      act: () => show(() => <Declare own={own} name={name} now={why.data_state} reload={reload} />),
    },
    {
      label: "Delete…",
      hint: "makes the service forget it",
      refused: orderOf(why, "delete")?.refused,
      act: () =>
        openSimple({
          title: `Delete ${name}`,
          kind: "name",
          name,
          method: "DELETE",
          path: own,
          button: `Delete ${name}`,
          then: "#/v1/nodes",
          says: USED.test(why.provision_state) && "An instance is running on it.",
          does: "makes the service forget",
          of: own,
          reload,
        }),
    },
  ];
}
