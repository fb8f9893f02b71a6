/** Texts, words, signs, links, fields of forms, and buttons that copy. */
import { STATES, VERBS } from "../facts.js";
import htm from "../vendor/htm.js";
import { h } from "../vendor/preact.js";
import { signal } from "../vendor/signals.js";
import { fleet } from "../state/nodes.js";
import { absolute, changeRoute, clockTime, duration, href, now, path, prefs, since } from "../state/route.js";
import { curl, sleep } from "../wire/api.js";
import { loginUser } from "../wire/login.js";

/** DOM elements are written as html`<p>text</p>`, components as h(Component, { props }). */
export const html = htm.bind(h);

// -- Text that comes from machines and people: shown as it is, never obeyed.

const LONGEST_TEXT = 4096;
const ANSI = /\u001b\[[0-9;?]*[ -/]*[@-~]/g;
// Control characters, zero-width characters and those that change the direction of text.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** @param {unknown} value @returns {string} without ANSI sequences; hidden characters as `‹U+202E›` */
export function visible(value) {
  const text = typeof value === "string" ? value : value == null ? "" : JSON.stringify(value);
  const short = text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)} …` : text;
  return short.replace(ANSI, "").replace(HIDDEN, (sign) => {
    const code = sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `‹U+${code}›`;
  });
}

/** @param {unknown} value a text of machines or people, or JSON */
export const bdi = (value) => html`<bdi>${visible(value)}</bdi>`;

/** @param {Record<string, any>} node */
export const nameOf = ({ name, uuid }) => name ?? uuid;

/** @param {Iterable<number>} numbers */
export const sum = (numbers) => [...numbers].reduce((all, one) => all + one, 0);

/** @param {number | string} count @param {string} [of] the word for one of them */
export const many = (count, of = "node") => `${count} ${of}${count === 1 ? "" : "s"}`;

/** @param {Record<string, any>} node @returns {string} the address of its page */
export const nodeAddress = (node) => href(path("nodes", nameOf(node)));

/** @param {string} to a path of the API @param {unknown} value */
export const link = (to, value) => html`<a href=${href(to)}>${bdi(value)}</a>`;

/** @param {Record<string, any>} node with `name` or `uuid` */
export const nodeLink = (node) => link(path("nodes", nameOf(node)), nameOf(node));

/** @param {(value: string) => unknown} put @returns {(event: any) => unknown} passes on what is typed */
export const typed = (put) => (event) => put(event.target.value);

/** @param {string} label @param {Record<string, any>} props of the input; `class` is the label's */
export const field = (label, { class: of, key, ...props }) =>
  html`<label class=${of} key=${key}>${label} <input ...${props} /></label>`;

/** @param {string} label @param {(on: boolean) => unknown} put @param {boolean} [on] */
export const checkbox = (label, put, on) => html`<label class="block"
  ><input type="checkbox" checked=${on} onInput=${(/** @type {any} */ event) => put(event.target.checked)} /> ${label}</label
