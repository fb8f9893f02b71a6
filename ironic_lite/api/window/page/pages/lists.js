/** Pages that show one list or one document: runs, events, evidence, steps, doctor, settings. */
import { VERSION } from "../facts.js";
import { h } from "../vendor/preact.js";
import { useEffect, useState } from "../vendor/hooks.js";
import { duration } from "../state/clock.js";
import { prefs, set } from "../state/prefs.js";
import { change as changeRoute, go, href, path, route } from "../state/route.js";
import { get } from "../wire/api.js";
import { Feed } from "../wire/feed.js";
import * as login from "../wire/login.js";
import { Result } from "../parts/chip.js";
import { Curl } from "../parts/copy.js";
import { ErasureList, List, RUN_HEAD, runRow, Shown, Tree } from "../parts/tabs.js";
import { html, Stamp, Text } from "../parts/text.js";
import { Timeline } from "../parts/timeline.js";

/** @typedef {Record<string, any>} Json */

/** @returns {string} the path of the page with its query, and a limit */
function asked(limit = 200) {
  const { path: target, query } = route.value;
  const all = new URLSearchParams(query);
  if (!all.has("limit")) all.set("limit", String(limit));
  return `${target}?${all}`;
}

/** @param {{name: string, label: string, choices: string[]}} props a filter of the address */
function Choice({ name, label, choices }) {
  const value = route.value.query.get(name) ?? "";
  return html`<label
    >${label}
    <select onChange=${(/** @type {any} */ event) => changeRoute({ [name]: event.target.value })}>
      <option value="" selected=${!value}>all</option>
      ${choices.map((one) => html`<option value=${one} selected=${one === value}>${one}</option>`)}
    </select>
  </label>`;
}

/** @param {{name: string, label: string}} props a filter of the address that is typed */
function Typed({ name, label }) {
  const value = route.value.query.get(name) ?? "";
  return html`<label
    >${label}
    <input
      value=${value}
      onChange=${(/** @type {any} */ event) => changeRoute({ [name]: event.target.value.trim() })}
    />
  </label>`;
}

export function RunsPage() {
  const { parts } = route.value;
  if (parts[1]) {
    return html`<h1>Run</h1>
      ${h(Shown, { path: route.value.path, draw: (run) => h(Timeline, { run }) })}`;
  }
  const draw = (/** @type {Json} */ body) =>
    h(List, {
      label: "Runs",
      head: ["Node", ...RUN_HEAD],
      rows: body.runs.map((/** @type {Json} */ run) => [
        html`<a href=${href(path("nodes", run.node_name ?? run.node_uuid))}>
          ${h(Text, { of: run.node_name ?? run.node_uuid })}
        </a>`,
        ...runRow(run),
      ]),
    });
  return html`<h1>Runs</h1>
    <div class="filters">
      ${h(Choice, { name: "state", label: "Result", choices: ["running", "waiting", "done", "failed", "aborted"] })}
      ${h(Choice, { name: "latest", label: "Latest of each node", choices: ["true"] })}
      ${h(Choice, { name: "overdue", label: "Overdue", choices: ["true"] })}
      ${h(Typed, { name: "verb", label: "Verb" })} ${h(Typed, { name: "node", label: "Node" })}
      ${h(Typed, { name: "code", label: "Code of the cause" })}
    </div>
    ${h(Shown, { path: asked(), draw })}`;
}

const MOST_EVENTS = 500;

export function EventsPage() {
  const [events, setEvents] = useState(/** @type {Json[]} */ ([]));
  const [paused, setPaused] = useState(false);
  const { query } = route.value;
  const text = query.toString();
  useEffect(() => {
    if (paused) return undefined;
    const filter = Object.fromEntries(query);
    let stopped = false;
    /** @type {Feed | null} */
    let feed = null;
    const more = (/** @type {Json[]} */ found) =>
      setEvents((old) => [...found.reverse(), ...old].slice(0, MOST_EVENTS));
    get(`/v1/events?${new URLSearchParams({ ...filter, limit: "100" })}`).then(({ body }) => {
      if (stopped) return;
      setEvents(body.events.reverse());
      feed = new Feed(body.cursor, more, () => {}, filter);
    }, () => {});
    return () => {
      stopped = true;
      feed?.stop();
    };
  }, [text, paused]);
  return html`<h1>Events</h1>
    <div class="filters">
      ${h(Typed, { name: "node", label: "Node" })} ${h(Typed, { name: "kind", label: "Kinds" })}
      <button aria-pressed=${paused} onClick=${() => setPaused(!paused)}>Pause</button>
      ${h(Curl, { path: `/v1/events?${text ? `${text}&` : ""}since=now&follow=true`, stream: true })}
    </div>
    ${h(List, {
      label: "Events",
      head: ["At", "Node", "Kind", "Event", "Change", "By"],
      rows: events.map((event) => [
        h(Stamp, { at: event.at }),
        html`<a href=${href(path("nodes", event.name ?? event.node ?? ""))}>
          ${h(Text, { of: event.name ?? event.node ?? "" })}
        </a>`,
        h(Text, { of: event.kind }), h(Text, { of: event.event }),
        event.after ? h(Text, { of: `${event.before ?? ""} → ${event.after}` }) : "",
        h(Text, { of: event.requester ?? event.conductor ?? "" }),
      ]),
    })}`;
}

