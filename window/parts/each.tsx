/** Acts that are no batches: one request for each of many nodes. */
import { useRef, useState } from "preact/hooks";
import { acts, enter, move } from "../state/acts";
import { path } from "../state/route";
import { type Answer, keeper, readNodes, sendChange } from "../wire/api";
import { type Json } from "../wire/json";
import { close } from "./dialog";
import { Field, Select, typed } from "./fields";
import { ActForm } from "./form";
import { endOf, HoldForm, NEW_HOLD } from "./holds";
import { maintenanceOf } from "./openers";
import { bdi } from "./text";
import { type Change, offerUndo, sameAs, say } from "./toasts";
import { many, nameOf, wording } from "./words";

const REQUESTS_AT_ONCE = 4;

/** Do something with each, four at a time. */
async function forEach<Item>(items: Item[], act: (item: Item) => Promise<void>) {
  const queue = [...items];
  const worker = async () => {
    for (let item = queue.shift(); item; item = queue.shift()) await act(item);
  };
  await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, worker));
}

/** Take what was done with each node back. */
async function takeBack(all: (() => Promise<void>)[]) {
  const refusals: string[] = [];
  await forEach(all, (back) =>
    back().catch(({ status, message }) => {
      refusals.push(status === 412 ? "it has changed meanwhile" : message);
    }),
  );
  if (refusals.length) throw new Error(`${many(refusals.length)} of ${all.length}: ${refusals[0]}`);
}

/** What is done with each of many nodes. */
type Each = {
  request: (node: Json) => Change;
  /** reads what Undo needs of the nodes, before anything is sent */
  before?: () => Promise<Map<string, Json>>;
  /** takes it back; null if nothing does */
  back: (node: Json, answer: Answer, before: Json | undefined) => (() => Promise<void>) | null;
};

/**
 * Send one request for each node that has none done, and show each result. The dialog closes when all
 * are done, because its page offers Undo.
 */
function useEach(title: string, nodes: Json[], { request, before, back }: Each) {
  const [results, setResults] = useState(new Map() as Map<string, string>);
  const [busy, setBusy] = useState(false);
  const [id, setId] = useState(0);
  const send = useRef(keeper());
  const left = () => nodes.filter((node) => results.get(node.uuid) !== "done");
  /** For another act on all of the nodes. */
  const clear = () => {
    send.current = keeper();
    setResults(new Map());
  };
  const run = async () => {
    setBusy(true);
    const entry = enter(title, "running");
    setId(entry);
    const found = new Map([...results].filter(([, result]) => result === "done"));
    const backs: (() => Promise<void>)[] = [];
    const read = await before?.().catch(() => undefined);
    await forEach(left(), async (node) => {
      const result = await send.current(request(node)).then(
        (answer) => {
          const undo = back(node, answer, read?.get(node.uuid));
          if (undo) backs.push(undo);
          return "done";
        },
        (error) => String(error.message),
      );
      found.set(node.uuid, result);
      setResults(new Map(found));
    });
    setBusy(false);
    const done = [...found.values()].filter((result) => result === "done").length;
    const failed = done < nodes.length;
    const text = `${done} of ${nodes.length} done.`;
    move(entry, { stage: failed ? "failed" : "done", text });
    if (!failed) close();
    if (backs.length) offerUndo(entry, text, { failed, reload: clear }, () => takeBack(backs));
    else say(text, { failed });
  };
  const sample = request({ uuid: "{node}" });
  const copied = { ...sample, path: decodeURIComponent(sample.path), each: left().map((node) => node.uuid) };
  const over = !busy && !left().length;
  const undo = acts.value.find((act) => act.id === id)?.undo;
  return { results, undo, clear, busy, send: over ? undefined : run, ...(!over && { request: copied }) };
}

function Results({
  nodes,
  results,
  undo,
}: { nodes: Json[] } & Pick<ReturnType<typeof useEach>, "results" | "undo">) {
  if (!results.size) return null;
  const faults = nodes.filter((node) => (results.get(node.uuid) ?? "done") !== "done");
  return (
    <>
      <p>
        {results.size} of {nodes.length} answered, {faults.length} refused.{" "}
        {undo && (
          <button type="button" onClick={undo}>
            Undo
          </button>
        )}
      </p>
      <ul>
        {faults.map((node) => (
          <li class="wrong">
            {bdi(nameOf(node))}: {bdi(wording(results.get(node.uuid), node))}
          </li>
        ))}
      </ul>
    </>
  );
}

export function Maintaining({ nodes }: { nodes: Json[] }) {
  const [reason, setReason] = useState("");
  const [on, setOn] = useState(true);
  const title = `Maintenance of ${many(nodes.length)}`;
  const uuids = nodes.map(({ uuid }) => uuid);
  const own = (node: Json) => path("nodes", node.uuid);
  const each = useEach(title, nodes, {
    before: () => readNodes(uuids, "maintenance,maintenance_reason,fault"),
    request: (node) => {
      const { begin, end } = maintenanceOf(own(node));
      return on ? begin(reason) : end;
    },
    back: (node, _, before) => {
      const inverse = before && maintenanceOf(own(node)).back(before);
      const after = { maintenance: on, ...(on && { maintenance_reason: reason }) };
      if (!inverse) return null;
      return async () => void (await sendChange({ ...inverse, tag: await sameAs(own(node), after) }));
    },
  });
  const act = {
    ...each,
    title,
    button: `Set maintenance ${on ? "on" : "off"}`,
  };
  return (
    <ActForm {...act}>
      <Select
        label="Maintenance"
        value={on ? "on" : "off"}
        onChange={(value) => (each.clear(), setOn(value === "on"))}
        choices={["on", "off"]}
      />
      <Field label="Reason" class="block" onInput={typed(setReason)} />
      <Results nodes={nodes} {...each} />
    </ActForm>
  );
}

export function Holding({ nodes }: { nodes: Json[] }) {
  const [body, setBody] = useState(NEW_HOLD as Json);
  const title = `Hold ${many(nodes.length)}`;
  const own = (node: Json) => path("nodes", node.uuid);
  const each = useEach(title, nodes, {
    request: (node) => ({ method: "POST", path: `${own(node)}/holds`, body }),
    back: (node, answer) => async () => void (await sendChange(endOf(own(node), answer.body))),
  });
  const act = { ...each, title, button: title, ready: !!body.reason };
  return (
    <ActForm {...act}>
      <HoldForm body={body} onChange={setBody} />
      <Results nodes={nodes} {...each} />
    </ActForm>
  );
}
