/** Activity: what happened in the fleet or on one node, by day and run, with person and process. */
import { type ComponentChildren } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { Field, Select, typed } from "./fields";
import { Skeleton, useDocument, wrong } from "./read";
import { Ago, bdi, filters, link, nodeLink, Result } from "./text";
import { MenuCurl } from "./toasts";
import { batchTitle, many, stepName, sum, verb, visible } from "./words";
import { type Change, type Entry, history, names, passes } from "../state/activity";
import { absolute, clockTime, dayOf, duration, minute, now, usualTime } from "../state/clock";
import { groupsOf } from "../state/kinds";
import { changeRoute, href, path, route } from "../state/route";
import { prefs } from "../state/settings";
import { dateInput, fromInput, moment, NIGHT, spanOf, TIMES } from "../state/spans";
import { type Json } from "../wire/json";
import { type Asked, useHistory } from "./history";

/** Entries that are drawn at first, and with each press of the button. */
const MOST_DRAWN = 200;
/** Changes of one entry that are shown unfolded. */
const MOST_CHANGES = 4;

export function ActivityPage() {
  return (
    <>
      <h1>Activity</h1>
      <Activity />
    </>
  );
}

/** What the address asks for; `since` and `before` are as in the API, the preset is of the view. */
function useAsked(node: string | undefined): Asked & { preset: string; night: [string, string] } {
  const { query, view } = route.value;
  const since = query.get("since") ?? "";
  const before = query.get("before") ?? "";
  const preset = since || before ? "own" : (view.time ?? "");
  const { from = NIGHT[0], to = NIGHT[1], group = "" } = view;
  const { utc } = prefs.value;
  const span = useMemo(() => {
    const at = now.peek();
    if (preset !== "own") return spanOf(preset, at, { utc, night: [from, to] });
    return { since: moment(since, at), before: moment(before, at) };
  }, [preset, since, before, utc, from, to, minute.value]);
  return {
    ...span,
    preset,
    night: [from, to],
    group,
    node: node ?? query.get("node") ?? "",
    one: !!node,
    kind: query.get("kind") ?? "",
    run: query.get("run") ?? "",
    requester: query.get("requester") ?? "",
    // A cursor, or what the API refuses.
    from: span.since === null && since !== "0" ? since : "",
    all: since === "0",
    upto: span.before === null ? before : "",
  };
}

/** @param props without `node`, of all nodes */
export function Activity({ node }: { node?: Json }) {
  const asked = useAsked(node?.uuid);
  const [paused, setPaused] = useState(false);
  const read = useHistory(asked, paused);
  const { view } = route.value;
  const { process = "" } = view;
  const entries = useMemo(
    () => history(read, { group: asked.group, node: asked.one }),
    [read.events, read.runs, read.batches, asked.group, asked.one],
  );
  // The entries of one person do not name the others.
  const people = useRef(new Set<string>()).current;
  for (const name of names(entries, "person")) people.add(name);
  const shown = entries.filter((entry) => passes(entry, process));
  const [drawn, setDrawn] = useState(MOST_DRAWN);
  const more = drawn < shown.length || read.more;
  const onMore = () => {
    setDrawn(drawn + MOST_DRAWN);
    if (drawn + MOST_DRAWN > shown.length) void read.older();
  };
  return (
    <>
      <div class="filters">
        <Times {...asked} />
        <Choice name="~group" label="Kind" choices={groupsOf(asked.one)} />
        <Choice name="requester" label="By" choices={withOwn([...people].sort(), asked.requester)} />
        <Choice name="~process" label="Process" choices={withOwn(names(entries, "process"), process)} />
        {!asked.one && (
          <Field
            label="Node"
            value={asked.node}
            onChange={typed((value: string) => changeRoute({ node: value.trim() }))}
          />
        )}
        {filters(
          new URLSearchParams(Object.entries({ kind: asked.kind, run: asked.run }).filter(([, has]) => has)),
        )}
        <button aria-pressed={paused} onClick={() => setPaused(!paused)}>
          Pause
        </button>
        <MenuCurl path={read.list} />
      </div>
      {wrong(read.fault, read.list)}
      {!read.ready ? (
        !read.fault && <Skeleton />
      ) : (
        <div class="activity">
          <Days entries={shown.slice(0, drawn)} fleet={!asked.one} />
          {!shown.length && (
            <p>
              {asked.requester || process ? "Nothing by them" : "Nothing"}{" "}
              {read.more ? "among what is read" : "in this time"}.
            </p>
          )}
          {more && <button onClick={onMore}>Older</button>}
        </div>
      )}
    </>
  );
}

