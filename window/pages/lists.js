/** Pages that show one list or one document: runs, events, evidence, steps, doctor, settings. */
import { useEffect, useState } from "../vendor/hooks.js";
import { h } from "../vendor/preact.js";
import { RUN_HEAD, runRow } from "./node.js";
import { withValue } from "../parts/dialog.js";
import { Checks, COPY, FaultBox, List, LIST_MS, Listed, Shown, Skeleton, Tree } from "../parts/read.js";
import { Timeline } from "../parts/run.js";
import {
  bdi, choice, Curl, field, html, nodeLink, OVERDUE, Result, stamp, stepName, checkbox, typed,
} from "../parts/text.js";
import { asked, changeRoute, duration, go, prefs, route, set } from "../state/route.js";
import { parsed } from "../wire/api.js";
import { Feed, followFrom } from "../wire/feed.js";
import { leaveAll, loginUser } from "../wire/login.js";

/** @typedef {Record<string, any>} Json */
/** @typedef {import("../wire/api.js").Fault} Fault */

/** @param {string} name of an argument of the address @returns {[string, (value: string) => void]} */
const argument = (name) => [
  route.value.query.get(name) ?? "", (value) => changeRoute({ [name]: value.trim() }),
];

/** @param {string} name @param {string} label @param {string[]} choices a filter of the address */
const chosen = (name, label, choices) => choice(label, ...argument(name), [["", "all"], ...choices]);

/** @param {string} name @param {string} label a filter of the address that is typed */
function given(name, label) {
  const [value, put] = argument(name);
  return field(label, { value, onChange: typed(put) });
}

export function RunsPage() {
  const { parts } = route.value;
  if (parts[1]) {
    return html`<h1>Run</h1>
      ${h(Shown, { path: route.value.path, each: LIST_MS, draw: (run) => h(Timeline, { run }) })}`;
  }
  return html`<h1>Runs</h1>
    <div class="filters">
      ${chosen("state", "Result", ["running", "waiting", "done", "failed", "aborted"])}
      ${chosen("latest", "Latest of each node", ["true"])}
      ${chosen("overdue", "Overdue", ["true"])}
      ${given("verb", "Verb")} ${given("node", "Node")}
      ${given("code", "Code of the cause")}
      ${given("since", "Begun since")} ${given("before", "Begun before")}
    </div>
    ${route.value.query.has("overdue") && html`<p class="small">${OVERDUE}</p>`}
    ${h(Listed, {
      path: asked({ limit: "200" }), each: LIST_MS, label: "Runs", head: ["Node", ...RUN_HEAD], of: "runs",
      row: (one) => [nodeLink({ name: one.node_name, uuid: one.node_uuid }), ...runRow(one)],
    })}`;
}

const MOST_EVENTS = 500;

export function EventsPage() {
  const [events, setEvents] = useState(/** @type {Json[] | null} */ (null));
  const [fault, setFault] = useState(/** @type {Fault | null} */ (null));
  const [paused, setPaused] = useState(false);
  const { query } = route.value;
  const text = query.toString();
  const from = `/v1/events?${new URLSearchParams([...query, ["limit", "100"]])}`;
  useEffect(() => {
    setEvents(null);
    setPaused(false);
  }, [text]);
  useEffect(() => {
    if (paused) return undefined;
    setFault(null);
    const filter = Object.fromEntries(query);
    const more = (/** @type {Json[]} */ found) =>
      setEvents((old) => [...found.reverse(), ...old ?? []].slice(0, MOST_EVENTS));
    return followFrom(from, (body) => {
      setFault(null);
      setEvents(body.events.reverse());
      return new Feed(body.cursor, more, null, filter);
    }, setFault);
  }, [text, paused]);
  return html`<h1>Events</h1>
    <div class="filters">
      ${given("node", "Node")} ${given("kind", "Kinds")}
      ${choice("Show", ...argument("since"), [["", "newest"], ["0", "all that are kept"]])}
      <button aria-pressed=${paused} onClick=${() => setPaused(!paused)}>Pause</button>
      ${h(Curl, { path: asked({ since: "now", follow: "true" }), stream: true })}
    </div>
    ${fault ? h(FaultBox, { fault, path: from }) : !events ? h(Skeleton, {}) : h(List, {
      label: "Events",
      head: ["At", "Node", "Kind", "Event", "Change", "By", COPY],
      rows: events.map((event) => [
        stamp(event.at),
        event.node && nodeLink({ name: event.name, uuid: event.node }),
        event.kind, event.data?.step ?? event.event ?? (event.node ? null : event.data?.name),
        event.after && `${event.before ?? ""} → ${event.after}`,
        event.requester ?? event.conductor,
        h(Curl, { path: `/v1/events?${new URLSearchParams({ kind: event.kind, ...(event.node && { node: event.node }) })}` }),
      ]),
    })}`;
}

