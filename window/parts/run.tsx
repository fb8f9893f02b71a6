/** A run: its steps, its log, and the states around its node. */
import { VERBS } from "../facts";
import { duration, now, since } from "../state/clock";
import { href, path } from "../state/route";
import { type Json } from "../wire/json";
import { COPY, copyOf, useDocument } from "./read";
import { Ago, bdi, link, Result, stamp, State } from "./text";
import { causeOf, ERASING, expected, OVERDUE, stepName, verb, VERB_HINTS } from "./words";

const LONGEST_BAR = 40;

/** @param props `why` of the node, for what the run waits for */
export function Timeline({ run, why }: { run: Json; why?: Json | null }) {
  const steps = run.steps ?? [];
  const longest = Math.max(1, ...steps.map(seconds));
  const earlier = useDocument(
    run.retry_of && run.state === "failed" ? path("runs", run.retry_of) : null,
  ).body;
  return (
    <div class="run">
      <p class="run-head">
        <Result result={run.state} /> <strong>{bdi(verb(run.verb))}</strong>
        {run.requester && <> · {bdi(run.requester)}</>}
        {" · "}
        {run.ended_at ? (
          <>
            {duration((Date.parse(run.ended_at) - Date.parse(run.started_at)) / 1000)}, ended{" "}
            <Ago at={run.ended_at} ago />
          </>
        ) : (
          <>
            for <Ago at={run.started_at} />
          </>
        )}
        {run.eta && !steps.some((step: Json) => step.overdue) && <> · {expected(run.eta)}</>}
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
      <ol class="steps" aria-label="Steps">
        {steps.map((step: Json) => (
          <Step
            key={step.ordinal}
            step={step}
            longest={longest}
            own={path("nodes", run.node_uuid, "runs", run.uuid)}
          />
        ))}
      </ol>
      {why?.waits_for && <Waits waits={why.waits_for} />}
    </div>
  );
}

const seconds = (step: Json): number =>
  step.ended_at || !step.started_at ? (step.duration_seconds ?? 0) : since(step.started_at);

/** @param props `own`: path of the run */
function Step({ step, longest, own }: { step: Json; longest: number; own: string }) {
  const state = step.done_in ? "kept" : step.waiver ? "waived" : step.state;
  const took = seconds(step);
  const width = { width: `${Math.max(0.3, (took / longest) * LONGEST_BAR)}%` };
  const usual = step.usual_seconds;
  return (
    <li class={state} id={`step-${step.ordinal}`}>
      <Result result={state} word={false} />
      <span class="step">{bdi(stepName(step))}</span>
      {step.done_in ? (
        <a href={href(path("runs", step.done_in))}>done in an earlier run</a>
      ) : step.started_at ? (
        <span class="bar-frame">
          <span class="bar-of-time" style={width} /> {duration(took)}
        </span>
      ) : (
        <span>not reached</span>
      )}
      {step.attempt > 1 ? <span>attempt {step.attempt}</span> : ""}
      {step.overdue && <span class="danger">◷ overdue</span>}
      {usual && <span class="small usual">usual {duration(usual.p50)}</span>}
      {step.overdue && <p class="small">{OVERDUE}</p>}
      {step.waiver && <p class="small">waived: {bdi(step.waiver.reason ?? step.waiver)}</p>}
      {step.ended_at && ERASING.test(step.step) && (
        <a href={`#${own.replace(/runs.*/, "erasures")}`}>erasures</a>
      )}
      {step.error && (
        <Cause error={step.error} log={href(`${own}/log`, {}, { line: step.ended_at ?? step.started_at })} />
      )}
    </li>
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
    <p class="waits">
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

// -- The states around a node: where it stands, and what each offered verb leads to.

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
    <>
      <ol class="machine" aria-label="States">
        {places.map((place) => (
          <li aria-current={place === state ? "step" : undefined}>
            <State state={place} />
          </li>
        ))}
      </ol>
      <ul class="machine" aria-label="Verbs">
        {why.verbs.map((choice: Json) =>
          choice.refused ? (
            ""
          ) : (
            <li>
              <strong>{verb(choice.target)}</strong> → {choice.leads_to}: {VERB_HINTS[choice.target]}
            </li>
          ),
        )}
      </ul>
    </>
  );
}

export const runRow = (run: Json) => [
  link(path("nodes", run.node_uuid, "runs", run.uuid), verb(run.verb) + (run.retry_of ? ", retry" : "")),
  <Result result={run.state} />,
  stamp(run.started_at),
  run.duration_seconds == null ? <Ago at={run.started_at} /> : duration(run.duration_seconds),
  run.requester,
  causeOf(run),
  copyOf("nodes", run.node_uuid, "runs", run.uuid),
];

export const RUN_HEAD = ["Verb", "Result", "Begun", "Took", "By", "Error", COPY];