>`;

/**
 * A choice of one value.
 * @param {string} label @param {string} value @param {(value: string) => unknown} put
 * @param {any[]} choices values, or pairs of a value and its words
 */
export const choice = (label, value, put, choices) =>
  html`<label>${label} <select onChange=${typed(put)}>
    ${choices.map((one) => {
      const [of, words] = Array.isArray(one) ? one : [one, one];
      return html`<option value=${of} selected=${of === value}>${visible(words)}</option>`;
    })}
  </select></label>`;

/**
 * A time as its distance from now, with the whole time as its title.
 * @param {{at: string | null | undefined, ago?: boolean}} props
 */
export function Ago({ at, ago = false }) {
  if (!at) return null;
  const { utc } = prefs.value;
  return html`<time datetime=${at} title=${absolute(at, utc)}
    >${duration(since(at))}${ago ? " ago" : ""}</time
  >`;
}

/** @param {string | null | undefined} at */
export const stamp = (at) =>
  at && html`<time datetime=${at} title=${absolute(at, true)}>${absolute(at, prefs.value.utc)}</time>`;

// -- The words of this page that are not the API's.

/** Shapes of the kinds of states: never colour alone. @type {Record<string, string>} */
export const KINDS = { stable: "●", busy: "◐", wait: "◔", held: "■", fail: "▲" };

/** Results of runs and steps. @type {Record<string, string>} */
const RESULTS = {
  done: "✓", complete: "✓", erased: "✓", partial: "▲", failed: "▲", aborted: "×", running: "◐", waiting: "◔", held: "■", pending: "○",
  kept: "↷", waived: "⤼", skipped: "⤼", starting: "◌", paused: "■", refused: "×", ok: "✓", warning: "!", unknown: "?",
};

/** Labels of verbs and power acts whose name is no plain imperative. @type {Record<string, string>} */
const VERB_LABELS = {
  active: "Deploy", deleted: "Undeploy", unhold: "Go on", available: "Make available",
  rebooting: "Reboot", "soft power off": "Shut down", "soft rebooting": "Reboot softly",
};

/** Names of steps that erase disks. */
export const ERASING = /erase/;

/** @param {string} target @returns {boolean} whether a verb may erase disks */
export const erases = (target) => VERBS.some((one) => one.target === target && one.erases);

/** What verbs do, for those who have not read their table. @type {Record<string, string>} */
export const VERB_HINTS = {
  provide: "makes it available, with automated cleaning", clean: "runs the steps that you choose",
  active: "installs an instance", deleted: "removes the instance, with automated cleaning",
  manage: "takes it into management; cleaning needs this", available: "makes it available WITHOUT cleaning",
  inspect: "reads the hardware", rebuild: "installs the instance again", adopt: "takes over a machine that is in use",
  service: "runs the steps that you choose beside the instance", rescue: "boots a ramdisk for repairs",
  unrescue: "boots the instance again", retry: "goes on where the run has failed",
  abort: "ends the run", unhold: "goes on with the next step",
};

/** @param {string} target */
export const verb = (target) =>
  VERB_LABELS[target] ?? target.charAt(0).toUpperCase() + target.slice(1);

/** What a step destroys, for people. @type {Record<string, string>} */
export const DESTROYS = {
  data: "DESTROYS DATA", volumes: "destroys volumes", settings: "changes settings",
  firmware: "changes firmware", keys: "changes keys",
};

/** What the blocks of holds refuse. @type {Record<string, string>} */
export const BLOCKS = {
  erase: "what may erase the disks", use: "deploy, rebuild and allocations", verbs: "every verb",
  power: "power changes", forget: "deletion of the node",
};

/**
 * @param {unknown} text of the API @param {Record<string, any>} [node] that it is about
 * @returns {string} it, with the names of nodes, and with the window's own act instead of a request for curl
 */
export const told = (text, node = {}) =>
  visible(text).replace(/\b[\da-f]{8}-[\da-f-]{27}\b/g, (uuid) => uuid === node.uuid ? nameOf(node) : fleet.nodes.get(uuid)?.name ?? uuid)
    .replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g, (_, day, at) => absolute(`${day}T${at}Z`, prefs.value.utc))
    // Its age is beside it, and goes on.
    .replace(/,( just now| \d+ \w+ ago)|, whose last heartbeat came [^,]*,| for \d+ \w+(?=, at step |\. The conductor )/g, "")
    .replace(/(?<=batch )[\w-]{36} \((.*?)\)/g, "$1")
    .replace(/ Possible (targets )?now: [^.]*\.$/, "") // These are buttons.
    .replace(/with DELETE \S+maintenance/, 'by "End maintenance…"')
    .replace(/Node \S+ is held \(([\w-]+).*?\): /g, "Held ($1): ")
    .replace(/(held \([\w-]+\), which blocks) ([a-z, ]+):/g,
      (_, held, blocks) => `${held} ${blocks.split(", ").map((/** @type {string} */ one) => BLOCKS[one] ?? one).join(", ")}:`)
    .replace(/It blocks (\S+), and so .*?\. End the hold with DELETE \S+ first\./g,
      (_, block) => `It blocks ${BLOCKS[block] ?? block}. Press "Lift hold…" on the page of the node first.`);

export const OVERDUE =
  "Overdue: past its deadline, or longer than 15 minutes and than 3 times what 9 of 10 such steps took.";

/**
 * What an erase has left, and what to do next as the API advises.
 * @param {Record<string, any> | null | undefined} why of a node
 */
export const advice = (why) => why && html`${ERASING.test(why.failure?.step) && why.data_state !== "clean" &&
  "The disks may be partly erased. "}${why.do && html`<strong>${bdi(told(why.do))}</strong>`}`;

/**
 * @param {Record<string, any>} eta of a run or a batch @param {boolean} [brief] without its latest time
 * @returns {string} the end that is expected, or how late it is
 */
export function expected({ ends_at: at, late_at: last = at }, brief = at === last) {
  const clock = /** @param {string} time */ (time) => clockTime(time, prefs.value.utc);
  const latest = `at the latest ${clock(last)}`;
  if (now.value < Date.parse(at)) return `~${clock(at)}${brief ? "" : `, ${latest}`}`;
  return now.value < Date.parse(last) ? latest : `late by ${duration(since(last))}`;
}

export const DATA_STATES = ["clean", "dirty", "unknown"];

export const FAILED_STATES = [
  ...Object.keys(STATES).filter((one) => STATES[one] === "fail"), "error",
];

/** The filters of a page; a press removes one. @param {URLSearchParams} query */
export const filters = (query) => [...query].map(([name, value]) => html`<button
  class="pressed" onClick=${() => changeRoute({ [name]: "" })}>
  ${value === FAILED_STATES.join() ? "failed" : html`${name}: ${bdi(value)}`} <span aria-label="remove">×</span></button>`);

/** @param {Record<string, any>} run */
export const causeOf = ({ error }) => error?.cause?.text ?? error?.text;

/** @param {Record<string, any> | undefined} run under way, with `stop` and `place` @returns where a requested stop ends it */
export function stopOf({ stop, place } = {}) {
  if (!stop || stop.progress === "done") return "";
  const at = stop.after == null || stop.after === place?.ordinal ? "this step" : `step ${stop.after + 1}`;
  return `${stop.how === "abort" ? "is aborted" : "stops"} after ${at}`;
}

/** @param {Record<string, any>} step */
export const stepName = (step) => `${step.interface}.${step.step}`;

/** @param {Record<string, any>} batch @returns {string} its name, or what it does to how many nodes */
export function batchTitle(batch) {
  const { power, target } = batch.request ?? {}; // shown only where it is asked for
  return batch.name ?? `${verb(power ?? target ?? "batch")} · ${many(sum(batch.waves))}`;
}

// -- States as shape, word and colour.

/** @param {{state: string | null}} props a provision state */
export function State({ state }) {
  const kind = STATES[state ?? ""] ?? "stable";
  return html`<span class=${`state ${kind}`}
    ><span class="sign" aria-hidden="true">${KINDS[kind]}</span>${bdi(state)}</span
  >`;
}

/** @param {{result: string, word?: boolean}} props a result of a run, a step or a check */
export function Result({ result, word = true }) {
  return html`<span class=${`result ${result}`}
    ><span class="sign" aria-hidden="true">${RESULTS[result] ?? "○"}</span>${word
      ? ` ${result}`
      : html`<span class="unseen">${result}</span>`}</span
  >`;
}

// -- Buttons that copy a request as curl, or another text.

/** Sentences for the live region: results of own acts. @type {import("../vendor/signals.js").Signal<Said[]>} */
export const said = signal([]);
/** @typedef {{text: string, to: string}} Said `to`: the page that shows it */

const SHOWN_MS = 8000;
const MOST_SAID = 4;
const COPY_MS = 1000;
let until = 0;

/**
 * Tell the result of an own act for some seconds; with an address, until it is followed or closed.
 * @param {string} text @param {string} [to]
 */
export function say(text, to = "") {
  said.value = [...said.value.filter((one) => one.to), { text, to }].slice(-MOST_SAID);
  clearTimeout(until);
  until = setTimeout(() => hush((one) => !one.to), SHOWN_MS);
}

/** @param {(one: Said) => boolean} which are no longer shown */
export const hush = (which) => (said.value = said.value.filter((one) => !which(one)));

/** Copy a text; one that the browser does not let the page copy is shown until it is closed. @param {string} text */
export async function copy(text) {
  // Without TLS and by address there is no `navigator.clipboard`; elsewhere it may be forbidden, or
  // wait for an answer of the user.
  const written = navigator.clipboard?.writeText(text).then(() => true, () => false);
  const copied = await Promise.race([written, sleep(COPY_MS)]) || copyBySelection(text);
  if (copied) say("Copied.");
  else say(`The browser forbids this page to copy. Copy it yourself: ${text}`, location.hash);
}

/** @param {string} text */
function copyBySelection(text) {
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "unseen";
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return copied;
}

/**
 * @param {{method?: string, path: string, body?: unknown, headers?: Record<string, string>,
 *   stream?: boolean, each?: string[], label?: string}} props
 */
export function Curl({ method = "GET", path, body, headers, stream, each, label = "curl" }) {
  void loginUser.value; // The text has the way to log in.
  const text = curl(method, path, /** @type {any} */ ({ body, headers, stream, each }));
  return html`<button
    type="button"
    class="quiet curl"
    title=${text}
    aria-label=${`Copy as curl: ${method} ${path}`}
    onClick=${() => copy(text)}
  >
    <span aria-hidden="true">${">_"}</span> ${label}
  </button>`;
}
