/** Functions that open dialogs, whose modules are no part of the first page. */
import { path } from "../state/route";
import { type Json } from "../wire/json";
import { confirmationOfUse } from "./confirm";
import { show } from "./dialog";
import { lazy } from "./lazy";
import { sendAtOnce } from "./toasts";
import { nameOf, verb } from "./words";

const Enroll = lazy(async () => (await import("./enroll")).Enroll);
const Machines = lazy(async () => (await import("./machines")).Machines);
const VerbDialog = lazy(async () => (await import("./plan")).VerbDialog);
const Stop = lazy(async () => (await import("./stop")).Stop);
const HoldOne = lazy(async () => (await import("./holds")).HoldOne);
const Lift = lazy(async () => (await import("./holds")).Lift);
const Simple = lazy(async () => (await import("./simple")).Simple);

const PortForm = lazy(async () => (await import("./port")).PortForm);

/** @param props `about`: the path of the node of the port */
export function openPort(props: { port: Json; about: string; reload: () => void }) {
  show(() => <PortForm {...props} />);
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

const Release = lazy(async () => (await import("./release")).Release);

/** Numbers of machines that are only observed, and of those that have not answered. */
export type Released = { observed: number; unread: number; reload: () => void };

export function openRelease(props: Released) {
  show(() => <Release {...props} />);
}

/** States of a node with an instance. */
export const USED = /active|rescu|servic/;

/**
 * @param props a request `of` a node with `title`, `kind` of confirmation, `button`; `says` what
 *   changes, maybe of the node as it was read; `explained`: its body is a reason; `done`: told at the
 *   end; `inverse` for Undo, and what the request `gives`, of the node before; `waits`: for the end of
 *   the node's lock
 */
export const openSimple = (props: any) => show(() => <Simple {...props} />);

export function openPower(node: Json, [target, does]: [string, string], reload?: () => void) {
  const label = verb(target);
  const used = USED.test(node.provision_state);
  const name = nameOf(node);
  const of = path("nodes", node.uuid);
  openSimple({
    title: `${label}: ${name}`,
    kind: confirmationOfUse(target, node.provision_state),
    name,
    does: "interrupts the instance on",
    says: `${does} ${name}${used ? "; an instance is running on it" : ""}.`,
    method: "PUT",
    path: `${of}/states/power`,
    body: { target },
    button: `${label} ${name}`,
    of,
    reload,
  });
}

const inMaintenance = (node: Json | null) =>
  node?.maintenance &&
  `The node is in maintenance: ${[node.fault, node.maintenance_reason].filter(Boolean).join(": ") || "no reason is given"}.`;

/**
 * Requests that change the maintenance of a node.
 * @param of path of the node
 * @returns `back`: the request that gives a node the maintenance of another time, null if none does
 */
export function maintenanceOf(of: string) {
  const begin = (reason: string) => ({ method: "PUT", path: `${of}/maintenance`, body: { reason } });
  const end = { method: "DELETE", path: `${of}/maintenance` };
  // The service does not take its own fault back.
  const back = ({ maintenance, fault, maintenance_reason: reason }: Json) =>
    maintenance ? (fault ? null : begin(reason ?? "")) : end;
  return { begin, end, back };
}

/** Begin or end the maintenance of a node; the end of one that the service began is asked for. */
export function openMaintenance(node: Json, reload?: () => void) {
  const of = path("nodes", node.uuid);
  const name = nameOf(node);
  const { begin, end, back } = maintenanceOf(of);
  const ended = { maintenance: false, maintenance_reason: null, fault: null };
  if (node.maintenance && node.fault) {
    openSimple({
      title: `End of maintenance of ${name}`,
      kind: "none",
      ...end,
      button: "End maintenance",
      of,
      reload,
      says: inMaintenance,
      done: `${name} is out of maintenance.`,
      inverse: back,
      gives: () => ended,
    });
    return;
  }
  if (node.maintenance) {
    const read = ["maintenance", "maintenance_reason", "fault"].filter((name) => name in node);
    void sendAtOnce({
      title: `End of maintenance of ${name}`,
      says: `${name} is out of maintenance.`,
      about: of,
      change: end,
      shown: Object.fromEntries(read.map((name) => [name, node[name]])),
      inverse: back,
      gives: () => ended,
      reload,
    });
    return;
  }
  openSimple({
    title: `Maintenance of ${name}`,
    kind: "none",
    ...begin(""),
    button: "Set maintenance",
    of,
    reload,
    says: inMaintenance,
    explained: true,
    done: `${name} is in maintenance.`,
    inverse: back,
    gives: (_: Json, { reason }: Json) => ({ maintenance: true, maintenance_reason: reason }),
  });
}

/** Take a node out of use, or end this, at once: Undo takes it back. */
export function openRetirement(node: Json, reload?: () => void) {
  const of = path("nodes", node.uuid);
  const name = nameOf(node);
  const { retired } = node;
  const change = (value: boolean) => ({
    method: "PATCH",
    path: of,
    body: [{ op: "add", path: "/retired", value }],
  });
  void sendAtOnce({
    title: `${retired ? "End of retirement" : "Retirement"} of ${name}`,
    says: `${name} is ${retired ? "no longer " : ""}retired.`,
    about: of,
    change: change(!retired),
    inverse: (before) => change(!!before.retired),
    reload,
  });
}
