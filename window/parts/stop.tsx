/** The dialog that stops a run at its next step. */
import { useState } from "preact/hooks";
import { halfErased } from "./confirm";
import { Field, typed } from "./fields";
import { ActForm, useSend } from "./form";
import { useDocument } from "./read";
import { stepChoice } from "./retry";
import { done } from "./toasts";
import { stepName } from "./words";

/** A hold of a run is no hold of its node, which is another button. */
const WAYS = { hold: "wait there, until Go on or Abort", abort: "abort the run" };

export function Stop({ own, name, reload }: { own: string; name: string; reload?: () => void }) {
  const [how, setHow] = useState("hold");
  const [reason, setReason] = useState("");
  const [after, setAfter] = useState("");
  const run = useDocument(`${own}/runs/current`).body;
  const steps = (run?.steps ?? []).filter((step: any) => !step.ended_at);
  const body = { how, ...(after && { after: Number(after) }), ...(reason && { reason }) };
  const [now] = steps;
  const cut = how === "abort" && !after && now?.state === "waiting" && now.abortable ? stepName(now) : "";
  // The run that was read, and none that may have begun since.
  const sending = useSend({ method: "PUT", path: `${own}/runs/${run?.uuid}/stop`, body, of: own }, () => {
    void done(`Stop of the run of ${name}`, `The run of ${name} stops at its next step.`, { about: own });
    reload?.();
  });
  const title = `Stop the run of ${name}`;
  return (
    <ActForm {...sending} title={title} button={title} ready={!!run}>
      <p>{cut ? `${cut} ends at once.` : "The step under way ends first."}</p>
      {Object.entries(WAYS).map(([way, what]) => (
        <label class="block">
          <input type="radio" name="how" checked={how === way} onInput={() => setHow(way)} /> {what}
        </label>
      ))}
      {stepChoice("Stop after", "the step under way", steps, after, setAfter)}
      <Field label="Reason" class="block" onInput={typed(setReason)} />
      {halfErased(cut)}
    </ActForm>
  );
}
