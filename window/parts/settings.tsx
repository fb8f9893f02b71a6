/** The settings of a node as a form; the patch that it makes is reviewed before it is sent. */
import { useState } from "preact/hooks";
import { path } from "../state/route";
import { MASK } from "../wire/curl";
import { type Json } from "../wire/json";
import { Checkbox, Field, typed } from "./fields";
import { ActForm, useSend } from "./form";
import { PropertyFields } from "./properties";
import { Skeleton, useDocument } from "./read";
import { changed, Review } from "./review";
import { done } from "./toasts";
import { many, nameOf } from "./words";

const PLACEMENT: Record<string, string> = {
  resource_class: "Resource class",
  owner: "Owner",
  lessee: "Lessee",
  description: "Description",
};
const LIFE: Record<string, string> = { retired: "Retired", protected: "Protected" };

const escaped = (name: string) => name.replaceAll("~", "~0").replaceAll("/", "~1");

/** @returns the values of a node that the form shows: secrets have none */
export const readable = (info: Json): Json =>
  Object.fromEntries(Object.entries(info).filter(([, value]) => value !== MASK));

/**
 * @param now the values of a form
 * @returns the operations that make the fields below `at` like the form
 */
export function operations(at: string, before: Json, now: Json): Json[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(now)])];
  return names.flatMap((name) => {
    const pointer = `${at}/${escaped(name)}`;
    const [old, value] = [before[name] ?? "", now[name] ?? ""];
    if (JSON.stringify(old) === JSON.stringify(value)) return [];
    return value === "" ? { op: "remove", path: pointer } : { op: "add", path: pointer, value };
  });
}

export function Settings({ own, reload }: { own: string; reload: () => void }) {
  const [seen] = useState(own);
  const node = useDocument(seen);
  if (!node.body)
    return (
      <ActForm title="Settings" fault={node.fault}>
        {!node.fault && <Skeleton />}
      </ActForm>
    );
  return <SettingsForm node={node.body} tag={node.tag} own={own} reload={reload} />;
}

function SettingsForm({
  node,
  tag,
  own,
  reload,
}: {
  node: Json;
  tag: string;
  own: string;
  reload: () => void;
}) {
  const known = readable(node.driver_info ?? {});
  const names = [...Object.keys(PLACEMENT), ...Object.keys(LIFE), "retired_reason", "protected_reason"];
  const before = Object.fromEntries(names.map((name) => [name, node[name] ?? ""]));
  const [fields, setFields] = useState(before as Json);
  const [info, setInfo] = useState(known as Json);
  const [reviewed, setReviewed] = useState(false);
  const properties = useDocument(path("drivers", node.driver, "properties", "detail"));
  const patch = [...operations("", before, fields), ...operations("/driver_info", known, info)];
  const sending = useSend(
    { method: "PATCH", path: own, body: patch, of: own, seen: { body: node, tag } },
    (answer, before) => {
      reload();
      const act = changed(before ?? node, patch, answer, reload);
      void done(`Settings of ${nameOf(node)}`, "The node is changed.", act);
    },
  );
  const set = (name: string) => (value: unknown) => setFields({ ...fields, [name]: value });
  const act = {
    ...sending,
    title: `Settings of ${nameOf(node)}`,
    fault: sending.fault ?? properties.fault,
    ready: patch.length > 0,
    button: reviewed ? "Save" : `Review ${many(patch.length, "change")}`,
    send: reviewed ? sending.send : () => setReviewed(true),
    more: reviewed && (
      <button type="button" onClick={() => setReviewed(false)}>
        Back
      </button>
    ),
  };
  if (reviewed)
    return (
      <ActForm {...act}>
        <Review node={node} patch={patch} />
      </ActForm>
    );
  return (
    <ActForm {...act}>
      <div class="form-grid">
        {Object.entries(PLACEMENT).map(([name, label]) => (
          <Field
            label={label}
            key={name}
            autocomplete="off"
            value={fields[name]}
            onInput={typed(set(name))}
          />
        ))}
      </div>
      {properties.body && (
        <PropertyFields
          properties={properties.body}
          info={info}
          known={node.driver_info ?? {}}
          onInput={setInfo}
        />
      )}
      <details>
        <summary>Life</summary>
        {Object.entries(LIFE).map(([name, label]) => (
          <>
            <Checkbox label={label} on={!!fields[name]} onChange={set(name)} />
            {fields[name] && (
              <Field
                label={`Why ${name}`}
                value={fields[`${name}_reason`]}
                onInput={typed(set(`${name}_reason`))}
              />
            )}
          </>
        ))}
      </details>
    </ActForm>
  );
}