export function EvidencePage() {
  const { parts } = route.value;
  if (parts[1]) {
    return html`<h1>Erasure record</h1>
      <p>This is evidence of what the ramdisk did, and no certificate.</p>
      ${h(Shown, { path: route.value.path, draw: (body) => h(Tree, { of: body }) })}
      <pre>${openssl(parts[1])}</pre>`;
  }
  return html`<h1>Evidence</h1>
    <div class="filters">
      ${h(Typed, { name: "serial", label: "Serial number" })} ${h(Typed, { name: "node", label: "Node" })}
      <a href=${href("/v1/nodes", { retired: "true", data_state: "dirty" })}>retired and dirty nodes</a>
    </div>
    ${h(Shown, { path: asked(), draw: (body) => h(ErasureList, { body }) })}`;
}

/** @param {string} uuid */
const openssl = (uuid) => `curl -so e.json "$api"/v1/erasures/${uuid}
curl -so e.sig "$api"/v1/erasures/${uuid}/signature
curl -so key.pem "$api"/v1/erasures/keys/$(jq -r .key e.json)
openssl pkeyutl -verify -pubin -inkey key.pem -rawin -in e.json -sigfile e.sig`;

export function StepsPage() {
  const draw = (/** @type {Json} */ body) =>
    h(List, {
      label: "Steps",
      head: ["Step", "Kind", "Driver", "Class", "Count", "Failed", "Usual", "90 %", "Longest", "Codes"],
      rows: body.steps.map((/** @type {Json} */ one) => [
        h(Text, { of: `${one.interface}.${one.step}` }), one.kind, h(Text, { of: one.driver }),
        h(Text, { of: one.resource_class ?? "" }), one.count, one.failed, duration(one.p50),
        duration(one.p90), duration(one.longest),
        Object.entries(one.codes).map(([code, count]) => html`<code>${code} ${count}</code> `),
      ]),
    });
  const { query } = route.value;
  return html`<h1>Steps</h1>
    ${h(Shown, { path: `/v1/stats/steps?${query}`, draw })}`;
}

export function DoctorPage() {
  const draw = (/** @type {Json} */ body) => html`<p>${h(Result, { result: body.status })}</p>
    <ul class="checks">
      ${body.checks.map(
        (/** @type {Json} */ one) => html`<li class=${one.status}>
          ${h(Result, { result: one.status, word: false })} <strong>${one.name}</strong>
          <span class="small">${h(Text, { of: one.where ?? "" })}</span> ${h(Text, { of: one.text })}
          ${one.do && html`<p class="do">${h(Text, { of: one.do })}</p>`}
        </li>`,
      )}
    </ul>`;
  const { query } = route.value;
  const text = query.toString();
  return html`<h1>Doctor</h1>
    <div class="filters">${h(Typed, { name: "node", label: "Also examine the node" })}</div>
    ${h(Shown, { path: `/v1/doctor${text ? `?${text}` : ""}`, draw })}
    <h2>Conductors</h2>
    ${h(Shown, { path: "/v1/conductors?detail=true", draw: conductors })}`;
}

/** @param {Json} body */
const conductors = (body) =>
  h(List, {
    label: "Conductors",
    head: ["Host", "Group", "Alive", "Last sign"],
    rows: body.conductors.map((/** @type {Json} */ one) => [
      h(Text, { of: one.hostname }), h(Text, { of: one.conductor_group }), one.alive ? "yes" : "▲ no",
      h(Stamp, { at: one.updated_at }),
    ]),
  });

/** Any other path of the API: its document. */
export function DocumentPage() {
  const { path: target, query } = route.value;
  const text = query.toString();
  return html`<h1>${h(Text, { of: target })}</h1>
    ${h(Shown, { path: text ? `${target}?${text}` : target, draw: (body) => h(Tree, { of: body }) })}`;
}

/** @param {"utc" | "keys" | "plain"} name @param {string} label */
const tick = (name, label) => html`<label class="block"
  ><input
    type="checkbox"
    checked=${prefs.value[name]}
    onInput=${(/** @type {any} */ event) => set({ [name]: event.target.checked })}
  />
  ${label}</label
>`;

export function SettingsPage() {
  const { views } = prefs.value;
  return html`<h1>Settings</h1>
    ${tick("utc", "Show times in UTC")} ${tick("keys", "Shortcuts of one character")}
    ${tick("plain", "Plain tables of 500 rows, for screen readers and find-in-page")}
    <h2>Saved views</h2>
    <ul>
      ${Object.entries(views).map(
        ([name, address]) => html`<li>
          <a href=${address}>${h(Text, { of: name })}</a>
          <button class="quiet" onClick=${() => set({ views: without(views, name) })}>remove</button>
        </li>`,
      )}
    </ul>
    <h2>Who am I</h2>
    ${h(Shown, { path: "/v1/whoami", draw: (body) => h(Tree, { of: body }) })}
    ${login.user.value && html`<button onClick=${() => (login.clear(), go("#/v1/nodes"))}>Log out</button>`}
    <p class="small">This page speaks version ${VERSION} of the API.</p>`;
}

/** @param {Record<string, string>} all @param {string} name */
const without = (all, name) =>
  Object.fromEntries(Object.entries(all).filter(([one]) => one !== name));
