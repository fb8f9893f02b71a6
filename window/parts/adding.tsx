/** The form that adds an entry of a kind, such as a webhook. */
import { useState } from "preact/hooks";
import { go, href, path } from "../state/route";
import { parsed } from "../wire/api";
import { type Json } from "../wire/json";
import { show } from "./dialog";
import { Field, type Option, Select, typed } from "./fields";
import { ActForm, useSend } from "./form";
import { copy, done } from "./toasts";

/** A field of the form. */
export type Input = {
  /** of the field of the API */
  name: string;
  label: string;
  /** words with blanks or commas between them */
  list?: boolean;
  /** the first is the default */
  choices?: readonly Option[];
  /** steps of a node, with the name of the number that orders them */
  steps?: "order" | "priority";
  required?: boolean;
  type?: string;
  placeholder?: string;
};

/**
 * @param props `title`: the name of one of the kind; `root`: the first part of its path
 */
export function Adding({ title, root, inputs }: { title: string; root: string; inputs: Input[] }) {
  const [body, setBody] = useState<Json>({});
  const sending = useSend({ method: "POST", path: path(root), body }, ({ body: made }) => {
    go(href(path(root, made.uuid)));
    void done(`Add ${title} ${made.name ?? ""}`, `The ${title} is added.`, { about: path(root, made.uuid) });
    if (made.secret) show(() => <Secret of={title} secret={made.secret} />);
  });
  const put = (input: Input, text: string) => {
    const { [input.name]: _, ...rest } = body;
    const value = input.list ? text.split(/[\s,]+/).filter(Boolean) : text.trim();
    setBody(value.length ? { ...rest, [input.name]: value } : rest);
  };
  const putSteps = (name: string, steps: Json[]) => setBody({ ...body, [name]: steps });
  const ready = inputs.every(({ name, required }) => !required || body[name]?.length);
  return (
    <ActForm {...sending} title={`Add ${title}`} button={`Add the ${title}`} ready={ready}>
      <div class="form-grid">
        {inputs.map((input) => {
          const { name, label, list, choices, ...more } = input;
          const [first] = choices ?? [];
          if (input.steps) return null;
          return choices ? (
            <Select
              label={label}
              value={body[name] ?? (typeof first === "string" ? first : first?.[0])}
              choices={choices}
              onChange={(value) => put(input, value)}
            />
          ) : (
            <Field
              label={label}
              autocomplete="off"
              spellcheck={false}
              onInput={typed((text) => put(input, text))}
              {...more}
            />
          );
        })}
      </div>
      {inputs.map(
        ({ name, steps }) => steps && <Steps by={steps} onChange={(list) => putSteps(name, list)} />,
      )}
    </ActForm>
  );
}

const INTERFACES = ["deploy", "bios", "firmware", "management", "power", "raid", "vendor"];
const BLANK = { interface: "deploy", step: "", args: "" };

/**
 * Steps, one in each row; the API is given those with a name.
 * @param props `by`: the number that orders them
 */
function Steps({ by, onChange }: { by: "order" | "priority"; onChange: (steps: Json[]) => void }) {
  const [rows, setRows] = useState([BLANK]);
  const put = (next: (typeof BLANK)[]) => {
    setRows(next);
    const named = next.filter(({ step }) => step.trim());
    const read = named.map(({ interface: of, step, args }, at) => ({
      interface: of,
      step: step.trim(),
      args: parsed(args) ?? {},
      // The highest priority comes first.
      [by]: by === "order" ? at + 1 : 10 * (named.length - at),
    }));
    onChange(next.every(({ args }) => parsed(args) !== null) ? read : []);
  };
  const change = (at: number, part: Partial<typeof BLANK>) =>
    put(rows.map((row, place) => (place === at ? { ...row, ...part } : row)));
  return (
    <fieldset>
      <legend>Steps, in their order</legend>
      {rows.map((row, at) => (
        <div class="form-grid" role="group" aria-label={`Step ${at + 1}`}>
          <Select
            label="Interface"
            value={row.interface}
            choices={INTERFACES}
            onChange={(value) => change(at, { interface: value })}
          />
          <Field label="Step" value={row.step} onInput={typed((step) => change(at, { step }))} />
          <Field
            label="Arguments, as JSON"
            placeholder="{}"
            value={row.args}
            onInput={typed((args) => change(at, { args }))}
          />
        </div>
      ))}
      <button type="button" onClick={() => put([...rows, BLANK])}>
        One more step
      </button>
    </fieldset>
  );
}

/** A secret that the API shows this once. */
const Secret = ({ of, secret }: { of: string; secret: string }) => (
  <ActForm
    title={`Secret of the ${of}`}
    more={
      <button type="button" class="primary" onClick={() => copy(secret)}>
        Copy the secret
      </button>
    }
  >
    <p>The receiver checks the signatures of deliveries with this secret. It is not shown again.</p>
    <p>
      <code>{secret}</code>
    </p>
  </ActForm>
);