export function StepsPage() {
  return html`<h1>Steps</h1>
    ${h(Listed, {
      path: asked(), label: "Steps", of: "steps",
      head: ["Step", "Kind", "Driver", "Class", "Count", "Failed", "Usual", "90 %", "Longest", "Codes"],
      row: (one) => [
        stepName(one), one.kind, one.driver,
        one.resource_class, one.count, one.failed, duration(one.p50),
        duration(one.p90), duration(one.longest),
        Object.entries(one.codes).map(([code, count]) => html`<code>${code} ${count}</code> `),
      ],
    })}`;
}

export function DoctorPage() {
  const draw = (/** @type {Json} */ { status, checks }) =>
    html`<p>${h(Result, { result: status })}</p> ${h(Checks, { checks })}`;
  return html`<h1>Doctor</h1>
    <div class="filters">${given("node", "Also examine the node")}</div>
    ${h(Shown, { path: asked(), draw })}
    <h2>Conductors</h2>
    ${h(Listed, {
      path: "/v1/conductors?detail=true", label: "Conductors", of: "conductors",
      head: ["Host", "Group", "Alive", "Last sign"],
      row: (one) => [
        one.hostname, one.conductor_group, one.alive ? "yes" : "▲ no",
        stamp(one.updated_at),
      ],
    })}`;
}

/** Any other path of the API: its document. */
export function DocumentPage() {
  return html`<h1>${bdi(route.value.path)}</h1>
    ${h(Shown, { path: asked(), draw: (body) => h(Tree, { of: body }) })}`;
}

/** @param {"utc" | "keys" | "plain"} name @param {string} label */
const setting = (name, label) => checkbox(label, (on) => set({ [name]: on }), prefs.value[name]);

/** Saved views as text, to copy and to take over from another browser. */
function Views() {
  const [text, setText] = useState(JSON.stringify(prefs.value.views));
  const read = parsed(text);
  const views = Object.fromEntries(
    Object.entries(read ?? {}).filter(([, to]) => typeof to === "string" && to.startsWith("#/v1/")),
  );
  return html`<details>
    <summary>Export and import</summary>
    <label class="block"
      >Saved views, as JSON
      <textarea rows="3" spellcheck="false" value=${text} onInput=${typed(setText)} />
    </label>
    <button disabled=${!read} onClick=${() => set({ views: { ...prefs.value.views, ...views } })}>Import</button>
  </details>`;
}

export function SettingsPage() {
  const { views } = prefs.value;
  return html`<h1>Settings</h1>
    ${setting("utc", "Show times in UTC")} ${setting("keys", "Shortcuts of one character")}
    ${setting("plain", "Plain tables of 500 rows, for screen readers and find-in-page")}
    <h2>Saved views</h2>
    ${!Object.keys(views).length && html`<p>There are none. Press Find, then "Save this view".</p>`}
    <ul>
      ${Object.entries(views).map(
        ([name, address]) => html`<li>
          <a href=${address}>${bdi(name)}</a>
          <button class="quiet" onClick=${() => set({ views: withValue(views, name, "") })}>remove</button>
        </li>`,
      )}
    </ul>
    ${h(Views, {})}
    <h2>Who am I</h2>
    ${h(Shown, { path: "/v1/whoami", draw: (body) => h(Tree, { of: body }) })}
    ${loginUser.value && html`<button onClick=${() => (go("#/v1/nodes"), leaveAll())}>Log out</button>`}`;
}
