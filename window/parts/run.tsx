/** A run: its steps against their usual times, other runs beside it, and the states around its node. */
import { useState } from "preact/hooks";
import { VERBS } from "../facts";
import { actors } from "../state/actors";
import { clockTime, dayTime, duration, now, usualTime } from "../state/clock";
import { type Gantt, ganttOf, type GanttRow, LEAST_USUAL, type Span } from "../state/gantt";
import { href, path } from "../state/route";
import { prefs, small } from "../state/settings";
import { type Json } from "../wire/json";
import { lazy } from "./lazy";
import { COPY, copyOf, useDocument } from "./read";
import { Ago, bdi, link, Result, stamp, State } from "./text";
import { causeOf, ERASING, expected, OVERDUE, stepName, verb, visible } from "./words";

const Compared = lazy(async () => (await import("./compare")).Compared);
const COMPARED = 5;

/** @param props `why` of the node, for what the run waits for */
export function Timeline({ run, why }: { run: Json; why?: Json | null }) {
  const steps = run.steps ?? [];
  const earlier = useDocument(
    run.retry_of && run.state === "failed" ? path("runs", run.retry_of) : null,
  ).body;
  const seconds = (Date.parse(run.ended_at) - Date.parse(run.started_at)) / 1000;
  return (
    <div class="run">
      <p class="run-head">
        <Result result={run.state} /> <strong>{bdi(verb(run.verb))}</strong>
        {by(run)
          .filter(Boolean)
          .map((name) => (
            <> · {bdi(name)}</>
          ))}
        {" · "}
        {run.ended_at ? (
          <>
            {duration(seconds, true)}, ended <Ago at={run.ended_at} ago />
          </>
        ) : (
          <>
            for <Ago at={run.started_at} />
          </>
        )}
        {run.eta && !steps.some((step: Json) => step.overdue) && <> · {expected(run.eta)}</>}
        {run.batch && <> · {link(path("batches", run.batch), "batch")}</>}
        {run.retry_of && (
          <>
            {" "}
            · <a href={href(path("runs", run.retry_of))}>retry of an earlier run</a>
          </>
        )}
      </p>
      {earlier && (
        <p class="wrong" role="status">
          The retry failed again, with {causeOf(earlier) === causeOf(run) ? "the same" : "another"} cause.
        </p>
      )}
      {run.error && !steps.length && <p class="wrong">{bdi(run.error.text)}</p>}
      {steps.length > 0 && <Steps run={run} />}
      {why?.waits_for && <Waits waits={why.waits_for} />}
      {steps.length > 0 && <Compare key={run.uuid} run={run} />}
    </div>
  );
}

/** One row a step. The bars are for the eye alone: the texts beside them say the same. */
function Steps({ run }: { run: Json }) {
  const chart = ganttOf(run, run.ended_at ? 0 : now.value);
  const own = path("nodes", run.node_uuid, "runs", run.uuid);
  return (
    <div class="chart">
      <ol class="steps" aria-label="Steps">
        {chart.rows.map((row) => (
          <Step key={row.step.ordinal} row={row} chart={chart} own={own} over={!!run.ended_at} />
        ))}
      </ol>
      <Axis chart={chart} />
    </div>
  );
}

/** @param props `own`: path of the run; `over`: it has ended */
function Step({ row, chart, own, over }: { row: GanttRow; chart: Gantt; own: string; over: boolean }) {
  const { step, seconds, times } = row;
  const state = step.done_in ? "kept" : step.waiver ? "waived" : step.state;
  const usual = step.usual_seconds?.p90 >= LEAST_USUAL ? usualTime(step.usual_seconds) : "";
  const log = (line: string) => href(`${own}/log`, {}, { line });
  return (
    <li class={state} id={`step-${step.ordinal}`}>
      <Result result={state} word={false} />
      <span class="step">{bdi(stepName(step))}</span>
      <Bars row={row} chart={chart} />
      <span class="took">
        {step.done_in ? (
          <a href={href(path("runs", step.done_in))}>done in an earlier run</a>
        ) : seconds !== null ? (
          duration(seconds, true)
        ) : step.state !== "pending" ? (
          ""
        ) : over ? (
          "not reached"
        ) : (
          usual && `~${duration(step.usual_seconds.p50, true)}`
        )}
      </span>
      <span class="usual">
        {usual && seconds !== null && <>usual {usual}</>}
        {times && (
          <strong class="danger" title={`${times} times what 9 of 10 such steps took`}>
            {" "}
            {times}x
          </strong>
        )}
      </span>
      <span class="more">
        {step.attempt > 1 && <span>attempt {step.attempt}</span>}
        {step.overdue && <span class="danger">◷ overdue</span>}
        {seconds !== null && !step.error && (
          <a href={log(step.started_at)} aria-label={`log of ${visible(stepName(step))}`}>
            log
          </a>
        )}
        {step.ended_at && ERASING.test(step.step) && (
          <a href={`#${own.replace(/runs.*/, "erasures")}`}>erasures</a>
        )}
      </span>
      {step.overdue && <p class="small">{OVERDUE}</p>}
      {step.waiver && <p class="small">waived: {bdi(step.waiver.reason ?? step.waiver)}</p>}
      {step.error && <Cause error={step.error} log={log(step.ended_at ?? step.started_at)} />}
    </li>
  );
}

