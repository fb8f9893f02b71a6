/** The home of the fleet from GET /v1/attention alone: what needs a person, the work, the states, the trend. */
import { useEffect, useState } from "preact/hooks";
import { STATES } from "../facts";
import { duration, timeNow } from "../state/clock";
import { pauseOf } from "../state/batches";
import { fleet } from "../state/nodes";
import { path } from "../state/route";
import { type Fault, get, may, oneAtATime } from "../wire/api";
import { type Json } from "../wire/json";
import { openCause } from "./bulk";
import { openVerb } from "./openers";
import { wrong } from "./read";
import { Ago, bdi, link, nodeLink } from "./text";
import { pauseBatch, say } from "./toasts";
import { expected, KINDS, many, OVERDUE, sum, verb, wording } from "./words";

/** Causes and batches that are shown before all are asked for: with the others 150 pixels. */
const EACH = 3;
const LOOK_MS = 500;
const EVENT_MS = 5000;
const QUIET_MS = 15_000;
/** The service keeps its answer so long, so it may lack what an event has told since. */
const KEPT_MS = 2000;
/** Smallest share of the bar, in percent, that has room for its word. */
const WORD_SHARE = 12;
const MARKS: Record<string, string> = { overdue: "◷", health: "!" };

/** @returns why its last run has failed */
export function failureOf(node: Json): string {
  const { error, code } = fleet.failed.value.get(node.uuid) ?? {};
  return error?.cause?.text ?? error?.text ?? code ?? "";
}

type Home = { body: Json | null; fault: Fault | null; at: string };

/** The document: read again 5 s after the last time if there were events, and now and then without. */
function useHome(): Home {
  const [home, setHome] = useState<Home>({ body: null, fault: null, at: "" });
  useEffect(() => {
    let at = -Infinity;
    let heard = fleet.heard.count;
    let heardAt = -Infinity;
    let allowed = false;
    let over = false;
    const reading = oneAtATime(async (abort) => {
      at = performance.now();
      try {
        const { body } = await get("/v1/attention", abort);
        if (!over) setHome({ body, fault: null, at: timeNow() });
      } catch (fault) {
        // What was read stays, with its age.
        if (!over) setHome((old) => ({ ...old, fault: fault as Fault }));
      }
    });
    const look = () => {
      const now = performance.now();
      if (heard !== fleet.heard.count) heardAt = now;
      heard = fleet.heard.count;
      if (!allowed || document.hidden || now - at < (heardAt + KEPT_MS > at ? EVENT_MS : QUIET_MS)) return;
      reading.now();
    };
    void may("baremetal:attention:get").then((found) => {
      allowed = found;
      look();
    });
    const timer = setInterval(look, LOOK_MS);
    return () => {
      over = true;
      clearInterval(timer);
      reading.stop();
    };
  }, []);
  return home;
}

/** @param props `brief`: only the numbers, until all are asked for */
export function Attention({ brief }: { brief: boolean }) {
  const [all, setAll] = useState(false);
  const { body: home, fault, at } = useHome();
  const failing = wrong(fault, "/v1/attention", at);
  if (!home) return failing;
  const now = [...home.causes.map(causeRow), ...(home.conductors ?? []).map(conductorRow)];
  const work = (home.batches ?? []).map(batchRow);
  const cut = all ? Infinity : EACH;
  const more = now.length > EACH || work.length > EACH || brief;
  return (
    <section class="attention" aria-labelledby="attention-title">
      <h2 id="attention-title" class="unseen">
        Needs attention
      </h2>
      {failing}
      {brief && !all ? (
        <p>{numbers(home)}</p>
      ) : (
        <>
          <Part title="Now" rows={now.slice(0, cut)} none="Nothing needs attention." />
          <Part title="Work" rows={work.slice(0, cut)} />
          <Fleet of={home} />
        </>
      )}
      {more && (
        <button class="quiet" onClick={() => setAll(!all)}>
          {all ? "show fewer" : `show all${brief ? "" : ` ${many(now.length + work.length, "line")}`}`}
        </button>
      )}
    </section>
  );
}

function Part({ title, rows, none }: { title: string; rows: any[]; none?: string }) {
  if (!rows.length && !none) return null;
  return (
    <div class="part">
      <h3>{title}</h3>
      {rows.length ? <ul aria-label={title}>{rows}</ul> : <p>{none}</p>}
    </div>
  );
}

const numbers = ({ needs_human: needs, causes, batches }: Json) =>
  [
    needs ? `▲ ${many(needs)} ${needs === 1 ? "needs" : "need"} a person` : "Nothing needs attention.",
    causes.length && many(causes.length, "cause"),
    batches?.length && many(batches.length, "batch").replace("batchs", "batches"),
  ]
    .filter(Boolean)
    .join(" · ");

