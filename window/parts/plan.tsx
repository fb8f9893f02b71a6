/** Dialogs of runs: a verb with its plan first, the options of a retry, a stop. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { STATES } from "../facts";
import { usualTime } from "../state/clock";
import { go, path, route } from "../state/route";
import { ask, monitor } from "../wire/api";
import { type Json } from "../wire/json";
import { began, Confirm, confirmation, confirmationOfUse, halfErased } from "./confirm";
import { Field, typed } from "./fields";
import { ActForm, Changes, useSend } from "./form";
import { Instance } from "./instance";
import { Skeleton, useDocument } from "./read";
import { RetryOptions } from "./retry";
import { missing, StepsField } from "./steps";
import { bdi, nodeAddress } from "./text";
import { Curl } from "./toasts";
import { DESTROYS, many, marksOf, nameOf, stepName, verb, VERB_HINTS, visible, wording } from "./words";

/** A plan is made again when its node has changed, which is asked so often. */
const MOVES_MS = 2000;
/** Verbs that write the image to the disk. */
const INSTALLS = ["active", "rebuild"];

/** @param props `reload`: what the page shows of the node */
export function VerbDialog({
  node,
  target,
  reload,
}: {
  node: Json;
  target: string;
  reload?: (() => void) | undefined;
}) {
  const [chosen, setOptions] = useState({} as Json);
  const [drive, setDrive] = useState({} as Json);
  const [unsaved, setUnsaved] = useState(false);
  const options = { ...chosen, ...drive };
  const first =
    (unsaved ? "Save the image first." : missing(target, options)) ||
    (lacksReason(options) ? "Say why the step is left out." : "");
  const plan = usePlan(node, first ? null : { target, ...options });
  const name = nameOf(node);
  const own = path("nodes", node.uuid);
  const now = useDocument(own, { each: MOVES_MS });
  const seen = useRef(null as typeof now | null);
  if (now.body) seen.current ??= now;
  const moved = seen.current && now.body && seen.current.tag !== now.tag && now.tag === plan.tag;
  const sending = useSending(node, { target, ...options }, plan, now.reload, reload);
  useEffect(() => {
    // Not by a request of this dialog whose answer was lost: it may be sent again.
    if (now.tag && plan.tag && now.tag !== plan.tag && !sending.busy && !sending.fault) plan.again();
  }, [now.tag]);
  const aborts = target === "abort";
  const about = useDocument(`${own}/why`, { each: MOVES_MS });
  const why = about.body;
  const unerased = target === "available" && why?.data_state !== "clean";
  const cut =
    aborts && !why?.verbs.some((choice: Json) => choice.target === target && choice.after)
      ? String(why?.run?.title)
      : "";
  const kind =
    !plan.body || !(why || about.fault)
      ? null
      : unerased
        ? "name"
        : confirmationOfUse(target, node.provision_state) === "name"
          ? "use"
          : confirmation(plan.body, why);
  const [sure, setSure] = useState(false);
  // A confirmation is of the plan that was read, not of the one that took its place.
  useLayoutEffect(() => setSure(false), [plan.count, kind]);
  const ready = plan.body?.accepted && (kind === "none" || sure);
  const act = {
    ...sending,
    title: `${verb(target)} ${name}`,
    note: VERB_HINTS[target] ?? "",
    fault: sending.fault ?? plan.fault,
    ready,
    danger: !!kind && kind !== "none",
    button: plan.body?.accepted && `${verb(target)} ${name}`,
    request: { ...sending.request, path: path("nodes", name, "states", "provision") },
  };
  return (
    <ActForm {...act}>
      {node.maintenance && (
        <p>
          {bdi(name)} is in maintenance{node.maintenance_reason && <>: {bdi(node.maintenance_reason)}</>}.
        </p>
      )}
      {marksOf(now.body).map((mark) => (
        <p class="wrong">
          {bdi(name)} is {mark}.
        </p>
      ))}
      {now.body && INSTALLS.includes(target) && (
        <Instance
          node={now.body}
          tag={now.tag}
          own={own}
          reload={now.reload}
          onDrive={setDrive}
          onUnsaved={setUnsaved}
        />
      )}
      {unerased && why && (
        <p class="wrong">Its disks are not erased (data: {why.data_state}). The next user may read them.</p>
      )}
      {halfErased(cut)}
      <Arguments node={node} target={target} onChange={setOptions} />
      {first && <p role="status">{first}</p>}
      {!first && !plan.body && !plan.fault && <Skeleton rows={3} />}
      {plan.body && <Plan plan={plan.body} />}
      <Curl
        method="POST"
        path={path("nodes", name, "plan")}
        body={{ target, ...options }}
        label="plan as curl"
      />
      {plan.body?.accepted && (
        <Confirm
          kind={kind}
          name={name}
          onSure={setSure}
          key={plan.count}
          {...(unerased && { does: "leaves the data on" })}
          {...(kind === "use" && { does: "interrupts the instance on" })}
        />
      )}
      {sending.note && <p role="status">{sending.note}</p>}
      {moved && (
        <>
          <p role="status">The node has changed: this is the new plan.</p>
          <Changes seen={seen.current?.body} now={now.body} />
        </>
      )}
    </ActForm>
  );
}

/**
 * @param options of a verb
 * @returns a step is left out, and nobody has said why yet
 */
const lacksReason = ({ retry }: Json): boolean => !!retry?.waive?.some((waiver: Json) => !waiver.reason);

