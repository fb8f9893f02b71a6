/** The tabs of a node below its run: lists and documents. */
import { useState } from "preact/hooks";
import { ErasureList } from "../pages/evidence";
import { type Fault, parsed, sendChange } from "../wire/api";
import { type Json } from "../wire/json";
import { Checkbox, Field, typed } from "./fields";
import { useSend } from "./form";
import { openSettings, openSimple } from "./openers";
import { DocumentList, DocumentView, FaultBox, Skeleton, Tree } from "./read";
import { Review } from "./review";
import { RUN_HEAD, runRow } from "./run";
import { bdi, stamp } from "./text";
import { Curl, say } from "./toasts";

export function Runs({ own, turn }: any) {
  return (
    <DocumentList
      path={`${own}/runs?limit=50`}
      again={turn}
      label="Runs"
      head={RUN_HEAD}
      of="runs"
      day={(run) => run.started_at}
      row={runRow}
    />
  );
}

/** The traits of a node: each can be taken away, and one added. */
function Traits({ traits, own, reload }: { traits: string[]; own: string; reload: () => void }) {
  const [trait, setTrait] = useState("");
  const [fault, setFault] = useState(null as Fault | null);
  const change = async (method: string, name: string) => {
    try {
      await sendChange({ method, path: `${own}/traits/${encodeURIComponent(name)}` });
      setFault(null);
      setTrait("");
      reload();
    } catch (error) {
      setFault(error as Fault);
    }
  };
  return (
    <form
      class="actions"
      aria-label="Traits"
      onSubmit={(event) => {
        event.preventDefault();
        if (trait) void change("PUT", trait);
      }}
    >
      {traits.map((name) => (
        <button type="button" class="pressed" key={name} onClick={() => change("DELETE", name)}>
          {bdi(name)} <span aria-label="remove">×</span>
        </button>
      ))}
      <Field label="Trait" placeholder="CUSTOM_…" value={trait} onInput={typed(setTrait)} />
      <button disabled={!trait}>Add the trait</button>
      {fault && <FaultBox fault={fault} />}
    </form>
  );
}

/** Adds a port, by the address of its network card. */
function AddPort({ uuid, onDone }: { uuid: string; onDone: () => void }) {
  const [address, setAddress] = useState("");
  const [pxe_enabled, setPxe] = useState(true);
  const [fault, setFault] = useState(null as Fault | null);
  const add = async (event: Event) => {
    event.preventDefault();
    try {
      const body = { node_uuid: uuid, address, pxe_enabled };
      await sendChange({ method: "POST", path: "/v1/ports", body });
      setFault(null);
      setAddress("");
      onDone();
    } catch (error) {
      setFault(error as Fault);
    }
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
      <button disabled={!address}>Add the port</button>
      {fault && <FaultBox fault={fault} />}
    </form>
  );
}

export function Ports({ own, uuid, turn }: any) {
  const [added, setAdded] = useState(0);
  const remove = (port: Json) =>
    openSimple({
      title: `Remove the port ${port.address}`,
      kind: "none",
      method: "DELETE",
      path: `/v1/ports/${port.uuid}`,
      button: "Remove",
      says: "The machine does not boot from this card any more.",
      done: "The port is removed.",
      reload: () => setAdded((last) => last + 1),
    });
  return (
    <>
      <AddPort uuid={uuid} onDone={() => setAdded((last) => last + 1)} />
      <DocumentList
        again={`${turn} ${added}`}
        path={`${own}/ports?detail=true`}
        label="Ports"
        of="ports"
        head={["Address", "Name", "PXE", "Physical network", "Switch", ""]}
        row={(port) => [
          <code>{bdi(port.address)}</code>,
          port.name,
          port.pxe_enabled ? "yes" : "no",
          port.physical_network,
          port.local_link_connection?.switch_id,
          <button onClick={() => remove(port)}>Remove…</button>,
        ]}
      />
    </>
  );
}

export function Inventory({ own, turn }: any) {
  return (
    <DocumentView
      path={`${own}/inventory`}
      again={turn}
      absent="Not inspected yet."
      draw={(body) => <Tree of={body} />}
    />
  );
}

export function Fields({ node, own, reload }: any) {
  const [text, setText] = useState("");
  const read = parsed(text);
  const patch = Array.isArray(read) ? read : null;
  const sent = { method: "PATCH", path: own, body: patch, of: own, seen: node };
  const { fault, busy, send, request, choice } = useSend(sent, () => {
    setText("");
    say("The node is changed.");
    reload();
  });
  if (!node.body) return <Skeleton />;
  return (
    <>
      <div class="actions">
        <button onClick={() => openSettings({ own, reload })}>Settings…</button>
      </div>
      <Traits traits={node.body.traits ?? []} own={own} reload={reload} />
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
      <p class="tools">
        <Curl path={own} />
      </p>
      <Tree of={withoutLinks(node.body)} />
    </>
  );
}

export const withoutLinks = (node: Json) =>
  Object.fromEntries(Object.entries(node).filter(([, value]) => !linked(value)));

const linked = (value: any) => Array.isArray(value) && value[0]?.href !== undefined;

export function History({ own, turn }: any) {
  return (
    <DocumentList
      path={`${own}/history?limit=100&sort_dir=desc`}
      again={turn}
      label="History"
      of="history"
      head={["At", "Severity", "Event"]}
      row={(entry) => [stamp(entry.created_at), entry.severity, entry.event]}
    />
  );
}

export function Erasures({ own, turn }: any) {
  return <DocumentView path={`${own}/erasures`} again={turn} draw={(body) => <ErasureList body={body} />} />;
}