/** A cause: how many nodes, what, which, since when, and what can be done with all of them. */
function causeRow(cause: Json) {
  const { kind, nodes, retrying, silenced, sample, text, example, verbs, usual_p90: usual } = cause;
  const target = kind === "overdue" ? "" : (verbs[0] ?? "");
  const parts = [
    retrying && `${retrying} retried by the service`,
    silenced && `${silenced} silenced`,
    usual && `usually ${duration(usual)}`,
  ].filter(Boolean);
  return (
    <li key={kind + cause.cause}>
      <span class="says" title={[example, wording(cause.do)].filter(Boolean).join("\n")}>
        <b class={kind === "health" ? "" : "danger"}>
          {MARKS[kind] ?? "▲"} {nodes} {whatOf(cause)}
        </b>
        {kind === "overdue" ? <span title={OVERDUE}> · past 3 times the usual</span> : <> · {bdi(text)}</>}
        {parts.length > 0 && <> · {parts.join(", ")}</>}
      </span>
      <span class="sample">
        {sample.map((node: Json) => (
          <>{nodeLink(node)} </>
        ))}
        {nodes > sample.length && "…"}
      </span>
      <span class="age">
        {nodes > 1 && cause.first_at && "oldest "}
        <Ago at={cause.first_at} />
      </span>
      {cause.href && (
        <a class="button" href={`#${cause.href}`}>
          Open {nodes}
        </a>
      )}
      {target && cause.href && (
        <button onClick={() => act(cause, target)}>{`${verb(target)} ${nodes}…`}</button>
      )}
    </li>
  );
}

/** @returns what has happened to the nodes of a cause */
function whatOf({ kind, verb: done, step }: Json) {
  if (kind === "fault" || kind === "health") return kind;
  const at = step ? ` at ${step}` : "";
  return bdi(kind === "overdue" ? `overdue${at}` : `${done ?? "operation"} failed${at}`);
}

/** Open the dialog of one node, or of a batch with the nodes of the cause. */
function act(cause: Json, target: string) {
  const [first] = cause.sample;
  const known = fleet.nodes.get(first?.uuid);
  if (cause.nodes === 1 && known) openVerb(known, target);
  else openCause(cause, target).catch(({ message }: Fault) => say(message, { failed: true }));
}

const conductorRow = ({ hostname, seen_at: at }: Json) => (
  <li key={hostname}>
    <span class="says">
      <b class="danger">! conductor {link(path("conductors", hostname), hostname)}</b> sends no heartbeat
    </span>
    <span class="age">
      <Ago at={at} />
    </span>
    <a class="button" href="#/v1/doctor">
      Doctor
    </a>
  </li>
);

function batchRow({ uuid, name, state, nodes, done, failed, ends_at: ends, paused_by: by }: Json) {
  const own = path("batches", uuid);
  const ended = done + failed;
  const paused = state === "paused";
  return (
    <li key={uuid}>
      <span class="says">
        {link(own, name ?? `batch of ${many(nodes)}`)}{" "}
        <progress aria-label={`Ended nodes of ${name ?? uuid}`} max={nodes} value={ended} /> {ended}/{nodes}
        {failed > 0 && <b class="danger"> ▲{failed}</b>}
        {paused && <b class="held-mark"> ■ paused {bdi(pauseOf({ paused_by: by }))}</b>}
        {ends && ` · ${expected({ ends_at: ends }, true)}`}
      </span>
      {state === "running" && <button onClick={() => pauseBatch(own)}>Pause</button>}
    </li>
  );
}

/** All nodes by state as one bar, the silenced ones, and the failures of a day. */
function Fleet({ of: { fleet: states, of: all, silenced, failures } }: { of: Json }) {
  const found = Object.entries(states as Record<string, number>);
  const words = found.map(([state, count]) => `${state} ${count}`);
  const quiet = Object.entries(silenced as Record<string, number>).filter(([, count]) => count);
  const failed: number[] = failures.counts;
  const most = Math.max(1, ...failed);
  const total = sum(failed);
  return (
    <div class="part">
      <h3>Fleet</h3>
      <div class="fleet-line">
        <span class="fleet-bar" role="img" aria-label={`Nodes by state: ${words.join(", ")}`}>
          {found.map(([state, count]) => {
            const share = (100 * count) / Math.max(1, all);
            const kind = STATES[state] ?? "stable";
            return (
              <span class={`state ${kind}`} style={{ flexGrow: count }} title={`${state} ${count}`}>
                {share >= WORD_SHARE && `${KINDS[kind]} ${state} ${count}`}
              </span>
            );
          })}
        </span>
        {quiet.length > 0 && (
          <span class="small">{`silenced: ${quiet.map(([why, count]) => `${count} ${why}`).join(", ")}`}</span>
        )}
        <span class="small">{many(total, "failure")} in 24 h</span>
        <svg
          class="trend"
          viewBox="0 0 96 20"
          role="img"
          aria-label={`Failed runs of the last 24 hours, hour by hour: ${failed.join(", ")}`}
        >
          {failed.map((count, hour) => {
            const height = count ? Math.max(2, (20 * count) / most) : 1;
            return <rect x={hour * 4} y={20 - height} width="3" height={height} />;
          })}
        </svg>
      </div>
    </div>
  );
}
