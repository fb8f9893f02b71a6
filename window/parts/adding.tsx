/** The form that adds an entry of a kind, such as a webhook. */
import { useState } from "preact/hooks";
import { go, href, path } from "../state/route";
import { type Json } from "../wire/json";
import { show } from "./dialog";
import { Field, type Option, Select, typed } from "./fields";
import { ActForm, useSend } from "./form";
import { copy, say } from "./toasts";

/** A field of the form. */
export type Input = {
  /** of the field of the API */
  name: string;
  label: string;
  /** words with blanks or commas between them */
  list?: boolean;
  /** the first is the default */
  choices?: readonly Option[];
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
    say(`The ${title} is added.`);
    if (made.secret) show(() => <Secret of={title} secret={made.secret} />);
  });
  const put = (input: Input, text: string) => {
    const { [input.name]: _, ...rest } = body;
    const value = input.list ? text.split(/[\s,]+/).filter(Boolean) : text.trim();
    setBody(value.length ? { ...rest, [input.name]: value } : rest);
  };
  const ready = inputs.every(({ name, required }) => !required || body[name]);
  return (
    <ActForm {...sending} title={`Add a ${title}`} button={`Add the ${title}`} ready={ready}>
      <div class="form-grid">
        {inputs.map((input) => {
          const { name, label, list, choices, ...more } = input;
          const [first] = choices ?? [];
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
    </ActForm>
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
