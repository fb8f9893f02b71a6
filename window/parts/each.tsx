/** Acts that are no batches: one request for each of many nodes. */
import { useRef, useState } from "preact/hooks";
import { enter, move } from "../state/acts";
import { path } from "../state/route";
import { keeper } from "../wire/api";
import { type Json } from "../wire/json";
import { Field, Select, typed } from "./fields";
import { ActForm } from "./form";
import { HoldForm, NEW_HOLD } from "./holds";
import { bdi } from "./text";
import { say } from "./toasts";
import { many, nameOf, wording } from "./words";

const REQUESTS_AT_ONCE = 4;

/** Send one request for each node that has none done, four at a time; show each result. */
function useEach(
  title: string,
  nodes: Json[],
  request: (node: Json) => { method: string; path: string; body?: unknown },
) {
  const [results, setResults] = useState(new Map() as Map<string, string>);
  const [busy, setBusy] = useState(false);
  const send = useRef(keeper());
  const left = () => nodes.filter((node) => results.get(node.uuid) !== "done");
  const run = async () => {
    setBusy(true);
    const id = enter(title, "running");
    const found = new Map([...results].filter(([, result]) => result === "done"));
    const queue = left();
    const worker = async () => {
      for (let node = queue.shift(); node; node = queue.shift()) {
        const result = await send.current(request(node)).then(
          () => "done",
          (error) => error.message,
        );
        found.set(node.uuid, result);
        setResults(new Map(found));
      }
    };
    await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, worker));
    setBusy(false);
    const done = [...found.values()].filter((result) => result === "done").length;
    const text = `${done} of ${nodes.length} done.`;
    move(id, { stage: done < nodes.length ? "failed" : "done", text });
    say(text, { failed: done < nodes.length });
  };
  const sample = request({ uuid: "{node}" });
  const copied = { ...sample, path: decodeURIComponent(sample.path), each: left().map((node) => node.uuid) };
  const over = !busy && !left().length;
  /** For another act on all of the nodes. */
  const clear = () => {
    send.current = keeper();
    setResults(new Map());
  };
  return { results, clear, busy, send: over ? undefined : run, ...(!over && { request: copied }) };
}

function Results({ nodes, results }: { nodes: Json[]; results: Map<string, string> }) {
  if (!results.size) return null;
  const faults = nodes.filter((node) => (results.get(node.uuid) ?? "done") !== "done");
  return (
    <>
      <p>
        {results.size} of {nodes.length} answered, {faults.length} refused.
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
  const each = useEach(title, nodes, (node) => ({
    method: on ? "PUT" : "DELETE",
    path: path("nodes", node.uuid, "maintenance"),
    ...(on ? { body: { reason } } : {}),
  }));
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
      <Results nodes={nodes} results={each.results} />
    </ActForm>
  );
}

export function Holding({ nodes }: { nodes: Json[] }) {
  const [body, setBody] = useState(NEW_HOLD as Json);
  const title = `Hold ${many(nodes.length)}`;
  const each = useEach(title, nodes, (node) => ({
    method: "POST",
    path: path("nodes", node.uuid, "holds"),
    body,
  }));
  const act = { ...each, title, button: title, ready: !!body.reason };
  return (
    <ActForm {...act}>
      <HoldForm body={body} onChange={setBody} />
      <Results nodes={nodes} results={each.results} />
    </ActForm>
  );
}