const withOwn = (found: string[], own: string): [string, string][] =>
  [...new Set([...found, ...(own ? [own] : [])])].map((name) => [name, name]);

/** A choice that the address keeps: of the API, or with `~` of the view alone. */
const Choice = ({ name, label, choices }: { name: string; label: string; choices: [string, string][] }) => (
  <Select
    label={label}
    value={(name[0] === "~" ? route.value.view[name.slice(1)] : route.value.query.get(name)) ?? ""}
    onChange={(value) => changeRoute({ [name]: value })}
    choices={[["", "all"], ...choices]}
  />
);

/** The preset, and the times that it means. */
function Times({ preset, since, before, night }: ReturnType<typeof useAsked>) {
  const { utc } = prefs.value;
  const choose = (value: string) =>
    changeRoute(
      value === "own"
        ? { since: new Date(since ?? now.value - 86_400_000).toISOString(), "~time": "" }
        : { since: "", before: "", "~time": value },
    );
  const date = (label: string, name: "since" | "before", at: number | null) => (
    <Field
      label={label}
      type="datetime-local"
      value={dateInput(at, utc)}
      onChange={typed((value: string) => changeRoute({ [name]: fromInput(value, utc) }))}
    />
  );
  const hour = (label: string, name: string, value: string) => (
    <Field
      label={label}
      type="time"
      value={value}
      onChange={typed((next: string) => next && changeRoute({ [`~${name}`]: next }))}
    />
  );
  return (
    <>
      <Select label="Time" value={preset} onChange={choose} choices={TIMES} />
      {preset === "night" && (
        <>
          {hour("from", "from", night[0])} {hour("to", "to", night[1])}
        </>
      )}
      {preset === "own" && (
        <>
          {date("from", "since", since)} {date("to", "before", before)}
        </>
      )}
    </>
  );
}

function Days({ entries, fleet }: { entries: Entry[]; fleet: boolean }) {
  const days = Map.groupBy(entries, ({ at }) => dayOf(at, prefs.value.utc));
  return (
    <>
      {[...days].map(([day, some]) => (
        <>
          <h2>{day}</h2>
          <Entries entries={some} fleet={fleet} label={day} />
        </>
      ))}
    </>
  );
}

export const Entries = ({ entries, fleet, label }: { entries: Entry[]; fleet: boolean; label: string }) => (
  <ol aria-label={label}>
    {entries.map((entry) => (
      <Line key={entry.key} entry={entry} fleet={fleet} />
    ))}
  </ol>
);

/** A node that is deleted has no name any more. */
const nameLink = (node: { uuid: string; name: string | null }) =>
  node.name ? (
    nodeLink(node)
  ) : (
    <a href={href(path("nodes", node.uuid))} title={node.uuid}>
      {node.uuid.slice(0, 8)}…
    </a>
  );

function Line({ entry, fleet }: { entry: Entry; fleet: boolean }) {
  const { at, node, person, process, batch, group } = entry;
  const { utc } = prefs.value;
  return (
    <li class={entry.failed ? "bad" : undefined}>
      <time datetime={at} title={absolute(at, true)}>
        {clockTime(at, utc, true)}
      </time>
      {fleet && (
        <span class="node">
          {node ? nameLink(node) : batch && <a href={href(path("batches", batch.uuid))}>batch</a>}
        </span>
      )}
      <span class="by">
        {batch && group !== "batches" ? (
          <>
            {link(path("batches", batch.uuid), batch.name ?? "batch")}
            {person && <> ({bdi(person)})</>}
          </>
        ) : (
          person && bdi(person)
        )}{" "}
        {process && <span class="small">{bdi(process)}</span>}
      </span>
      <div class="what">
        {group === "batches" && batch ? <BatchOf entry={entry} /> : <What entry={entry} />}
      </div>
    </li>
  );
}

/** An entry whose content is read and drawn when it is opened. */
function Folded({ title, children }: { title: ComponentChildren; children: () => ComponentChildren }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {open && children()}
    </details>
  );
}

