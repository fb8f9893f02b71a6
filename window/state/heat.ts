/** The map of the fleet: which group each node stands in, and what its square shows. */
import { STATES } from "../facts";
import { health } from "./health";
import type { Node } from "./nodes";
import type { Group, Level, Mark } from "./squares";

/** How nodes are grouped: key of the address, and words. */
export const GROUPINGS = [
  ["name", "beginning of the name"],
  ["rack", "rack (extra.rack)"],
  ["switch", "switch (LLDP)"],
  ["class", "class"],
  ["all", "nothing"],
] as const;
export type Grouping = (typeof GROUPINGS)[number][0];

/** What colour and shape mean: key of the address, and words. */
export const MEANINGS = [
  ["state", "state"],
  ["age", "time in the state"],
  ["failure", "last failure"],
  ["data", "data"],
  ["health", "health"],
] as const;
export type Meaning = (typeof MEANINGS)[number][0];

/** @returns one of these keys, the first if the address has another one */
export const chosen = <Key extends string>(rows: readonly (readonly [Key, string])[], key?: string): Key =>
  (rows.find(([known]) => known === key) ?? rows[0]!)[0];

/** @returns the name without its last number and what leads to it: `rack3` of `rack3-21` and `rack3-u21` */
export function beginning(name: string): string {
  return name.replace(/[-_.]?[a-z]*\d+$/i, "") || name.replace(/\d+$/, "") || name;
}

/** @returns the switch of each node, by its UUID; that of a port for PXE is taken before others */
export function switchesOf(ports: Record<string, any>[]): Map<string, string> {
  const found = new Map<string, string>();
  const boots = (port: Record<string, any>) => (port.pxe_enabled === false ? 1 : 0);
  for (const port of [...ports].sort((one, other) => boots(one) - boots(other))) {
    const { switch_info: info, switch_id: id } = port.local_link_connection ?? {};
    const name = info || id;
    if (name && !found.has(port.node_uuid)) found.set(port.node_uuid, String(name));
  }
  return found;
}

const SHAPES: Record<string, Mark["shape"]> = {
  stable: "full",
  busy: "half",
  wait: "empty",
  held: "ring",
  fail: "triangle",
};
const mark = (tone: string, word: string, shape: Mark["shape"] = SHAPES[tone] ?? "dot"): Mark => ({
  shape,
  tone: tone || "quiet",
  word,
});

/** Ages below these seconds, the youngest first. */
const AGES: [number, string][] = [
  [3600, "under 1 h"],
  [86_400, "under 1 day"],
  [7 * 86_400, "under 1 week"],
  [30 * 86_400, "under 30 days"],
  [Infinity, "30 days and more"],
];

/** @param oldest whether the oldest one is full, or the youngest */
function ageMark(at: string | null | undefined, now: number, tone: string, oldest: boolean): Mark {
  if (!at) return mark("", oldest ? "unknown" : "none");
  const seconds = (now - Date.parse(at)) / 1000;
  const place = AGES.findIndex(([below]) => seconds < below);
  const level = oldest ? place + 1 : AGES.length - place;
  return mark(tone, AGES[place]?.[1] ?? "unknown", `level${level}` as Level);
}

/** Of the states in which nothing happens: the shapes, as they have one colour. */
const RESTING: Record<string, Mark["shape"]> = { available: "empty", manageable: "dot", enroll: "slash" };

const stateMark = (state: string): Mark => mark(STATES[state] ?? "stable", state, RESTING[state]);

const DATA: Record<string, string> = { clean: "stable", dirty: "fail", unknown: "" };

/** What a square is made of, beside its node: the end of its last run if that failed, and the time. */
export interface Beside {
  failedAt: (uuid: string) => string | null | undefined;
  now: number;
}

export function markOf(meaning: Meaning, node: Node, { failedAt, now }: Beside): Mark {
  switch (meaning) {
    case "age":
      return ageMark(node.provision_updated_at, now, "busy", true);
    case "failure":
      return ageMark(failedAt(node.uuid), now, "fail", false);
    case "data":
      return mark(DATA[node.data_state] ?? "", node.data_state ?? "unknown");
    case "health": {
      const { label, tone } = health(node.health);
      return mark(tone, label);
    }
    default:
      return stateMark(String(node.provision_state));
  }
}

const collator = new Intl.Collator(undefined, { numeric: true });
/** More groups than these are no picture: the last one has the rest. */
const MOST_GROUPS = 400;

/**
 * @param nodes by name
 * @param groupOf "" of a node that has no group
 * @returns groups by their titles; nodes without one come last
 */
export function grouped(
  nodes: Node[],
  groupOf: (node: Node) => string,
  none: string,
  draw: (node: Node) => Mark,
): Group[] {
  const found = new Map<string, Group["squares"]>();
  for (const node of nodes) {
    const title = groupOf(node);
    const squares = found.get(title) ?? [];
    squares.push({ id: node.uuid, name: node.name ?? node.uuid, mark: draw(node) });
    found.set(title, squares);
  }
  const bare = found.get("");
  found.delete("");
  const titles = [...found.keys()].sort(collator.compare);
  const groups = titles.slice(0, MOST_GROUPS).map((title) => ({ title, squares: found.get(title)! }));
  const rest = titles.slice(MOST_GROUPS).flatMap((title) => found.get(title)!);
  if (rest.length) groups.push({ title: `${titles.length - MOST_GROUPS} more`, squares: rest });
  if (bare) groups.push({ title: none, squares: bare });
  return groups;
}
