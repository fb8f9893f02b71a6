/** The steps that a verb takes: ready choices, steps of the node, a runbook; JSON for experts. */
import { useState } from "preact/hooks";
import { VERBS } from "../facts";
import { path } from "../state/route";
import { parsed } from "../wire/api";
import { type Json } from "../wire/json";
import { Select, typed } from "./fields";
import { useDocument } from "./read";
import { bdi } from "./text";
import { stepName, visible } from "./words";

/** Lists of steps that verbs take. */
const STEPS: Record<string, string> = {
  clean: "clean_steps",
  service: "service_steps",
  active: "deploy_steps",
  rebuild: "deploy_steps",
};

/** Choices of a clean that need no knowledge of steps. */
const READY = [
  ["Erase all disks", { interface: "deploy", step: "erase_devices" }],
  ["Erase metadata only", { interface: "deploy", step: "erase_devices_metadata" }],
] as const;

/** @returns what is to be chosen first; "" for nothing */
export function missing(target: string, options: Json): string {
  if (options[STEPS[target] ?? ""] === null) return "Correct the steps.";
  const needs = VERBS.find((row) => row.target === target)?.needs ?? [];
  const chosen = needs.some((name) => options[name]?.length);
  if (!needs.length || chosen) return "";
  return needs.includes("runbook") ? "Add at least one step, or choose a runbook." : "Enter a password.";
}

/**
 * The steps of a verb.
 * @param props `onChange` gets the part of the request's body with the list or the runbook
 */
export function StepsField({
  node,
  target,
  onChange,
}: {
  node?: string | undefined;
  target: string;
  onChange: (body: Json) => void;
}) {
  const name = STEPS[target];
  const [text, setText] = useState("");
  const [runbook, setRunbook] = useState("");
  const listed = name === "clean_steps" && node;
  const { body } = useDocument(listed ? `${path("nodes", node)}/cleaning/steps` : null);
  const books = useDocument(name && name !== "deploy_steps" ? "/v1/runbooks" : null).body?.runbooks ?? [];
  const read = parsed(text);
  if (!name) return null;
  const put = (value: string) => {
    setText(value);
    setRunbook("");
    const list = parsed(value);
    onChange(list === undefined ? {} : { [name]: list });
  };
  const chosen: Json[] = Array.isArray(read) ? read : [];
  const putList = (list: Json[]) =>
    put(list.length ? `[${list.map((step) => JSON.stringify(step)).join(",\n ")}]` : "");
  const add = (step: Json) => putList([...chosen, step]);
  const known: Json[] = Array.isArray(body) ? body : []; // 202: none is known yet
  const pick = ({ target: list }: any) => {
    const step = known[list.selectedIndex - 1];
    list.selectedIndex = 0;
    if (step) add(request(step));
  };
  const choose = (book: string) => {
    setText("");
    setRunbook(book);
    onChange(book ? { runbook: book } : {});
  };
  return (
    <>
      <div class="actions">
        {target === "clean" &&
          READY.map(([label, step]) => (
            <button type="button" onClick={() => add(step)}>
              {label}
            </button>
          ))}
        {known.length > 0 && (
          <label>
            Add a step{" "}
            <select onChange={pick}>
              <option value="">choose…</option>
              {known.map((step) => (
                <option>{stepName(step)}</option>
              ))}
            </select>
          </label>
        )}
        {books.length > 0 && (
          <Select
            label="Runbook"
            value={runbook}
            onChange={choose}
            choices={[["", "none"], ...books.map((book: Json) => [book.name, book.name])]}
          />
        )}
      </div>
      {chosen.length > 0 && (
        <ol class="chosen" aria-label="Chosen steps">
          {chosen.map((step, at) => (
            <li>
              {bdi(stepName(step))}{" "}
              <button
                type="button"
                class="quiet"
                aria-label={`Remove ${visible(stepName(step))}`}
                onClick={() => putList(chosen.filter((_, place) => place !== at))}
              >
                ×
              </button>
            </li>
          ))}
        </ol>
      )}
      <details>
        <summary>{name === "deploy_steps" ? "More steps" : "Steps"}, as JSON</summary>
        <textarea
          rows={4}
          spellcheck={false}
          aria-label="Steps, as JSON"
          placeholder='[{"interface": "deploy", "step": "erase_devices"}]'
          value={text}
          onInput={typed(put)}
        />
      </details>
      {read === null && (
        <span class="wrong" role="alert">
          This is not JSON.
        </span>
      )}
    </>
  );
}

/**
 * @param step that a node offers
 * @returns a request for it; null stands for a value to enter
 */
const request = ({ interface: of, step, args = [] }: Json): Json => {
  const needed = args.filter((argument: Json) => argument.required);
  const values = needed.map((argument: Json) => [argument.name, null]);
  return { interface: of, step, ...(needed.length && { args: Object.fromEntries(values) }) };
};
