/** Holds: what each kind blocks in plain words, the dialogs that begin and lift one, their list. */
import { useState } from "preact/hooks";
import { prefs } from "../state/settings";
import { type Json, withValue } from "../wire/json";
import { Field, Select, typed } from "./fields";
import { ActForm, useSend } from "./form";
import { type Held, openLift } from "./openers";
import { DocumentList } from "./read";
import { bdi, stamp } from "./text";
import { done } from "./toasts";
import { BLOCKS } from "./words";

/** Kinds: their label, what they block, what they still allow. The strongest is the first. */
const HOLD_KINDS: Record<string, [string, string[], string]> = {
  freeze: ["freeze: no changes", ["verbs", "power", "forget"], "abort, maintenance, changes of fields"],
  observe: [
    "observe: only look at the machine",
    ["verbs", "power", "machine", "forget"],
    "reading, and changes of fields, ports and traits",
  ],
  legal: ["legal: keep the data", ["erase", "forget"], "power changes, inspect, manage, rescue"],
  hardware: [
    "hardware: no new user",
    ["use"],
    "everything else: ERASING by clean, provide or undeploy, power changes, deletion of the node",
  ],
};

const NO_LOGIN = "no login";

const blocked = (blocks: string[]) => blocks.map((block) => BLOCKS[block] ?? block).join("; ");

/**
 * @param own path of the node
 * @returns the request of Undo, which ends a new hold
 */
export const endOf = (own: string, { uuid }: Json) => ({
  method: "DELETE",
  path: `${own}/holds/${uuid}?${new URLSearchParams({ reason: "Undone at once" })}`,
});

/** A new hold: the kind that blocks most. */
export const NEW_HOLD = { kind: "freeze", reason: "" };

export function HoldForm({ body, onChange }: { body: Json; onChange: (body: Json) => void }) {
  const zone = prefs.value.utc ? "Z" : "";
  const until = typed((at) => onChange(withValue(body, "until", at && new Date(at + zone).toISOString())));
  const [, blocks = [], allows] = HOLD_KINDS[body.kind] ?? [];
  return (
    <>
      <div class="form-grid">
        <Select
          label="Kind"
          value={body.kind}
          onChange={(kind) => onChange({ ...body, kind })}
          choices={Object.entries(HOLD_KINDS).map(([kind, [label]]) => [kind, label])}
        />
        <Field
          label="Reason"
          required
          value={body.reason}
          onInput={typed((reason) => onChange({ ...body, reason }))}
        />
        <Field label={`Until (optional${zone && ", UTC"})`} type="datetime-local" onInput={until} />
      </div>
      <p role="status">
        <strong>Blocks</strong> {blocked(blocks)}. <strong>Still allows</strong> {allows}.
      </p>
    </>
  );
}

export function HoldOne({ own, name, reload }: Held) {
  const [body, setBody] = useState(NEW_HOLD as Json);
  const sending = useSend({ method: "POST", path: `${own}/holds`, body, of: own }, (answer) => {
    reload?.();
    void done(`Hold of ${name}`, `${name} is held.`, {
      about: own,
      inverse: endOf(own, answer.body),
      tag: null, // Nobody but this act has made this hold.
      reload,
    });
  });
  const title = `Hold ${name}`;
  return (
    <ActForm {...sending} title={title} button={title} ready={!!body.reason}>
      <HoldForm body={body} onChange={setBody} />
    </ActForm>
  );
}

export function Lift({ own, name, reload, holds, chosen = holds[0]?.uuid }: Held) {
  const [uuid, setUuid] = useState(chosen);
  const [reason, setReason] = useState("");
  const hold = holds.find((other) => other.uuid === uuid) ?? {};
  const stay = holds.filter((other) => other !== hold);
  const kept = stay.flatMap((other) => other.blocks);
  if (kept.includes("verbs")) kept.push("use", "erase");
  const again = (hold.blocks ?? []).filter((block: string) => !kept.includes(block));
  const query = new URLSearchParams({ reason });
  const sending = useSend({ method: "DELETE", path: `${own}/holds/${uuid}?${query}`, of: own }, () => {
    reload?.();
    const { kind, reason: old, until } = hold;
    void done(`Lift of a hold of ${name}`, `The hold (${kind}) of ${name} is lifted.`, {
      about: own,
      inverse: { method: "POST", path: `${own}/holds`, body: { kind, reason: old, ...(until && { until }) } },
      tag: null,
      reload,
    });
  });
  const act = { ...sending, title: `Lift a hold of ${name}`, button: "Lift the hold", ready: !!reason };
  return (
    <ActForm {...act}>
      {holds.length > 1 && (
        <div class="form-grid">
          <Select
            label="Hold"
            value={uuid}
            onChange={setUuid}
            choices={holds.map((choice) => [choice.uuid, `${choice.kind}: ${choice.reason}`])}
          />
        </div>
      )}
      <p>
        ■{" "}
        <strong>
          {bdi(hold.kind)}: {bdi(hold.reason)}
        </strong>
        <br />
        Held by {bdi(hold.created_by ?? NO_LOGIN)} since {stamp(hold.created_at)}
        {hold.until ? <>, until {stamp(hold.until)}</> : ""}.
      </p>
      <p>
        {again.length > 0 && `Allowed again: ${blocked(again)}. `}
        {stay.length > 0 && (
          <>Still blocked by: {bdi(stay.map((other) => `${other.kind}: ${other.reason}`).join("; "))}. </>
        )}
        Nothing starts by itself.
      </p>
      <Field label="Reason to lift it" class="block" required value={reason} onInput={typed(setReason)} />
    </ActForm>
  );
}

/** All holds of a node. */
export function Holds({ own, why, reload, turn }: any) {
  const name = why.name ?? why.node;
  const lift = (hold: Json) => (
    <button onClick={() => openLift({ own, name, reload, holds: why.holds, chosen: hold.uuid })}>
      Lift…
    </button>
  );
  return (
    <DocumentList
      path={`${own}/holds?ended=true`}
      again={turn}
      label="Holds"
      bare
      of="holds"
      head={["Kind", "Reason", "Blocks", "Since", "Until", "By", "Lifted"]}
      row={(hold) => [
        hold.kind,
        hold.reason,
        blocked(hold.blocks),
        stamp(hold.created_at),
        stamp(hold.until),
        hold.created_by ?? NO_LOGIN,
        hold.ended_at ? lifted(hold) : lift(hold),
      ]}
    />
  );
}

/** @param hold that has ended */
const lifted = ({ ended_at, ended_by, end_reason, until }: Json) => (
  <>
    {stamp(ended_at)}
    {ended_by ? <> by {bdi(ended_by)}</> : !end_reason && until ? ", its time was over" : ""}
    {end_reason && <>: {bdi(end_reason)}</>}
  </>
);
