/** Functions that open dialogs, whose modules are no part of the first page. */
import { path } from "../state/route";
import { type Json } from "../wire/json";
import { show } from "./dialog";
import { lazy } from "./lazy";
import { nameOf, verb } from "./words";

const Enroll = lazy(async () => (await import("./enroll")).Enroll);
const Machines = lazy(async () => (await import("./machines")).Machines);
const VerbDialog = lazy(async () => (await import("./plan")).VerbDialog);
const Stop = lazy(async () => (await import("./stop")).Stop);
const HoldOne = lazy(async () => (await import("./holds")).HoldOne);
const Lift = lazy(async () => (await import("./holds")).Lift);
const Simple = lazy(async () => (await import("./simple")).Simple);

const Settings = lazy(async () => (await import("./settings")).Settings);

/** @param props `own` is the path of the node */
export function openSettings(props: { own: string; reload: () => void }) {
  show(() => <Settings {...props} />);
}

export function openEnroll() {
  show(() => <Enroll />);
}

export function openMachines() {
  show(() => <Machines />);
}

/**
 * Open the dialog of a verb.
 * @param node with `uuid`, `name`, `provision_state`
 */
export function openVerb(node: Json, target: string, reload?: () => void) {
  show(() => <VerbDialog node={node} target={target} reload={reload} />);
}

/** @param props `own` is the path of the node */
export function openStop(props: { own: string; name: string; reload?: () => void }) {
  show(() => <Stop {...props} />);
}

/** `own`: path of the node */
export type Held = { own: string; name: string; reload?: () => void; holds: Json[]; chosen?: string };

export function openHold(props: Held) {
  show(() => <HoldOne {...props} />);
}

/** @param props `holds` in force, of which one is lifted; `chosen`: its UUID */
export function openLift(props: Held) {
  show(() => <Lift {...props} />);
}

/** States of a node with an instance. */
export const USED = /active|rescu|servic/;

/**
 * @param props a request `of` a node with `title`, `kind` of confirmation, `button`; `says` what
 *   changes; `explained`: its body is a reason; `done`: told at the end; `waits`: for the end of the
 *   node's lock
 */
export const openSimple = (props: any) => show(() => <Simple {...props} />);

export function openPower(node: Json, [target, does]: [string, string], reload?: () => void) {
  const label = verb(target);
  const used = USED.test(node.provision_state);
  const name = nameOf(node);
  const of = path("nodes", node.uuid);
  openSimple({
    title: `${label}: ${name}`,
    kind: used && target !== "power on" ? "tick" : "none",
    says: `${does} ${name}${used ? "; an instance is running on it" : ""}.`,
    method: "PUT",
    path: `${of}/states/power`,
    body: { target },
    button: `${label} ${name}`,
    of,
    reload,
  });
}

/** Begin or end the maintenance of a node. */
export function openMaintenance(node: Json, reload?: () => void) {
  const of = path("nodes", node.uuid);
  const name = nameOf(node);
  const ends = node.maintenance;
  const button = `${ends ? "End" : "Set"} maintenance`;
  openSimple({
    title: `${button}: ${name}`,
    kind: "none",
    method: ends ? "DELETE" : "PUT",
    path: `${of}/maintenance`,
    button,
    of,
    reload,
    explained: !ends,
    done: `${name} is ${ends ? "out of" : "in"} maintenance.`,
  });
}

/** Take a node out of use, or end this. */
export function openRetirement(node: Json, reload?: () => void) {
  const of = path("nodes", node.uuid);
  const name = nameOf(node);
  const button = `${node.retired ? "End retirement of" : "Retire"} ${name}`;
  openSimple({
    title: button,
    kind: "none",
    says: node.retired ? `${name} can be used again.` : `${name} gets no further instance.`,
    method: "PATCH",
    path: of,
    body: [{ op: "add", path: "/retired", value: !node.retired }],
    button,
    of,
    reload,
    done: `${name} is ${node.retired ? "no longer " : ""}retired.`,
  });
}
