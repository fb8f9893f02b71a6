/** The options of a retry: where it begins, what it leaves out, what it repeats in doubt. */
import { useState } from "preact/hooks";
import { path } from "../state/route";
import { type Json } from "../wire/json";
import { Checkbox, Field, type Option, Select, typed } from "./fields";
import { useDocument } from "./read";
import { stepName } from "./words";

export function RetryOptions({ node, onChange }: { node: Json; onChange: (body: Json) => void }) {
  const own = path("nodes", node.uuid);
  const why = useDocument(`${own}/why`);
  const run = useDocument(why.body?.run ? `${own}/runs/${why.body.run.uuid}` : null);
  const [retry, setRetry] = useState({ from: "", waive: "", reason: "", force: false });
  const put = (more: Partial<typeof retry>) => {
    const next = { ...retry, ...more };
    setRetry(next);
    onChange(body(next));
  };
  const steps: Json[] = run.body?.steps ?? [];
  const stopped = steps.findIndex((step) => step.state === "failed" || step.state === "aborted");
  return (
    <details>
      <summary>Begin earlier, or leave a step out</summary>
      <div class="form-grid">
        {stepChoice(
          "Begin with",
          "the step that failed",
          steps.slice(0, Math.max(0, stopped)),
          retry.from,
          (from) => put({ from }),
        )}
        {stepChoice("Leave out", "no step", steps.slice(Math.max(0, stopped)), retry.waive, (waive) =>
          put({ waive }),
        )}
        {retry.waive && <Field label="Reason" required onInput={typed((reason) => put({ reason }))} />}
      </div>
      <Checkbox
        label="Repeat a step although it may have ended on the machine."
        onChange={(force) => put({ force })}
      />
    </details>
  );
}

function body({
  from,
  waive,
  reason,
  force,
}: {
  from: string;
  waive: string;
  reason: string;
  force: boolean;
}): Json {
  const retry = {
    ...(from && { from: Number(from) }),
    ...(waive && { waive: [{ ordinal: Number(waive), reason }] }),
    ...(force && { force }),
  };
  return Object.keys(retry).length ? { retry } : {};
}

/**
 * A choice of one step, or of none.
 * @param chosen its ordinal
 */
export const stepChoice = (
  label: string,
  none: string,
  steps: Json[],
  chosen: string,
  put: (ordinal: string) => void,
) => (
  <Select
    label={label}
    value={chosen}
    onChange={put}
    choices={[
      ["", none],
      ...steps.map((step): Option => [String(step.ordinal), `${step.ordinal + 1} ${stepName(step)}`]),
    ]}
  />
);