/** @param body null: nothing is asked */
function usePlan(node: Json, body: Json | null) {
  const none = { body: null, tag: "", fault: null, count: 0, text: "" };
  const [state, setState] = useState(none as any);
  const [turn, setTurn] = useState(0);
  const text = body ? JSON.stringify(body) : "";
  useEffect(() => {
    if (!text) {
      // A plan that was made before is not that of the same request later: its node may have changed.
      setState((old: any) => ({ ...none, count: old.count }));
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      ask("POST", path("nodes", node.uuid, "plan"), {
        body: JSON.parse(text),
        accepts: [422],
        signal: abort.signal,
      }).then(
        ({ body: found, tag }) =>
          setState((old: any) => ({
            body: found,
            tag,
            fault: null,
            count: old.count + 1,
            text,
          })),
        (fault) => !abort.signal.aborted && setState({ ...none, fault, text }),
      );
    }, 150);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text, turn]);
  // The plan of an earlier request is not shown beside the button of this one.
  const current = state.text === text ? state : { ...none, count: state.count };
  return { ...current, again: () => setTurn((last) => last + 1) };
}

/**
 * @param reload the node
 * @param onBegun its run has begun
 */
function useSending(node: Json, body: Json, plan: any, reload: () => void, onBegun?: () => void) {
  const [note, setNote] = useState("");
  const request = {
    method: "PUT",
    path: path("nodes", node.uuid, "states", "provision"),
    body,
    tag: plan.tag,
    onWait: (seconds: number, refusal: string) => setNote(waits(seconds, refusal)),
  };
  const done = ({ link }: any) => {
    const title = `${verb(body.target)} of ${nameOf(node)}`;
    const run = monitor(link);
    onBegun?.();
    showNode(node);
    void began(title, run, { about: path("nodes", node.uuid) });
  };
  const sending = useSend(request, done, (fault) => {
    setNote("");
    if (fault.status !== 412) return fault;
    plan.again();
    reload();
    return null;
  });
  return { ...sending, note };
}

/** Show what the node does; a tab that is open stays, because something may be typed there. */
function showNode(node: Json) {
  const [root, name, part, run] = route.value.parts;
  const here = root === "nodes" && [node.name, node.uuid].includes(name);
  if (!here || (part === "runs" && run)) go(nodeAddress(node));
}

/** @param refusal the refusal; of a lock it names the holder */
const waits = (seconds: number, refusal: string) =>
  `${visible(refusal)} The window tries again in ${seconds} s.`;

/** Arguments that a verb takes beside its target. */
function Arguments({ node, target, onChange }: any) {
  if (target === "retry") return <RetryOptions node={node} onChange={onChange} />;
  if (target === "rescue") return <Password onChange={onChange} />;
  return <StepsField node={node.uuid} target={target} onChange={onChange} />;
}

function Password({ onChange }: { onChange: (body: Json) => void }) {
  return (
    <Field
      label="Password of the rescue ramdisk"
      class="block"
      type="password"
      autocomplete="new-password"
      onInput={typed((rescue_password) => onChange({ rescue_password }))}
    />
  );
}

export function Plan({ plan }: { plan: Json }) {
  const goes = STATES[plan.leads_to] ? `leads to ${plan.leads_to}` : "";
  const facts = [
    usualTime(plan.seconds),
    plan.restarts ? many(plan.restarts, "restart") : "",
    plan.ramdisk ? "boots the ramdisk" : "",
    goes,
    plan.incomplete,
  ].filter(Boolean);
  return (
    <>
      <ol class="plan">
        {plan.steps.map((step: Json, at: number) => (
          <PlanStep step={step} faults={faultsOf(plan, at)} />
        ))}
      </ol>
      <p class="small">
        {facts.map((fact, at) => (
          <>
            {at ? " · " : ""}
            {bdi(fact)}
          </>
        ))}
      </p>
      {plan.faults
        .filter((fault: Json) => !/_steps\/\d+/.test(fault.path ?? ""))
        .map((fault: Json) => (
          <PlanFault fault={fault} />
        ))}
    </>
  );
}

const faultsOf = (plan: Json, at: number) =>
  plan.faults.filter((fault: Json) => new RegExp(`_steps/${at}(/|$)`).test(fault.path ?? ""));

function PlanFault({ fault }: { fault: Json }) {
  return (
    <p class="wrong">
      <span aria-hidden="true">✗</span>{" "}
      {fault.path && (
        <>
          <code>{bdi(fault.path)}</code>:{" "}
        </>
      )}
      {bdi(wording(fault.text))}
    </p>
  );
}

/** Who carries a step out. */
const BY: Record<string, string> = { bmc: "through the BMC", agent: "in the ramdisk" };

function PlanStep({ step, faults }: { step: Json; faults: Json[] }) {
  const effects = step.destroys === null ? ["effects unknown"] : step.destroys.map(word);
  const usual = step.usual_seconds;
  const times = usualTime(usual, ", 9 of 10 within ");
  return (
    <li>
      <span class="step">{bdi(stepName(step))}</span>
      <span class="small">{BY[step.by] ?? step.by}</span>
      <span class={step.destroys?.includes("data") ? "danger" : ""}>{effects.join(", ")}</span>
      <span>{step.restarts ? many(step.restarts, "restart") : ""}</span>
      <span>{times && `usually ${times} (${usual.samples} measured)`}</span>
      {faults.map((fault) => (
        <PlanFault fault={fault} />
      ))}
    </li>
  );
}

const word = (effect: string) => DESTROYS[effect] ?? effect;
