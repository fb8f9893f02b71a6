/** Rows of the table of machines that are enrolled, with what each does, and its acts. */
import { type Signal } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Enrolling, type Machine } from "../state/enrolling";
import { ofBmc } from "../state/machine";
import { href, path } from "../state/route";
import { type Field as Kind, type Goal, GOALS, type Values } from "../state/sheet";
import { withoutSecrets } from "../wire/curl";
import { hiding, typed } from "./fields";
import { bdi, Result, State } from "./text";
import { visible } from "./words";

const HIDDEN = "••••••";
/** Words of the checks that a row shows even if they are ok. */
const CHECKS: Record<string, string> = { bmc_tls: "TLS", bmc_login: "login", power: "power" };

/** What has the focus after a press: a field, the way back from a question, or an act. */
const NEXT = ["td > input", '[aria-label$=": Back"]', '[aria-label$=": Correct"]', ".actions button"];

export function Rows({
  work,
  rows,
  fields,
  columns,
}: {
  work: Enrolling;
  rows: Signal<Machine>[];
  fields: Kind[];
  columns: string[];
}) {
  // `address` instead of `redfish_address`: a row of another driver has its own in this column.
  const prefix = /^[a-z]+_/.exec(fields.find(({ required }) => required)?.name ?? "")?.[0] ?? "";
  const shown = fields
    .filter(({ name }) => columns.includes(name) && name !== "goal")
    .map((field) => ({ ...field, label: field.label.replace(prefix, "") }));
  return (
    <div class="scroll" tabindex={0} role="region" aria-label="Machines">
      <table>
        <thead>
          <tr>
            {["Row", ...shown.map(({ label }) => label), "How far", "Checks", "State", ""].map((title) => (
              <th scope="col">{title || <span class="unseen">Acts</span>}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <Row key={row.peek().uuid} work={work} row={row} number={at + 1} fields={shown} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({
  work,
  row,
  number,
  fields,
}: {
  work: Enrolling;
  row: Signal<Machine>;
  number: number;
  fields: Kind[];
}) {
  const machine = row.value;
  const { values, stage, goal, text, checks, state, made, tried, uuid } = machine;
  const fixed = ["busy", "cleaning", "waiting", "discarded"].includes(stage);
  const [held, setTyping] = useState(null as Values | null);
  const typing = fixed ? null : held;
  // A node is deleted after one question.
  const [asks, setAsks] = useState(false);
  const element = useRef(null as HTMLTableRowElement | null);
  const pressed = useRef(false);
  // A button that goes when it is pressed takes the focus with it.
  useLayoutEffect(() => {
    const tr = element.current;
    const lost = pressed.current && document.activeElement?.contains(tr);
    pressed.current = false;
    if (!tr || !lost) return;
    const next = NEXT.map((one) => tr.querySelector<HTMLElement>(one)).find(Boolean);
    (next ?? tr.closest<HTMLElement>("[tabindex]"))?.focus();
  });
  const save = () => {
    pressed.current = true;
    setTyping(null);
    work.correct(row, typing ?? {});
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // It would begin all rows.
    save();
  };
  const wrong = stage === "failed" || stage === "wrong";
  const correct = { label: "Correct", does: () => setTyping(values) };
  const discard = { label: "Discard", does: () => (tried || made ? setAsks(true) : void work.discard(row)) };
  const gone = { label: "Delete the node", does: () => (setAsks(false), void work.discard(row)) };
  const back = { label: "Back", does: () => (setAsks(false), setTyping(null)) };
  const keep = { label: "Keep", does: save };
  const again = { label: "Try again", does: () => work.again(row) };
  const leave = {
    label: "Leave out",
    does: () => (work.put(row, { stage: "left", text: "" }), work.judge()),
  };
  const take = { label: "Take in", does: () => (work.put(row, { stage: "ready", text: "" }), work.judge()) };
  const anyway = { label: "Enroll anyway", does: () => (work.put(row, { allowed: true }), work.judge()) };
  const exists = stage === "wrong" && text.endsWith(" has this BMC.");
  const acts: Partial<Record<Machine["stage"], (typeof correct)[]>> = {
    ready: tried ? [again, correct, discard] : [correct, leave],
    wrong: [correct, ...(exists ? [anyway] : []), leave],
    left: [take],
    failed: [again, correct, discard],
  };
  const own = acts[stage] ?? [];
  const shown = typing ? [keep, back] : asks && own.includes(discard) ? [gone, back] : own;
  const label = `Row ${number}`;
  /** A value without the password that an address may have. */
  const open = (name: string) => withoutSecrets(values[name], name, () => HIDDEN);
  return (
    <>
      <tr data-stage={stage} ref={element}>
        <td data-label="Row">
          {made ? (
            <a href={href(path("nodes", uuid))} target="_blank" rel="noopener">
              {number}
            </a>
          ) : (
            String(number)
          )}
        </td>
        {fields.map(({ name, label: title, secret: hidden }) => (
          <td data-label={title}>
            {typing ? (
              <input
                aria-label={`${label}: ${title}`}
                {...hiding(hidden || open(name) !== values[name])}
                value={typing[name] ?? ""}
                onKeyDown={onKey}
                onInput={typed((value) => setTyping({ ...typing, [name]: value }))}
              />
            ) : hidden ? (
              values[name] && HIDDEN
            ) : (
              values[name] && bdi(open(name))
            )}
          </td>
        ))}
        <td data-label="How far">
          {fixed ? (
            goal
          ) : (
            <select
              aria-label={`${label}: how far`}
              onChange={typed((next) => work.aim(row, next as Goal, true))}
            >
              {GOALS.map((name) => (
                <option value={name} selected={name === goal}>
                  {name}
                </option>
              ))}
            </select>
          )}
        </td>
        <td data-label="Checks">
          {checks
            .filter((check) => CHECKS[check.name] || (check.status === "failed" && ofBmc(check)))
            .map(({ name, status, text: says }) => (
              <span class="check" title={visible(says)}>
                <Result result={status} word={false} /> {CHECKS[name] ?? name}{" "}
              </span>
            ))}
        </td>
        <td data-label="State">
          {wrong ? (
            <Result result="failed" word={false} />
          ) : (
            stage === "done" && <Result result="done" word={false} />
          )}{" "}
          {state ? (
            <State state={state} />
          ) : (
            ["ready", "left", "waiting", "discarded"].includes(stage) && STAGES[stage]
          )}{" "}
          {text && !wrong && <span class="small">{bdi(text)}</span>}
        </td>
        <td>
          <div class="actions" onClickCapture={() => (pressed.current = true)}>
            {shown.map(({ label: word, does }) => (
              <button key={word} type="button" onClick={does} aria-label={`${label}: ${word}`}>
                {word}
              </button>
            ))}
          </div>
        </td>
      </tr>
      {wrong && text && (
        <tr class="why">
          <td colSpan={fields.length + 5}>
            <span class="wrong">{bdi(text)}</span>
          </td>
        </tr>
      )}
    </>
  );
}

const STAGES: Record<string, string> = {
  ready: "ready",
  left: "left out",
  waiting: "waits for its turn",
  discarded: "discarded",
};
