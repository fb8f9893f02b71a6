/** The dialog that changes a port of a node. */
import { useState } from "preact/hooks";
import { path } from "../state/route";
import { type Json, withValue } from "../wire/json";
import { Checkbox, Field, typed } from "./fields";
import { ActForm, useSend, type Version } from "./form";
import { Skeleton, useDocument } from "./read";
import { inverseOf } from "./review";
import { operations } from "./settings";
import { done } from "./toasts";

const TEXTS: Record<string, string> = { name: "Name", physical_network: "Physical network" };
/** Of the port of the switch, as neighbours tell it. */
const SWITCH: Record<string, string> = {
  switch_id: "Switch, its MAC address",
  port_id: "Port of the switch",
  switch_info: "Name of the switch",
};

/** @returns the operations that make a port like the form: of its switch, too, what differs alone */
export function portPatch(port: Json, now: Json): Json[] {
  const { local_link_connection: link = {}, ...fields } = now;
  const before = Object.fromEntries(Object.keys(fields).map((name) => [name, port[name] ?? ""]));
  const known: Json | null = port.local_link_connection;
  const moved = operations("/local_link_connection", known ?? {}, link);
  const whole = !known && moved.length ? [{ op: "add", path: "/local_link_connection", value: link }] : moved;
  return [...operations("", before, fields), ...whole];
}

/** @param props `about`: the path of its node */
export function PortForm({ port, ...props }: { port: Json; about: string; reload: () => void }) {
  const now = useDocument(path("ports", port.uuid));
  const [read, setRead] = useState<Version | null>(null);
  if (!read && now.body) setRead({ body: now.body, tag: now.tag });
  if (read) return <ReadPort port={read.body as Json} seen={read} {...props} />;
  return (
    <ActForm title={`Port ${port.address}`} fault={now.fault}>
      {!now.fault && <Skeleton />}
    </ActForm>
  );
}

function ReadPort(props: { port: Json; seen: Version; about: string; reload: () => void }) {
  const { port, seen, about, reload } = props;
  const [now, setNow] = useState<Json>({
    pxe_enabled: port.pxe_enabled,
    name: port.name ?? "",
    physical_network: port.physical_network ?? "",
    local_link_connection: port.local_link_connection ?? {},
  });
  const patch = portPatch(port, now);
  const title = `Port ${port.address}`;
  const own = path("ports", port.uuid);
  const sending = useSend({ method: "PATCH", path: own, body: patch, of: own, seen }, ({ tag }, before) => {
    reload();
    const back = inverseOf(before ?? port, patch);
    void done(title, "The port is changed.", {
      about,
      inverse: back && { method: "PATCH", path: own, body: back },
      tag,
      reload,
    });
  });
  const link: Json = now.local_link_connection;
  const put = (name: string, text: string) =>
    setNow({ ...now, local_link_connection: withValue(link, name, text.trim()) });
  return (
    <ActForm {...sending} title={title} button="Save" ready={patch.length > 0}>
      <Checkbox
        label="The machine may boot from this card (PXE)."
        on={now.pxe_enabled}
        onChange={(pxe_enabled) => setNow({ ...now, pxe_enabled })}
      />
      <div class="form-grid">
        {Object.entries(TEXTS).map(([name, label]) => (
          <Field
            key={name}
            label={label}
            autocomplete="off"
            value={now[name]}
            onInput={typed((text) => setNow({ ...now, [name]: text }))}
          />
        ))}
        {Object.entries(SWITCH).map(([name, label]) => (
          <Field
            key={name}
            label={label}
            autocomplete="off"
            value={link[name] ?? ""}
            onInput={typed((text) => put(name, text))}
          />
        ))}
      </div>
    </ActForm>
  );
}
