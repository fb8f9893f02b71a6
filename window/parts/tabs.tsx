/** The settings of a node, its traits and its ports. */
import { useState } from "preact/hooks";
import { path } from "../state/route";
import { parsed } from "../wire/api";
import { type Json } from "../wire/json";
import { Checkbox, Field, typed } from "./fields";
import { useChange, useSend } from "./form";
import { openPort } from "./openers";
import { DocumentList, Facts, FaultBox, JsonOf, Skeleton, withoutLinks, wrong } from "./read";
import { changed, Review } from "./review";
import { SettingsForm } from "./settings";
import { bdi } from "./text";
import { Curl, done, sendAtOnce } from "./toasts";
import { nameOf } from "./words";

/** The traits of a node: each can be taken away, and one added. Both are sent at once, with Undo. */
function Traits({ node, reload }: { node: Json; reload: () => void }) {
  const [trait, setTrait] = useState("");
  const about = path("nodes", node.uuid);
  const change = async (method: "PUT" | "DELETE", name: string) => {
    const adds = method === "PUT";
    const own = `${about}/traits/${encodeURIComponent(name)}`;
    if (adds) setTrait("");
    await sendAtOnce({
      title: `Trait ${name} of ${nameOf(node)}`,
      says: `The trait ${name} is ${adds ? "added" : "removed"}.`,
      about,
      change: { method, path: own },
      inverse: ({ traits = [] }) =>
        traits.includes(name) === adds ? null : { method: adds ? "DELETE" : "PUT", path: own },
      gives: ({ traits = [] }) => ({
        traits: [...traits.filter((other: string) => other !== name), ...(adds ? [name] : [])],
      }),
      reload,
    });
  };
  const known: string[] = node.traits ?? [];
  return (
    <form
      class="actions"
      aria-label="Traits"
      onSubmit={(event) => {
        event.preventDefault();
        if (trait && !known.includes(trait)) void change("PUT", trait);
      }}
    >
      {known.map((name) => (
        <button type="button" class="pressed" key={name} onClick={() => change("DELETE", name)}>
          {bdi(name)} <span aria-label="remove">×</span>
        </button>
      ))}
      <Field label="Trait" placeholder="CUSTOM_…" value={trait} onInput={typed(setTrait)} />
      <button disabled={!trait}>Add the trait</button>
    </form>
  );
}

/** Adds a port, by the address of its network card. */
function AddPort({ uuid, onDone }: { uuid: string; onDone: () => void }) {
  const [address, setAddress] = useState("");
  const [pxe_enabled, setPxe] = useState(true);
  const { busy, fault, change } = useChange();
  const add = (event: Event) => {
    event.preventDefault();
    const body = { node_uuid: uuid, address, pxe_enabled };
    void change({ method: "POST", path: "/v1/ports", body }, ({ body: made, tag }) => {
      const own = path("ports", made.uuid);
      setAddress("");
      onDone();
      void done(`Port ${address}`, "The port is added.", {
        about: path("nodes", uuid),
        inverse: { method: "DELETE", path: own },
        tag,
        reload: onDone,
      });
    });
  };
  return (
    <form class="actions" aria-label="New port" onSubmit={add}>
      <Field
        label="MAC address"
        placeholder="52:54:00:aa:bb:cc"
        value={address}
        onInput={typed(setAddress)}
      />
      <Checkbox label="PXE" on={pxe_enabled} onChange={setPxe} />
      <button disabled={!address || busy}>Add the port</button>
      {fault && <FaultBox fault={fault} />}
    </form>
  );
}

/** Fields of a port that the service writes. */
const WRITTEN = ["created_at", "updated_at", "internal_info", "links"];

/** @returns the body of the request that makes a port that was removed again, with its UUID */
export const portAgain = (port: Json): Json =>
  Object.fromEntries(
    Object.entries(port).filter(([name, value]) => value !== null && !WRITTEN.includes(name)),
  );

/** The ports of a node: each can be removed, at once and with Undo, and one added. */
export function Ports({ own, uuid, turn }: any) {
  const [added, setAdded] = useState(0);
  const reload = () => setAdded((last) => last + 1);
  const remove = (port: Json) =>
    sendAtOnce({
      title: `Port ${port.address}`,
      says: "The port is removed.",
      about: path("nodes", uuid),
      of: path("ports", port.uuid),
      change: { method: "DELETE", path: path("ports", port.uuid) },
      inverse: (before) => ({ method: "POST", path: "/v1/ports", body: portAgain(before) }),
      tag: null, // Nothing is left that could have changed.
      reload,
    });
  return (
    <>
      <AddPort uuid={uuid} onDone={reload} />
      <DocumentList
        again={`${turn} ${added}`}
        path={`${own}/ports?detail=true`}
        label="Ports"
        bare
        of="ports"
        head={["Address", "Name", "PXE", "Physical network", "Switch", ""]}
        row={(port) => [
          <code>{bdi(port.address)}</code>,
          port.name,
          port.pxe_enabled ? "yes" : "no",
          port.physical_network,
          port.local_link_connection?.switch_id,
          <>
            <button onClick={() => openPort({ port, about: path("nodes", uuid), reload })}>Change…</button>{" "}
            <button onClick={() => remove(port)}>Remove</button>
          </>,
        ]}
      />
    </>
  );
}

/** Fields of a node that its settings show and do not change: their labels. */
const SHOWN: Record<string, string> = { driver: "Driver", conductor_group: "Conductor group" };

/** The settings of a node, its traits and its ports; each can be changed. */
export function NodeSettings({ node, own, uuid, reload, turn }: any) {
  if (!node.body) return wrong(node.fault, own) ?? <Skeleton />;
  return (
    <>
      <Facts of={Object.entries(SHOWN).map(([name, label]) => [label, node.body[name]] as const)} />
      <SettingsForm node={node} own={own} reload={reload} />
      <h2>Traits</h2>
      <Traits node={node.body} reload={reload} />
      <h2>Ports</h2>
      <Ports own={own} uuid={uuid} turn={turn} />
      <Patch node={node} own={own} reload={reload} />
      <JsonOf body={withoutLinks(node.body)} />
    </>
  );
}

/** Changes any field by a patch that is reviewed. */
function Patch({ node, own, reload }: any) {
  const [text, setText] = useState("");
  const read = parsed(text);
  const patch = Array.isArray(read) ? read : null;
  const sent = { method: "PATCH", path: own, body: patch, of: own, seen: node };
  const { fault, busy, send, request, choice } = useSend(sent, (answer, replaced) => {
    setText("");
    reload();
    const before: Json = replaced ?? node.body;
    const act = changed(before, patch ?? [], answer, reload);
    void done(`Change of ${nameOf(before)}`, "The node is changed.", act);
  });
  return (
    <details>
      <summary>Change fields</summary>
      <label class="block">
        JSON Patch (RFC 6902)
        <textarea
          rows={3}
          spellcheck={false}
          placeholder='[{"op": "replace", "path": "/resource_class", "value": "gpu"}]'
          value={text}
          onInput={typed(setText)}
        />
      </label>
      {patch && <Review node={node.body} patch={patch} />}
      {fault && <FaultBox fault={fault} />} {choice}
      {patch && <Curl {...(request as any)} />}
      <button disabled={!patch || busy} onClick={() => send()}>
        Send the patch
      </button>
    </details>
  );
}
