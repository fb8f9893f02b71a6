/** Fields of forms: a text, a tick, a choice of one value. */
import { visible } from "./words";

/** Pass on what is typed. */
export const typed =
  (put: (value: string) => unknown) =>
  (event: any): unknown =>
    put(event.target.value);

/** An input with its label; all else is of the input, `class` is the label's. */
export const Field = ({
  label,
  class: labelClass,
  ...props
}: { label: string; class?: string } & Record<string, any>) => (
  <label class={labelClass}>
    {label} <input {...props} />
  </label>
);

/** @returns attributes of an input: that of a secret shows and keeps nothing */
export const hiding = (hidden: boolean): Record<string, any> => ({
  type: hidden ? "password" : "text",
  autocomplete: hidden ? "new-password" : "off",
  spellcheck: false,
});

export const Checkbox = ({
  label,
  on,
  onChange,
}: {
  label: string;
  on?: boolean;
  onChange: (on: boolean) => unknown;
}) => (
  <label class="block">
    <input type="checkbox" checked={on} onInput={(event) => onChange(event.currentTarget.checked)} /> {label}
  </label>
);

/** A value, or a pair of a value and its words. */
export type Option = string | readonly [string, string];

/** A choice of one value. */
export const Select = ({
  label,
  value,
  onChange,
  choices,
}: {
  label: string;
  value: string;
  onChange: (value: string) => unknown;
  choices: readonly Option[];
}) => (
  <label>
    {label}{" "}
    <select onChange={typed(onChange)}>
      {choices.map((choice) => {
        const [option, text] = typeof choice === "string" ? [choice, choice] : choice;
        return (
          <option value={option} selected={option === value}>
            {visible(text)}
          </option>
        );
      })}
    </select>
  </label>
);
