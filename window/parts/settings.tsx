/** The settings of a node as a form of its page; the patch that it makes is reviewed before it is sent. */
import { useEffect, useState } from "preact/hooks";
import { href, path } from "../state/route";
import { MASK } from "../wire/curl";
import { type Json } from "../wire/json";
import { Checkbox, Field, typed } from "./fields";
import { ActForm, useSend, type Version } from "./form";
import { PropertyFields } from "./properties";
import { Facts, Skeleton, useDocument } from "./read";
import { Tree } from "./text";
import { changed, Review } from "./review";
import { done, say } from "./toasts";
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

/** What is typed and not saved. `seen`: the version of the node that the form shows. */
type Draft = { seen: Version; fields: Json; info: Json | null };

/** The drafts, by the UUID of the node. The page's memory alone has them, for their passwords. */
const drafts = new Map<string, Draft>();

/** The settings of a node as a form of the page. What is typed stays while the node is read again or the form is left. */
export function SettingsForm({ node, own, reload }: { node: Version; own: string; reload: () => void }) {
  const uuid: string = node.body?.uuid;
  const [draft, setDraft] = useState((): Draft => drafts.get(uuid) ?? { seen: node, fields: {}, info: null });
  const [reviewed, setReviewed] = useState(false);
  const { seen, fields: typedFields, info: typedInfo } = draft;
  const { body = {} } = seen as { body: Json };
  const known = readable(body.driver_info ?? {});
  const names = [...Object.keys(PLACEMENT), ...Object.keys(LIFE), "retired_reason", "protected_reason"];
  const before: Json = Object.fromEntries(names.map((name) => [name, body[name] ?? ""]));
  const fields: Json = { ...before, ...typedFields };
  const info = typedInfo ?? known;
  const properties = useDocument(path("drivers", body.driver, "properties", "detail"));
  // Projects may change their nodes, but not read what a driver has.
  const hidden = properties.fault?.status === 403;
  const others = Object.entries(known).filter(([name]) => !properties.body?.[name]);
  const patch = [...operations("", before, fields), ...operations("/driver_info", known, info)];
  const restart = (version: Version) => {
    setDraft({ seen: version, fields: {}, info: null });
    setReviewed(false);
  };
  useEffect(() => {
    if (!patch.length) restart(node);
  }, [node.tag]);
  useKept(uuid, nameOf(body), patch.length ? draft : null);
  const sending = useSend(
    { method: "PATCH", path: own, body: patch, of: own, seen, onTheirs: restart },
    (answer, replaced) => {
      restart({ body: answer.body, tag: answer.tag });
      reload();
      const act = changed(replaced ?? body, patch, answer, reload);
      void done(`Settings of ${nameOf(body)}`, "The node is changed.", act);
    },
  );
  const set = (name: string) => (value: unknown) =>
    setDraft({ ...draft, fields: { ...typedFields, [name]: value } });
  const act = {
    ...sending,
    title: `Settings of ${nameOf(body)}`,
    fault: sending.fault ?? (properties.fault?.status && !hidden ? properties.fault : null),
    ready: patch.length > 0,
    button: reviewed ? "Save" : `Review ${many(patch.length, "change")}`,
    send: reviewed ? sending.send : () => setReviewed(true),
    more: patch.length > 0 && (
      <button type="button" onClick={() => restart(node)}>
        Discard
      </button>
    ),
  };
  return (
    <ActForm {...act} inPage>
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
          known={body.driver_info ?? {}}
          onInput={(changes) => setDraft({ ...draft, info: changes })}
        />
      )}
      {!properties.body && !properties.fault && <Skeleton rows={3} />}
      {(properties.body || hidden) && (
        <Facts of={others.map(([name, value]) => [name, <Tree of={value} />] as const)} />
      )}
      <details>
        <summary>Life</summary>
        {Object.entries(LIFE).map(([name, label]) => (
          <div key={name}>
            <Checkbox label={label} on={!!fields[name]} onChange={set(name)} />
            {fields[name] && (
              <Field
                label={`Why ${name}`}
                value={fields[`${name}_reason`]}
                onInput={typed(set(`${name}_reason`))}
              />
            )}
          </div>
        ))}
      </details>
      {reviewed && patch.length > 0 && <Review node={body} patch={patch} />}
    </ActForm>
  );
}

/** Keep the draft of a form that is left, and say where it is. */
function useKept(uuid: string, name: string, draft: Draft | null) {
  useEffect(() => void (draft ? drafts.set(uuid, draft) : drafts.delete(uuid)), [draft]);
  useEffect(
    () => () => {
      const to = href(path("nodes", uuid), {}, { tab: "settings" });
      if (drafts.has(uuid)) say(`Changes of ${name} are not saved.`, { to });
    },
    [],
  );
}
