/** Fields of driver_info as the driver describes them, by group. */
import { useEffect, useState } from "preact/hooks";
import { path } from "../state/route";
import { get } from "../wire/api";
import { MASK, secret } from "../wire/curl";
import { type Json, withValue } from "../wire/json";
import { Field, hiding, typed } from "./fields";

/** What `GET /v1/drivers/NAME/properties/detail` says of one key. */
export type Property = {
  group: string;
  order: number;
  required: boolean;
  secret: boolean;
  default: string | null;
  example: string | null;
  description: string;
};
export type Properties = Record<string, Property>;

/** Groups that are open at first; the others are for few machines. */
const OPEN = ["BMC"];

/** @returns names of keys in the order of the form, by group */
export function grouped(properties: Properties): [string, string[]][] {
  const names = Object.keys(properties).sort((a, b) => properties[a]!.order - properties[b]!.order);
  const groups = new Map<string, string[]>();
  for (const name of names) {
    const { group } = properties[name]!;
    groups.set(group, [...(groups.get(group) ?? []), name]);
  }
  return [...groups];
}

/** @returns the value of what was typed: keys of rehearsals take numbers, lists and objects, too */
export function valueOf(text: string, group: string): unknown {
  if (group !== "Rehearsal") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** @returns keys that the driver requires and that have no value */
export const lacking = (properties: Properties, info: Json) =>
  Object.keys(properties).filter((name) => properties[name]!.required && !info[name]);

/**
 * Read the properties of drivers, each once.
 * @returns them by driver; null: they cannot be read
 */
export function useProperties(drivers: string[]): Map<string, Properties | null> {
  const [known, setKnown] = useState(new Map<string, Properties | null>());
  useEffect(() => {
    const put = (name: string, found: Properties | null) => setKnown((old) => new Map(old).set(name, found));
    for (const name of drivers.filter((one) => !known.has(one)))
      get(path("drivers", name, "properties", "detail")).then(
        ({ body }) => put(name, body),
        () => put(name, null),
      );
  }, [drivers.join()]);
  return known;
}

/** @param value of a key as a text; that of a secret is never shown */
const textOf = (value: unknown) =>
  value === undefined || value === null || value === MASK
    ? ""
    : typeof value === "string"
      ? value
      : JSON.stringify(value);

/**
 * The fields of all groups. A secret has no value to read: an empty field leaves it as it is.
 * @param props `info`: driver_info as it is typed; `known`: as it is stored; `open`: groups that are
 *   not folded
 */
export function PropertyFields({
  properties,
  info,
  known = {},
  open = OPEN,
  onInput,
}: {
  properties: Properties;
  info: Json;
  known?: Json;
  open?: string[];
  onInput: (info: Json) => unknown;
}) {
  return (
    <>
      {grouped(properties).map(([group, names]) => (
        <details open={open.includes(group)} key={group}>
          <summary>{group}</summary>
          <div class="form-grid">
            {names.map((name) => {
              const about = properties[name]!;
              const hidden = about.secret || secret.test(name);
              const kept = hidden && known[name] ? "unchanged" : "";
              return (
                <Field
                  label={name}
                  key={name}
                  title={about.description}
                  required={about.required}
                  {...hiding(hidden)}
                  placeholder={kept || (about.example ?? about.default ?? "")}
                  value={hidden ? (info[name] ?? "") : textOf(info[name])}
                  onInput={typed((text) => onInput(withValue(info, name, valueOf(text, group) as string)))}
                />
              );
            })}
          </div>
        </details>
      ))}
    </>
  );
}
