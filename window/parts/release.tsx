/** The dialog that releases machines that are only observed, a thousand at a time. */
import { useState } from "preact/hooks";
import { enter, move } from "../state/acts";
import { type Fault, sendChange } from "../wire/api";
import { type Json } from "../wire/json";
import { Checkbox, Field, Select, typed } from "./fields";
import { ActForm, useSend } from "./form";
import { type Released } from "./openers";
import { say } from "./toasts";
import { many } from "./words";

const NAMED = 5;
const TITLE = "Release of observed machines";

const CHOICES: [string, string][] = [
  ["all", "all machines"],
  ["group", "a conductor group"],
  ["nodes", "machines by name or UUID"],
];

export function Release({ observed, unread, reload }: Released) {
  const [which, setWhich] = useState("all");
  const [names, setNames] = useState("");
  const [reason, setReason] = useState("");
  const [silent, setSilent] = useState(false);
  const nodes = names.split(/[\s,]+/).filter(Boolean);
  const chosen =
    which === "all" ? { all: true } : which === "group" ? { conductor_group: names.trim() } : { nodes };
  const body = { kind: "observe", ...chosen, reason, unread: silent };
  const request = { method: "POST", path: "/v1/holds/end", body };
  const sending = useSend(request, (answer) => void goOn(request, answer.body, reload));
  const ready = !!reason && (which !== "nodes" || nodes.length > 0);
  return (
    <ActForm {...sending} title={TITLE} button="Release" ready={ready}>
      <p>
        {many(observed, "machine")} {observed === 1 ? "is" : "are"} only observed. Released machines can be
        cleaned, deployed and switched. Nothing starts by itself, except consoles that are enabled.
      </p>
      <div class="form-grid">
        <Select label="Machines" value={which} onChange={setWhich} choices={CHOICES} />
        {which !== "all" && (
          <Field
            label={which === "group" ? "Conductor group" : "Names"}
            value={names}
            onInput={typed(setNames)}
          />
        )}
        <Field label="Reason" required value={reason} onInput={typed(setReason)} />
      </div>
      <Checkbox
        label={`Also machines that have not answered${unread ? ` (${unread})` : ""}`}
        on={silent}
        onChange={setSilent}
      />
    </ActForm>
  );
}

/** Send the request again while there is more, and tell the end. */
async function goOn(request: Parameters<typeof sendChange>[0], first: Json, reload: () => void) {
  let found = first;
  let count = first.ended;
  const id = enter(TITLE, "running");
  const words = () => `${many(count, "machine")} released`;
  try {
    while (found.more && found.ended) {
      move(id, { text: `${words()}.` });
      found = (await sendChange(request)).body;
      count += found.ended;
    }
  } catch (fault) {
    end(id, `${words()}, others not: ${(fault as Fault).message}`, true);
    return reload();
  }
  const left = found.nodes.slice(0, NAMED).map(({ name, uuid }: Json) => name ?? uuid);
  const more = found.left > left.length ? ", …" : "";
  end(
    id,
    words() + (found.left ? `, ${found.left} left without an answer: ${left.join(", ")}${more}.` : "."),
    found.left > 0,
  );
  return reload();
}

function end(id: number, text: string, failed: boolean) {
  move(id, { stage: failed ? "failed" : "done", text });
  say(text, { failed });
}