const percent = (number: number) => `${number}%`;
const box = ({ x, width }: Span) => ({ x: percent(x), width: percent(width) });

/** The bar of a step, the mark of its usual time, and the present. */
function Bars({ row: { step, bar, usual, seconds }, chart }: { row: GanttRow; chart: Gantt }) {
  const line = (x: number, more: Json) => <line x1={percent(x)} x2={percent(x)} {...more} />;
  return (
    <svg class="gantt" aria-hidden="true">
      {bar && (
        <rect
          class={seconds === null ? "pending-bar" : "bar-of-time"}
          y="4"
          height="10"
          rx="2"
          {...box(bar)}
        />
      )}
      {usual && (
        <g class="usual-mark">
          <title>{`usual ${usualTime(step.usual_seconds)}`}</title>
          <line x1={percent(usual.x)} x2={percent(usual.x + usual.width)} y1="20" y2="20" />
          {line(usual.x, { y1: 17, y2: 23 })}
          {line(usual.x + usual.width, { y1: 17, y2: 23 })}
        </g>
      )}
      {chart.now !== null && line(chart.now, { class: "now", y1: 0, y2: "100%" })}
    </svg>
  );
}

/** Ticks nearer to the present, or to the end of the axis, would stand in other words, in percent. */
const near = () => (small.value ? 18 : 9);

const DAY_MS = 86_400_000;

/** Times below the bars: local, with seconds if they are needed, or with days. */
function Axis({ chart: { ticks, exact, now: present } }: { chart: Gantt }) {
  const days = (ticks.at(-1)?.at ?? 0) - (ticks[0]?.at ?? 0) >= DAY_MS;
  const time = (at: string) => (days ? dayTime : clockTime)(at, prefs.value.utc, exact);
  const label = (x: number, text: string) => (
    <text x={percent(x)} y="14" text-anchor={x < near() ? "start" : x > 100 - near() ? "end" : "middle"}>
      {text}
    </text>
  );
  return (
    <svg class="gantt axis" aria-hidden="true">
      {ticks
        .filter(({ x }) => present === null || Math.abs(x - present) > near())
        .map(({ at, x }) => label(x, time(new Date(at).toISOString())))}
      {present !== null && label(present, "now")}
    </svg>
  );
}

/** Other runs of the same verb beside this one; they are read when they are asked for. */
function Compare({ run }: { run: Json }) {
  const [of, setOf] = useState("" as "node" | "class" | "");
  const choice = (name: "node" | "class", label: string) => (
    <button aria-pressed={of === name} onClick={() => setOf(of === name ? "" : name)}>
      {label}
    </button>
  );
  return (
    <>
      <div class="actions" role="group" aria-label="Compare">
        <span class="small">Compare with the last {COMPARED}</span>
        {choice("node", "on this node")} {choice("class", "of this class")}
      </div>
      {of && <Compared key={of} run={run} of={of} most={COMPARED} />}
    </>
  );
}

/** @param props `log`: the address of the line where the step ends */
function Cause({ error, log }: { error: Json; log: string }) {
  const cause = error.cause ?? error;
  return (
    <p class="wrong">
      {bdi(cause.text)} <code class="small">{cause.code}</code> <a href={log}>log at this line</a>
    </p>
  );
}

function Waits({ waits }: { waits: Json }) {
  const left = Math.max(0, (Date.parse(waits.given_up_at) - now.value) / 1000);
  return (
    <p class="waits" title={waits.limit}>
      ◔ Waits for the {waits.what}, for <Ago at={waits.since} /> now
      {waits.last_sign_at && (
        <>
          , last sign <Ago at={waits.last_sign_at} ago />
        </>
      )}
      {waits.given_up_at && <>; given up in {duration(left)}</>}.
    </p>
  );
}

// -- The states around a node: where it stands.

const RESTING = ["enroll", "manageable", "available", "active", "rescue"];

export function Machine({ why }: { why: Json }) {
  const state = why.provision_state;
  // A passing state stands behind the one in which its run has begun.
  const starts = VERBS.find((row) => row.target === why.run?.verb)?.from ?? [];
  const start = RESTING.findIndex((resting) => starts.includes(resting));
  const places = RESTING.toSpliced(
    start < 0 ? RESTING.length : start + 1,
    0,
    ...(RESTING.includes(state) ? [] : [state]),
  );
  return (
    <ol class="machine" aria-label="States">
      {places.map((place) => (
        <li aria-current={place === state ? "step" : undefined}>
          <State state={place} />
        </li>
      ))}
    </ol>
  );
}

/** Who asked for it, and the process that works on it. */
const by = (run: Json) => {
  const { person, process } = actors(run);
  return [person, process];
};

export const runRow = (run: Json) => [
  link(path("nodes", run.node_uuid, "runs", run.uuid), verb(run.verb) + (run.retry_of ? ", retry" : "")),
  <Result result={run.state} />,
  stamp(run.started_at, run.started_at),
  // The API counts the time of a run under way, too, but this page does not ask each second.
  run.ended_at ? duration(run.duration_seconds, true) : <Ago at={run.started_at} />,
  ...by(run),
  causeOf(run),
  copyOf("nodes", run.node_uuid, "runs", run.uuid),
];

export const RUN_HEAD = ["Verb", "Result", "Begun", "Took", "By", "Process", "Error", COPY];
