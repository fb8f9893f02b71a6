/** Words: hostile text made visible, names, verbs, states, and sentences of the API as people read them. */
import { STATES, VERBS } from "../facts";
import { clockTime, duration, now, timeOfDay } from "../state/clock";
import { fleet } from "../state/nodes";
import { prefs } from "../state/settings";
import { answered, offline } from "../wire/away";

// -- Text that comes from machines and people: shown as it is, never obeyed.

const LONGEST_TEXT = 4096;
const ANSI = /\u001b\[[0-9;?]*[ -/]*[@-~]/g;
// Control characters, zero-width characters and those that change the direction of text.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** @returns without ANSI sequences; hidden characters as `‹U+202E›` */
export function visible(value: unknown): string {
  const text = typeof value === "string" ? value : value == null ? "" : JSON.stringify(value);
  const short = text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)} …` : text;
  return short.replace(ANSI, "").replace(HIDDEN, (sign) => {
    const code = sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `‹U+${code}›`;
  });
}

export const nameOf = ({ name, uuid }: Record<string, any>) => name ?? uuid;

export const sum = (numbers: Iterable<number>) => [...numbers].reduce((all, number) => all + number, 0);

/** @param of the word for one of them */
export const many = (count: number | string, of: string = "node") =>
  `${count} ${of}${count === 1 ? "" : "s"}`;

// -- The words of this page that are not the API's.

/** Shapes of the kinds of states: never colour alone. */
export const KINDS: Record<string, string> = { stable: "●", busy: "◐", wait: "◔", held: "■", fail: "▲" };

/** Labels of verbs and power acts whose name is no plain imperative. */
const VERB_LABELS: Record<string, string> = {
  active: "Deploy",
  deleted: "Undeploy",
  unhold: "Go on",
  available: "Make available",
  rebooting: "Reboot",
  "soft power off": "Shut down",
  "soft rebooting": "Reboot softly",
};

/** Names of steps that erase disks. */
export const ERASING = /erase/;

/** @returns whether a verb may erase disks */
export const erases = (target: string): boolean => VERBS.some((row) => row.target === target && row.erases);

/** What verbs do, for those who have not read their table. */
export const VERB_HINTS: Record<string, string> = {
  provide: "cleans, then makes it available",
  clean: "runs the steps that you choose",
  active: "installs an instance",
  deleted: "removes the instance, then cleans",
  manage: "takes it into management; cleaning needs this",
  available: "makes it available, skips cleaning",
  inspect: "reads the hardware",
  rebuild: "installs the instance again",
  adopt: "takes over a machine that is in use",
  service: "runs the steps that you choose beside the instance",
  rescue: "boots a ramdisk for repairs",
  unrescue: "boots the instance again",
  retry: "goes on where the run has failed",
  abort: "ends the run",
  unhold: "goes on with the next step",
};

export const verb = (target: string) =>
  VERB_LABELS[target] ?? target.charAt(0).toUpperCase() + target.slice(1);

/** What follows a verb, where its label alone is a word of the service. */
const FOLLOWS: Record<string, string> = {
  provide: "clean, then available",
  available: "skip cleaning",
  deleted: "then clean",
};

/** @returns a verb in a list to choose from: `Provide (clean, then available)` */
export const verbChoice = (target: string) =>
  target in FOLLOWS ? `${verb(target)} (${FOLLOWS[target]})` : verb(target);

/** What a step destroys, for people. */
export const DESTROYS: Record<string, string> = {
  data: "DESTROYS DATA",
  volumes: "destroys volumes",
  settings: "changes settings",
  firmware: "changes firmware",
  keys: "changes keys",
};

/** What the blocks of holds refuse. */
export const BLOCKS: Record<string, string> = {
  erase: "what may erase the disks",
  use: "deploy, rebuild and allocations",
  verbs: "every verb",
  power: "power changes",
  machine: "other changes of the machine and its BMC",
  forget: "deletion of the node",
};

/** Options of the service in brackets, which explain a sentence to its operator. */
const OPTIONS = / \((\[\w+\]\w+)\)/g;

/** @returns the options that a sentence names, for a tooltip */
export const optionsIn = (text: unknown) =>
  [...String(text).matchAll(OPTIONS)].map(([, name]) => name).join(", ") || undefined;

/**
 * @param text of the API
 * @param node that it is about
 * @returns it, with the names of nodes, and with the window's own act instead of a request for curl
 */
export const wording = (text: unknown, node: Record<string, any> = {}): string =>
  visible(text)
    .replace(/\b[\da-f]{8}-[\da-f-]{27}\b/g, (uuid) =>
      uuid === node.uuid ? nameOf(node) : (fleet.nodes.get(uuid)?.name ?? uuid),
    )
    .replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g, (_, day, at) =>
      timeOfDay(`${day}T${at}Z`, prefs.value.utc, new Date(now.peek()).toISOString()),
    )
    // Its age is beside it, and goes on.
    .replace(
      /,( just now| \d+ \w+ ago)|, whose last heartbeat came [^,]*,| for \d+ \w+(?=, at step |\. The conductor )/g,
      "",
    )
    .replace(OPTIONS, "") // They are in the tooltip.
    // That is no news.
    .replace(/ ?Its result in the batch .*? is done; the batch is done\./, "")
    .replace(/(?<=batch )[\w-]{36} \((.*?)\)/g, "$1")
    .replace(/ \?plan=true shows which\./, ' press "Plan" to see which.')
    .replace(/ Possible (targets )?now: [^.]*\.$/, "") // These are buttons.
    .replace(/with DELETE \S+maintenance/, 'by "End maintenance"')
    .replace(/Node \S+ is held \(([\w-]+).*?\): /g, "Held ($1): ")
    .replace(
      /(held \([\w-]+\), which blocks) ([a-z, ]+):/g,
      (_, held, blocks) =>
        `${held} ${blocks
          .split(", ")
          .map((block: string) => BLOCKS[block] ?? block)
          .join(", ")}:`,
    )
    .replace(
      /It blocks (\S+), and so .*?\. End the hold with DELETE \S+ first\./g,
      (_, block) => `It blocks ${BLOCKS[block] ?? block}. Press "Lift hold…" on the page of the node first.`,
    );

/** @returns that the service does not answer, and how old the data is; "" while it answers */
export function unanswered(): string {
  const lost = offline.value;
  if (!lost) return "";
  const last = answered.value;
  const clock = (at: Date, exact?: boolean) => clockTime(at.toISOString(), prefs.value.utc, exact);
  return `No answer since ${clock(lost)}${last ? `, last data ${clock(last, true)}` : ""}`;
}

export const OVERDUE =
  "Overdue: past its deadline, or longer than 15 minutes and than 3 times what 9 of 10 such steps took.";

/**
 * @param eta of a run or a batch
 * @param brief without its latest time
 * @returns the end that is expected, or how late it is
 */
export function expected(
  { ends_at: at, late_at: last = at }: Record<string, any>,
  brief: boolean = at === last,
): string {
  const clock = (time: string) => clockTime(time, prefs.value.utc);
  const latest = `at the latest ${clock(last)}`;
  if (now.value < Date.parse(at)) return `~${clock(at)}${brief ? "" : `, ${latest}`}`;
  const late = now.value - Date.parse(last);
  return late < 1000 ? latest : `late by ${duration(late / 1000)}`;
}

export const DATA_STATES = ["clean", "dirty", "unknown"];

export const FAILED_STATES = [...Object.keys(STATES).filter((state) => STATES[state] === "fail"), "error"];

export const causeOf = ({ error }: Record<string, any>) => error?.cause?.text ?? error?.text;

/**
 * @param run under way, with `stop` and `place`
 * @returns where a requested stop ends it
 */
export function stopOf({ stop, place }: Record<string, any> | undefined = {}) {
  if (!stop || stop.progress === "done") return "";
  const at = stop.after == null || stop.after === place?.ordinal ? "this step" : `step ${stop.after + 1}`;
  return `${stop.how === "abort" ? "is aborted" : "stops"} after ${at}`;
}

/** Words for what keeps a node from common use. */
export const marksOf = (node: Record<string, any> | null | undefined) =>
  ["retired", "protected"].filter((mark) => node?.[mark]);

export const stepName = (step: Record<string, any>) => `${step.interface}.${step.step}`;

/** @returns its name, or what it does to how many nodes */
export function batchTitle(batch: Record<string, any>): string {
  const { power, target } = batch.request ?? {}; // shown only where it is asked for
  return batch.name ?? `${verb(power ?? target ?? "batch")} · ${many(sum(batch.waves))}`;
}

/** Targets of power with what they do. */
export const POWER_ACTS: [string, string][] = [
  ["power on", "Starts"],
  ["power off", "At once cuts the power of"],
  ["rebooting", "At once restarts"],
  ["soft power off", "Shuts down"],
  ["soft rebooting", "Restarts"],
];

/** Verbs that some of these states offer; of two names of one verb the first. */
export const verbsFrom = (states: Set<string>) =>
  VERBS.filter(({ alias, from }) => !alias && from.some((state) => states.has(state))).map(
    ({ target }) => target,
  );

export const HALF = "An erase that is aborted leaves the disks partly erased.";

export const POWERS = POWER_ACTS.map(([target]) => target);
