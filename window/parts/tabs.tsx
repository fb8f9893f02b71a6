/** The tabs of a node below its run: lists and documents. */
import { useState } from "preact/hooks";
import { ErasureList } from "../pages/evidence";
import { parsed } from "../wire/api";
import { type Json } from "../wire/json";
import { typed } from "./fields";
import { useSend } from "./form";
import { DocumentList, DocumentView, FaultBox, Skeleton, Tree } from "./read";
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
      row={runRow}
    />
  );
}

export function Ports({ own }: any) {
  return (
    <DocumentList
      path={`${own}/ports?detail=true`}
      label="Ports"
      of="ports"
      head={["Address", "Name", "PXE", "Physical network", "Switch"]}
      row={(port) => [
        <code>{bdi(port.address)}</code>,
        port.name,
        port.pxe_enabled ? "yes" : "no",
        port.physical_network,
        port.local_link_connection?.switch_id,
      ]}
    />
  );
}

export function Inventory({ own }: any) {
  return (
    <DocumentView path={`${own}/inventory`} absent="Not inspected yet." draw={(body) => <Tree of={body} />} />
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
        <ul>
          {patch?.map((change: Json) => (
            <li>
              <code>{bdi(change?.path)}</code>: {bdi(valueAt(node.body, change?.path))} →{" "}
              {change?.op === "remove" ? "removed" : bdi(change?.value)}
            </li>
          ))}
        </ul>
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

/**
 * @param pointer RFC 6901
 * @returns what stands there now
 */
const valueAt = (node: Json, pointer: unknown): unknown =>
  String(pointer ?? "")
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((at: any, part) => at?.[part], node) ?? "nothing";

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

export function Erasures({ own }: any) {
  return <DocumentView path={`${own}/erasures`} draw={(body) => <ErasureList body={body} />} />;
}
