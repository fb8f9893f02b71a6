/** Pages that show one list or one document: runs, steps, doctor, settings. */
import { useState } from "preact/hooks";
import { Checkbox, Field, Select, typed } from "../parts/fields";
import { lazy } from "../parts/lazy";
import { Checks, DocumentList, DocumentView, LIST_MS } from "../parts/read";
import { RUN_HEAD, runRow, Timeline } from "../parts/run";
import { bdi, nodeLink, Result, stamp, Tree } from "../parts/text";
import { OVERDUE, stepName } from "../parts/words";
import { duration } from "../state/clock";
import { changeRoute, go, request, route } from "../state/route";
import { prefs, set } from "../state/settings";
import { parsed } from "../wire/api";
import { type Json, withValue } from "../wire/json";
import { leaveAll, loginUser } from "../wire/login";

/** An argument of the address, and how a field changes it. */
const argument = (name: string) => ({
  value: route.value.query.get(name) ?? "",
  onChange: (value: string) => changeRoute({ [name]: value.trim() }),
});

/** A filter of the address with fixed values. */
const Filter = ({ name, label, choices }: { name: string; label: string; choices: string[] }) => (
  <Select label={label} {...argument(name)} choices={[["", "all"], ...choices]} />
);

/** A filter of the address that is typed. */
function TypedFilter({ name, ...props }: { name: string; label: string; placeholder?: string }) {
  const { value, onChange } = argument(name);
  return <Field {...props} value={value} onChange={typed(onChange)} />;
}

/** A date, or a duration before now. */
const EXAMPLE = "PT1H, 2026-11-30";

export function RunsPage() {
  const { parts } = route.value;
  if (parts[1]) {
    return (
      <>
        <h1>Run</h1>
        <DocumentView path={route.value.path} each={LIST_MS} draw={(run) => <Timeline run={run} />} />
      </>
    );
  }
  return (
    <>
      <h1>Runs</h1>
      <div class="filters">
        <Filter name="state" label="Result" choices={["running", "waiting", "done", "failed", "aborted"]} />
        <Filter name="latest" label="Latest of each node" choices={["true"]} />
        <Filter name="overdue" label="Overdue" choices={["true"]} />
        <TypedFilter name="verb" label="Verb" /> <TypedFilter name="node" label="Node" />
        <TypedFilter name="code" label="Error code" />
        <TypedFilter name="since" label="Begun since" placeholder={EXAMPLE} />{" "}
        <TypedFilter name="before" label="Begun before" placeholder={EXAMPLE} />
      </div>
      {route.value.query.has("overdue") && <p class="small">{OVERDUE}</p>}
      <DocumentList
        path={request({ limit: "200" })}
        each={LIST_MS}
        label="Runs"
        head={["Node", ...RUN_HEAD]}
        of="runs"
        {...(route.value.query.size && { none: "No run matches." })}
        day={(run) => run.started_at}
        row={(run) => [nodeLink({ name: run.node_name, uuid: run.node_uuid }), ...runRow(run)]}
      />
    </>
  );
}

export function StepsPage() {
  return (
    <>
      <h1>Steps</h1>
      <DocumentList
        path={request()}
        label="Steps"
        of="steps"
        head={[
          "Step",
          "Kind",
          "Driver",
          "Class",
          "Count",
          "Failed",
          "Usual",
          "90 %",
          "Longest",
          "Error codes",
        ]}
        row={(step) => [
          stepName(step),
          step.kind,
          step.driver,
          step.resource_class,
          step.count,
          step.failed,
          duration(step.p50, true),
          duration(step.p90, true),
          duration(step.longest, true),
          Object.entries(step.codes).map(([code, count]) => (
            <>
              <code>
                {code} {count}
              </code>{" "}
            </>
          )),
        ]}
      />
    </>
  );
}

export function DoctorPage() {
  const draw = ({ status, checks }: Json) => (
    <>
      <p>
        <Result result={status} />
      </p>{" "}
      <Checks checks={checks} />
    </>
  );
  return (
    <>
      <h1>Doctor</h1>
      <div class="filters">
        <TypedFilter name="node" label="Also examine the node" />
      </div>
      <DocumentView path={request()} draw={draw} madeAt={({ at }) => at} />
      <h2>Conductors</h2>
      <DocumentList
        path="/v1/conductors?detail=true"
        label="Conductors"
        of="conductors"
        head={["Host", "Group", "Alive", "Last heartbeat"]}
        row={(conductor) => [
          conductor.hostname,
          conductor.conductor_group,
          conductor.alive ? "yes" : "▲ no",
          stamp(conductor.updated_at),
        ]}
      />
    </>
  );
}

/** Any other path of the API: its document. */
export function DocumentPage() {
  return (
    <>
      <h1>{bdi(route.value.path)}</h1>
      <DocumentView path={request()} draw={(body) => <Tree of={body} />} />
    </>
  );
}

const setting = (name: "utc" | "keys" | "plain", label: string) => (
  <Checkbox label={label} onChange={(on) => set({ [name]: on })} on={prefs.value[name]} />
);

/** Saved views as text, to copy and to take over from another browser. */
function Views() {
  const [text, setText] = useState(JSON.stringify(prefs.value.views));
  const read = parsed(text);
  const views = Object.fromEntries(
    Object.entries<string>(read ?? {}).filter(([, to]) => typeof to === "string" && to.startsWith("#/v1/")),
  );
  return (
    <details>
      <summary>Export and import</summary>
      <label class="block">
        Saved views, as JSON
        <textarea rows={3} spellcheck={false} value={text} onInput={typed(setText)} />
      </label>
      <button disabled={!read} onClick={() => set({ views: { ...prefs.value.views, ...views } })}>
        Import
      </button>
    </details>
  );
}

const Words = lazy(async () => (await import("./words")).Words);

/** Settings of this browser, or the words of the window. */
export const SettingsPage = () => (route.value.view.tab === "words" ? <Words /> : <Settings />);

function Settings() {
  const { views } = prefs.value;
  return (
    <>
      <h1>Settings</h1>
      {setting("utc", "Show times in UTC")} {setting("keys", "Shortcuts of one character")}
      {setting("plain", "Plain tables of 500 rows, for screen readers and find-in-page")}
      <h2>Saved views</h2>
      {!Object.keys(views).length && (
        <p>No saved views yet. Filter the nodes of the page Fleet, then press + Save this view.</p>
      )}
      <ul>
        {Object.entries(views).map(([name, address]) => (
          <li>
            <a href={address}>{bdi(name)}</a>
            <button class="quiet" onClick={() => set({ views: withValue(views, name, "") })}>
              remove
            </button>
          </li>
        ))}
      </ul>
      <Views />
      <h2>Who am I</h2>
      <DocumentView path="/v1/whoami" draw={(body) => <Tree of={body} />} />
      {loginUser.value && <button onClick={() => (go("#/v1/nodes"), leaveAll())}>Log out</button>}
    </>
  );
}
