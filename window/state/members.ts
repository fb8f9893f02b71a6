/** The nodes of a batch: their marks, why some have failed, which took longest. */
import type { Json } from "../wire/json";
import type { Group, Mark } from "./squares";

/** Results of nodes, as six words. */
const MARKS: [Mark, string[]][] = [
  [{ shape: "full", tone: "stable", word: "done" }, ["done"]],
  [{ shape: "triangle", tone: "fail", word: "failed" }, ["failed", "refused"]],
  [{ shape: "half", tone: "busy", word: "running" }, ["starting", "running"]],
  [{ shape: "empty", tone: "quiet", word: "waiting" }, ["pending"]],
  [{ shape: "slash", tone: "quiet", word: "left out" }, ["skipped"]],
  [{ shape: "ring", tone: "wait", word: "aborted" }, ["aborted"]],
];
const BY_RESULT = new Map(
  MARKS.flatMap(([mark, results]) => results.map((result) => [result, mark] as const)),
);
const UNKNOWN: Mark = { shape: "dot", tone: "quiet", word: "unknown" };

/** @param result of a node in a batch */
export const markOf = (result: string): Mark => BY_RESULT.get(result) ?? UNKNOWN;

/** @returns the waves of a batch; a node that is not read yet has no square */
export function waves(sizes: number[], members: Json[]): Group[] {
  const groups: Group[] = sizes.map((_, at) => ({ title: `wave ${at + 1}`, squares: [] }));
  for (const { uuid, name, wave, result } of members)
    groups[wave]?.squares.push({ id: uuid, name: name ?? uuid, mark: markOf(result) });
  return groups;
}

export interface Cause {
  text: string;
  members: Json[];
}

/** A text without what differs between nodes: numbers, and UUIDs. */
const same = (text: string) => text.replace(/[\da-f]{8}-[\da-f-]{27}|\d+/g, "#");

/** @returns failures by their error, the most frequent first */
export function causes(members: Json[]): Cause[] {
  const found = new Map<string, Cause>();
  for (const member of members) {
    if (markOf(member.result).word !== "failed") continue;
    const { code = "", cause, text = code } = member.error ?? {};
    const words: string = cause?.text ?? text;
    const key = `${cause?.code ?? code} ${same(words.replaceAll(member.name ?? member.uuid, "#"))}`;
    const known: Cause = found.get(key) ?? { text: words || member.result, members: [] };
    known.members.push(member);
    found.set(key, known);
  }
  return [...found.values()].sort((one, other) => other.members.length - one.members.length);
}

/** @returns seconds that a node took, or takes now; null before it begins */
export function secondsOf({ started_at: begun, ended_at: ended }: Json, now: number): number | null {
  return begun ? Math.max(0, ((ended ? Date.parse(ended) : now) - Date.parse(begun)) / 1000) : null;
}

/** @returns the node that took or takes longest, with its seconds; null before the first begins */
export function slowest(members: Json[], now: number): { member: Json; seconds: number } | null {
  let most: { member: Json; seconds: number } | null = null;
  for (const member of members) {
    const seconds = secondsOf(member, now);
    if (seconds !== null && (!most || seconds > most.seconds)) most = { member, seconds };
  }
  return most;
}

/** @returns seconds that all steps of a run usually take, null if one of them is not known */
export function usualOf(steps: Json[]): number | null {
  let all = 0;
  for (const { usual_seconds: usual } of steps) {
    if (!usual) return null;
    all += usual.p50;
  }
  return steps.length ? all : null;
}
