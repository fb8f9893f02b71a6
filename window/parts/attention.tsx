/** What needs somebody: failed, overdue and held nodes, paused batches, and conductors that are down. */
import { useEffect, useRef, useState } from "preact/hooks";
import { fleet, kindOf } from "../state/nodes";
import { href, path } from "../state/route";
import { get, may, passing } from "../wire/api";
import { type Json } from "../wire/json";
import { openLift, openStop, openVerb } from "./openers";
import { useDocument } from "./read";
import { advice, Ago, bdi, link, nodeAddress, nodeLink, State } from "./text";
import { batchTitle, FAILED_STATES, many, nameOf, OVERDUE, stopOf, sum, verb, wording } from "./words";

const EACH = 5;
/** Failed nodes whose `why` is read to find those that need a person. */
const MOST_WHYS = 50;
const READ_MS = 30000;
const REPEAT_MS = 5000;

/** @returns why its last run has failed */
export function failureOf(node: Json): string {
  const { error, code } = fleet.failed.value.get(node.uuid) ?? {};
  return error?.cause?.text ?? error?.text ?? code ?? "";
}

/** @param props `brief`: only the counts, until all are asked for */
export function Attention({ brief }: { brief: boolean }) {
  const [all, setAll] = useState(false);
  const down = useRead("baremetal:conductor:get", "/v1/conductors", "conductors").filter(
    (conductor) => !conductor.alive,
  );
  const paused = useRead(
    "baremetal:batch:list",
    "/v1/batches?state=paused&fields=uuid,name,waves,request,paused_by",
    "batches",
  );
  void fleet.slowTick.value;
  const failedHere = nodesWhere((node) => kindOf(node) === "fail");
  const overdueHere = nodesWhere((node) => fleet.overdue.value.has(node.uuid));
  const heldHere = nodesWhere(
    (node) => fleet.holds.value.has(node.uuid),
    (node) => fleet.holds.value.get(node.uuid)?.[0].created_at,
  );
  const cut = all ? Infinity : brief ? 0 : EACH;
  const whys = useRef(new Map()).current as Map<string, Json>;
  const whyOf = (node: Json) => whys.get(momentOf(node));
  const failedRows: Json[] = [];
  const retriedRows: Json[] = [];
  for (const node of failedHere.slice(0, all ? cut : MOST_WHYS)) {
    if (failedRows.length >= cut) break;
    (whyOf(node)?.waits_for?.what === "retry" ? retriedRows : failedRows).push(node);
  }
  const overdueRows = overdueHere.slice(0, cut);
  useWhys(whys, [...failedRows, ...retriedRows, ...overdueRows]);
  // Numbers of the whole fleet, also when only some of its nodes are held here.
  const counted = fleet.counts.value;
  const failed = counted ? sum(FAILED_STATES.map((state) => counted.get(state) ?? 0)) : failedHere.length;
  const overdue = fleet.overdue.value.size;
  const held = fleet.holds.value.size;
  const counts = [
    failed && (
      <>
        <a href={href("/v1/nodes", { provision_state: FAILED_STATES.join() })}>▲ {failed} failed</a>{" "}
      </>
    ),
    overdue && (
      <>
        <a href="#/v1/runs?overdue=true">◷ {overdue} overdue</a>{" "}
      </>
    ),
    held && (
      <>
        <a href="#/v1/nodes?held=true">■ {held} held</a>{" "}
      </>
    ),
    paused.length && (
      <>
        <a href="#/v1/batches">■ {paused.length} paused</a>{" "}
      </>
    ),
    down.length && <a href="#/v1/doctor">! {many(down.length, "conductor")} down</a>,
  ].filter(Boolean);
  if (!counts.length) return <p class="attention none">Nothing needs attention.</p>;
  const rowOf = (node: Json) => failedRow(node, whyOf(node));
  const groups = [
    [
      "Needs a person",
      [
        ...overdueRows.map((node) => overdueRow(node, whyOf(node))),
        ...failedRows.map(rowOf),
        ...paused.map((batch) => (
          <li>
            {link(path("batches", batch.uuid), batchTitle(batch))}
            <span class="says">■ This batch is paused: {bdi(batch.paused_by)}.</span>
          </li>
        )),
        ...down.map((conductor) => (
          <li>
            {link(path("conductors", conductor.hostname), conductor.hostname)}
            <span class="says">! This conductor gives no sign of life.</span>
            <a class="button" href="#/v1/doctor">
              Doctor
            </a>
          </li>
        )),
      ],
    ],
    ["Goes on by itself", retriedRows.slice(0, cut).map(rowOf)],
    ["Held", heldHere.slice(0, cut).map(heldRow)],
  ] as [string, any[]][];
  return (
    <section class="attention" aria-labelledby="attention-title">
      <h2 id="attention-title">Needs attention</h2>
      <span class="counts">{counts}</span>
      {(brief || Math.max(failedHere.length, overdueHere.length, heldHere.length) > EACH) && (
        <button class="quiet" onClick={() => setAll(!all)}>
          {all ? "show fewer" : "show all"}
        </button>
      )}
      {(all || !brief) && (
        <div>
          {overdueRows.length > 0 && <p class="small">{OVERDUE}</p>}
          {groups.map(
            ([title, rows]) =>
              rows.length > 0 && (
                <>
                  <h3>{title}</h3>
                  <ul aria-label={title}>{rows}</ul>
                </>
              ),
          )}
        </div>
      )}
    </section>
  );
}