function What({ entry }: { entry: Entry }) {
  const { run, node, of, erasure } = entry;
  if (run && node) return <Run entry={entry} />;
  return (
    <>
      {entry.text && (
        <span>
          {entry.failed && <span aria-hidden="true">▲ </span>}
          {bdi(entry.text)}
        </span>
      )}
      {entry.changes.slice(0, MOST_CHANGES).map((change) => (
        <ChangeLine change={change} />
      ))}
      {entry.changes.length > MOST_CHANGES && (
        <Folded title={many(entry.changes.length - MOST_CHANGES, "more change")}>
          {() => entry.changes.slice(MOST_CHANGES).map((change) => <ChangeLine change={change} />)}
        </Folded>
      )}{" "}
      {erasure && <a href={href(path("erasures", erasure))}>record</a>}{" "}
      {of && node && <a href={href(path("nodes", node.uuid, "runs", of))}>run</a>}
    </>
  );
}

const ChangeLine = ({ change }: { change: Change }) => (
  <p>
    <code>{bdi(change.path)}</code> {side(change, "old")} → {side(change, "new")}
  </p>
);

/** A value; a long one is told by its length, and one of another project not at all. */
function side(change: Change, name: "old" | "new") {
  const length = change[`${name}_length`];
  if (length !== undefined) return `(${many(length, "character")})`;
  if (!(name in change)) return "(not shown)";
  return change[name] === null ? "nothing" : bdi(change[name]);
}

function Run({ entry }: { entry: Entry }) {
  const { run, node } = entry;
  if (!run || !node) return null;
  const own = path("nodes", node.uuid, "runs", run.uuid);
  return (
    <>
      <Folded
        title={
          <>
            <strong>
              {bdi(run.verb ? verb(run.verb) : "Run")}
              {run.retry && ", retry"}
            </strong>{" "}
            <Result result={run.state} />{" "}
            {run.seconds === null ? <Ago at={entry.at} /> : duration(run.seconds)} {bdi(entry.text)}
            {run.step && <code class="small"> {bdi(run.step)}</code>}
          </>
        }
      >
        {() => <RunInside entry={entry} />}
      </Folded>
      <span class="links">
        <a href={href(own)}>
          run<span class="unseen"> of {visible(node.name ?? node.uuid)}</span>
        </a>{" "}
        <a href={href(`${own}/log`)}>
          log<span class="unseen"> of {visible(node.name ?? node.uuid)}</span>
        </a>
      </span>
      {run.error && <p class="wrong">{bdi(run.error)}</p>}
    </>
  );
}

/** The steps of a run with their usual times, and what happened beside them. */
function RunInside({ entry }: { entry: Entry }) {
  const from = path("runs", entry.run?.uuid ?? "");
  const { body, fault } = useDocument(entry.run?.known ? from : null, { again: entry.run?.state });
  const steps: Json[] = body?.steps ?? [];
  return (
    <>
      {entry.run?.known ? (
        (wrong(fault, from) ?? (!body && <Skeleton rows={2} />))
      ) : (
        <p>Its steps are not kept.</p>
      )}
      {steps.length > 0 && (
        <ol class="inside" aria-label="Steps">
          {steps.map((step) => (
            <li>
              <Result result={step.done_in ? "kept" : step.waiver ? "waived" : step.state} word={false} />{" "}
              {bdi(stepName(step))} {duration(step.duration_seconds)}
              {step.usual_seconds && <span class="small"> (usual {usualTime(step.usual_seconds)})</span>}
              {step.error && <p class="wrong">{bdi(step.error.cause?.text ?? step.error.text)}</p>}
            </li>
          ))}
        </ol>
      )}
      {entry.inside.length > 0 && (
        <Entries entries={entry.inside.toReversed()} fleet={false} label="Beside the steps" />
      )}
    </>
  );
}

function BatchOf({ entry }: { entry: Entry }) {
  const { batch, inside } = entry;
  if (!batch) return null;
  const runs = inside.filter(({ run }) => run);
  const failed = sum(runs.map((run) => Number(run.failed)));
  return (
    <>
      <Folded
        title={
          <>
            <strong>{bdi(batch.waves ? batchTitle(batch) : (batch.name ?? "Batch"))}</strong>{" "}
            {batch.state && <Result result={batch.state} />} {many(runs.length, "run")}
            {failed > 0 && <span class="danger">, ▲ {failed} failed</span>}
          </>
        }
      >
        {() => <Entries entries={inside} fleet label="Of this batch" />}
      </Folded>
    </>
  );
}
