/** Tokens of the query of the fleet, `class:gpu`: arguments of the API, typed in the field. */
import { STATES } from "../facts";
import { healthNamed } from "./health";
import type { Node } from "./nodes";

/** Words before the colon, and the arguments of the API. */
export const TOKENS: Record<string, string> = {
  state: "provision_state",
  class: "resource_class",
  driver: "driver",
  owner: "owner",
  lessee: "lessee",
  shard: "shard",
  group: "conductor_group",
  conductor: "conductor",
  fault: "fault",
  data: "data_state",
  health: "health",
  maintenance: "maintenance",
  retired: "retired",
  held: "held",
  instance: "instance_name",
  associated: "associated",
  description: "description_contains",
  project: "project",
  sharded: "sharded",
  parent: "parent_node",
  children: "include_children",
};
const FLAGS = ["maintenance", "retired", "held", "associated", "sharded", "include_children"];
/** Arguments that take several values, with commas between them. */
const LISTS = ["provision_state", "shard"];
const FAILED = Object.keys(STATES).filter((state) => STATES[state] === "fail");

export interface Suggestion {
  /** what replaces the last word */
  text: string;
  /** number of nodes; nothing for the name of a token */
  count?: number;
}

const TOKEN = /^([a-z]+):(.*)$/i;
const argumentOf = (token: string) => new Map(Object.entries(TOKENS)).get(token.toLowerCase());

/** @returns the argument and the value of a complete token, null for other words */
export function argument(word: string): [string, string] | null {
  const [, token = "", value = ""] = TOKEN.exec(word) ?? [];
  const name = argumentOf(token);
  if (!name || !value) return null;
  return [name, READ[name]?.(value) ?? value];
}

/** `failed` are all states of a failure; a hyphen stands for the blank of a state. */
const states = (text: string) =>
  text
    .toLowerCase()
    .split(",")
    .map((state) => (state === "failed" ? FAILED.join() : state.replaceAll("-", " ")))
    .join();

/** Readers of values that are typed in another form than the API takes. */
const READ: Record<string, (value: string) => string> = { provision_state: states, health: healthNamed };

/** @returns the words that stay in the field, and the arguments of its complete tokens */
export function split(text: string): { words: string; found: Record<string, string> } {
  const words: string[] = [];
  const found: Record<string, string> = {};
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const token = argument(word);
    if (token) found[token[0]] = token[1];
    else words.push(word);
  }
  return { words: words.join(" "), found };
}

/** @returns the words without tokens, also without one that is being typed */
export const withoutTokens = (text: string) =>
  text
    .split(/\s+/)
    .filter((word) => !argumentOf(TOKEN.exec(word)?.[1] ?? ""))
    .join(" ")
    .trim();

const MOST = 8;
/** The written form of a value: tokens have no blanks. */
const written = (value: unknown) => String(value).replaceAll(" ", "-");

/**
 * @param nodes that pass the other filters
 * @returns completions of the last word: names of tokens, or the values of one by their numbers; after
 *   a comma those of one more value
 */
export function suggestions(text: string, nodes: Iterable<Node>): Suggestion[] {
  const last = /\S*$/.exec(text)?.[0] ?? "";
  const [, token = "", typed = ""] = TOKEN.exec(last) ?? [];
  const name = argumentOf(token);
  const before = LISTS.includes(name ?? "") ? (/^.*,/.exec(typed)?.[0] ?? "") : "";
  const begin = typed.slice(before.length);
  if (!name) {
    const names = Object.keys(TOKENS).filter((word) => last && word.startsWith(last.toLowerCase()));
    return names.map((word) => ({ text: `${word}:` }));
  }
  const counts: Map<string, number> = new Map();
  const chosen = before.split(",");
  for (const node of nodes) {
    const value = written(node[name] ?? "");
    if (value.toLowerCase().includes(begin.toLowerCase()) && value && !chosen.includes(value))
      counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  // The list of nodes has no such field: the service answers.
  if (!counts.size && FLAGS.includes(name)) {
    const flags = ["true", "false"].filter((flag) => flag.startsWith(begin));
    return flags.map((flag) => ({ text: `${token}:${flag}` }));
  }
  return [...counts]
    .sort(([value, count], [other, more]) => more - count || value.localeCompare(other))
    .slice(0, MOST)
    .map(([value, count]) => ({ text: `${token}:${before}${value}`, count }));
}