/** @param at a time; the newest is the first */
function nodesWhere(
  accepts: (node: Json) => boolean,
  at: (node: Json) => string = (node) => node.provision_updated_at,
) {
  return [...fleet.nodes.values()].filter(accepts).sort((a, b) => String(at(b)).localeCompare(String(at(a))));
}

/** @returns a list, read now and then */
function useRead(rule: string, from: string, name: string): Json[] {
  const [allowed, setAllowed] = useState(false);
  useEffect(() => void may(rule).then(setAllowed), []);
  return useDocument(allowed ? from : null, { each: READ_MS }).body?.[name] ?? [];
}

/** @returns what one `why` is of: a node in a state, at a step, with its holds */
const momentOf = ({ uuid, provision_state: state, provision_updated_at: at, maintenance }: Json): string =>
  [
    uuid,
    state,
    at,
    maintenance,
    stopOf(fleet.under.value.get(uuid)),
    fleet.under.value.get(uuid)?.place?.ordinal,
    fleet.holds.value.get(uuid)?.length,
  ].join();

/**
 * Read the `why` of nodes once for each state and step that they come to, and forget those of others.
 * @param whys by moment; empty while it is read
 */
function useWhys(whys: Map<string, Json>, nodes: Json[]) {
  const [, draw] = useState({});
  const moments = new Set(nodes.map(momentOf));
  useEffect(() => () => whys.clear(), []);
  useEffect(() => {
    for (const moment of whys.keys()) if (!moments.has(moment)) whys.delete(moment);
    for (const moment of moments) {
      /** @param known what is known, unless another has taken its place */
      const read = (known: Json) => {
        if (whys.get(moment) !== known) return;
        if (known.says && document.hidden) return void setTimeout(read, READ_MS, known);
        get(path("nodes", moment.slice(0, 36), "why")).then(
          ({ body }) => {
            if (whys.get(moment) === known) whys.set(moment, body);
            draw({});
            // The service may give a retry up without an event.
            if (body.waits_for?.what === "retry") setTimeout(read, READ_MS, body);
          },
          (fault) => passing(fault) && setTimeout(read, REPEAT_MS, known),
        );
      };
      if (whys.has(moment)) continue;
      const none = {};
      whys.set(moment, none);
      read(none);
    }
  });
}

/** A node that needs somebody: its state, why, since when, the act to use. */
const row = (
  node: Json,
  at: string | undefined,
  mark: any,
  says: string,
  why: Json | undefined,
  label: any,
  act: () => void,
) => (
  <li key={node.uuid}>
    {nodeLink(node)} <State state={node.provision_state} />
    <span class="says" title={says}>
      {mark} {bdi(says)} <b>{stopOf(fleet.under.value.get(node.uuid))}</b> {advice(why)}
    </span>{" "}
    <Ago at={at} />
    {label && <button onClick={act}>{label}…</button>}
    <a class="button" href={nodeAddress(node)}>
      Why
    </a>
  </li>
);

/** @returns the first of these verbs that is possible */
const possible = (why: Json | undefined, ...wanted: string[]): string =>
  wanted.find((target) => why?.verbs?.some((choice: Json) => choice.target === target && !choice.refused)) ??
  "";

function failedRow(node: Json, why: Json | undefined) {
  // Another verb could lose an instance.
  const target = possible(why, "retry", why?.run?.verb, "manage");
  const says = why?.says ? wording(why.says) : failureOf(node);
  return row(node, node.provision_updated_at, "", says, why, target && verb(target), () =>
    openVerb(node, target),
  );
}

function overdueRow(node: Json, why: Json | undefined) {
  // A stop waits for the end of the step.
  const abort = possible(why, "abort");
  return row(
    node,
    node.provision_updated_at,
    <b>◷ Overdue</b>,
    wording(why?.says),
    why,
    why?.run && verb(abort || "stop"),
    () => (abort ? openVerb(node, abort) : openStop({ own: path("nodes", node.uuid), name: nameOf(node) })),
  );
}

function heldRow(node: Json) {
  const holds = fleet.holds.value.get(node.uuid) ?? [];
  const says = holds.map((hold) => `${hold.kind}: ${hold.reason}`).join("; ");
  return row(node, holds[0]?.created_at, <b class="held-mark">■ HELD</b>, says, undefined, "Lift hold", () =>
    openLift({ own: path("nodes", node.uuid), name: nameOf(node), holds }),
  );
}
