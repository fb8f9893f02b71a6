/** Pages of what the service has beside machines: a list of each kind, its entries, forms to add them. */
import { Adding, type Input } from "../parts/adding";
import { show } from "../parts/dialog";
import { openSimple } from "../parts/openers";
import { COPY, copyOf, DocumentList, List, LIST_MS, Skeleton, useDocument, wrong } from "../parts/read";
import { bdi, link, stamp, Tree } from "../parts/text";
import { nameOf, stepName, wording } from "../parts/words";
import { href, path, request, route } from "../state/route";
import { type Answers } from "../wire/documents";

/** An entry that a page shows: its document, its path, its name, and how to read it again. */
type Shown = { entry: any; own: string; name: string; reload: () => void };

/** A kind of entries. */
interface Kind {
  /** the heading, which is the name of one, too, without its last letter */
  title: string;
  /** the list in the answer of the API */
  of: string;
  /** arguments of the list */
  query?: Record<string, string>;
  head: string[];
  /** cells of a row */
  row: (entry: any) => any[];
  name: (entry: any) => string;
  /** the last part of its path */
  id: (entry: any) => string;
  /** values of an entry, by their labels */
  facts: (entry: any) => Record<string, any>;
  /** what is below the values */
  More?: (shown: Shown) => any;
  /** buttons beside Delete */
  Acts?: (shown: Shown) => any;
  /** fields of the form that adds one; without them none is added, and none deleted */
  inputs?: Input[];
  /** what a deletion means */
  loss?: string;
}

type Conductor = Answers["/v1/conductors/{hostname}"];
type Webhook = Answers["/v1/webhooks/{ident}"];
type Runbook = Answers["/v1/runbooks/{ident}"];
type Template = Answers["/v1/deploy_templates/{ident}"];
type Allocation = Answers["/v1/allocations/{ident}"];

const alive = ({ alive: is }: Conductor) => (is ? "yes" : "▲ no");
const words = (list: string[] | null, none: string) => list?.join(", ") ?? none;

const KINDS: Record<string, Kind> = {
  conductors: {
    title: "Conductors",
    of: "conductors",
    query: { detail: "true" },
    head: ["Host", "Group", "Alive", "Last heartbeat", "Drivers"],
    row: (conductor: Conductor) => [
      conductor.conductor_group || "none",
      alive(conductor),
      stamp(conductor.updated_at),
      conductor.drivers?.join(", "),
    ],
    name: ({ hostname }) => hostname,
    id: ({ hostname }) => hostname,
    facts: (conductor: Conductor) => ({
      Group: conductor.conductor_group || "none",
      Alive: alive(conductor),
      "Last heartbeat": stamp(conductor.updated_at),
      "Known since": stamp(conductor.created_at),
      Drivers: conductor.drivers?.join(", "),
      Nodes: <a href={href("/v1/nodes", { conductor: conductor.hostname ?? "" })}>nodes of this conductor</a>,
    }),
  },
  runbooks: {
    title: "Runbooks",
    of: "runbooks",
    query: { detail: "true" },
    head: ["Name", "Steps", "Owner", "Public", "Traits", "Description"],
    row: (runbook: Runbook) => [
      runbook.steps?.length,
      runbook.owner,
      runbook.public ? "yes" : "no",
      runbook.traits?.join(", "),
      runbook.description,
    ],
    name: ({ name }) => name,
    id: ({ uuid }) => uuid,
    facts: (runbook: Runbook) => ({
      Description: runbook.description,
      Owner: runbook.owner,
      Public: runbook.public ? "yes" : "no",
      Traits: runbook.traits?.join(", "),
      ...kept(runbook),
    }),
    More: Steps,
    inputs: [
      { name: "name", label: "Name", required: true, placeholder: "CUSTOM_FIRMWARE" },
      { name: "description", label: "Description" },
      { name: "owner", label: "Owner" },
      { name: "steps", label: "Steps", steps: "order", required: true },
    ],
    loss: "No node can be cleaned or serviced by it any more.",
  },
  deploy_templates: {
    title: "Deploy templates",
    of: "deploy_templates",
    query: { detail: "true" },
    head: ["Name", "Steps", "Made", "Changed"],
    row: (template: Template) => [
      template.steps?.length,
      stamp(template.created_at),
      stamp(template.updated_at),
    ],
    name: ({ name }) => name,
    id: ({ uuid }) => uuid,
    facts: kept,
    More: Steps,
    inputs: [
      { name: "name", label: "Name", required: true, placeholder: "CUSTOM_RAID10" },
      { name: "steps", label: "Steps", steps: "priority", required: true },
    ],
    loss: "Instances with its trait are deployed without its steps.",
  },
  allocations: {
    title: "Allocations",
    of: "allocations",
    head: ["Name", "State", "Class", "Node", "Owner", "Error", "Made"],
    row: (allocation: Allocation) => [
      allocation.state,
      allocation.resource_class,
      nodeOf(allocation),
      allocation.owner,
      allocation.last_error,
      stamp(allocation.created_at),
    ],
    name: nameOf as (entry: any) => string,
    id: ({ uuid }) => uuid,
    facts: (allocation: Allocation) => ({
      State: allocation.state,
      Error: allocation.last_error,
      Node: nodeOf(allocation),
      Class: allocation.resource_class,
      Traits: allocation.traits?.join(", "),
      "Candidate nodes": (allocation.candidate_nodes as string[] | null)?.map((node) => (
        <>{link(path("nodes", node), wording(node))} </>
      )),
      Owner: allocation.owner,
      ...kept(allocation),
    }),
    inputs: [
      { name: "resource_class", label: "Class", required: true },
      { name: "name", label: "Name" },
      { name: "traits", label: "Traits", list: true, placeholder: "CUSTOM_GPU" },
      { name: "candidate_nodes", label: "Candidate nodes (all without one)", list: true },
      { name: "owner", label: "Owner" },
    ],
    loss: "Its node is free for others; an active node is not deleted by this.",
  },
  webhooks: {
    title: "Webhooks",
    of: "webhooks",
    head: ["URL", "State", "Kinds", "Nodes", "Last status", "By", "Made"],
    row: (webhook: Webhook) => [
      webhook.state,
      words(webhook.kinds, "all"),
      webhook.nodes?.length ?? "all",
      webhook.last_status,
      webhook.created_by,
      stamp(webhook.created_at),
    ],
    name: ({ url }) => url,
    id: ({ uuid }) => uuid,
    facts: (webhook: Webhook) => ({
      State: webhook.state,
      Kinds: words(webhook.kinds, "all"),
      Nodes: webhook.nodes?.map((node) => <>{link(path("nodes", node), wording(node))} </>) ?? "all",
      "Failing since": stamp(webhook.failing_since),
      "Last status": webhook.last_status,
      "Last error": webhook.last_error,
      "Sent up to event": webhook.cursor,
      By: webhook.created_by,
      Made: stamp(webhook.created_at),
      Changed: stamp(webhook.updated_at),
      UUID: <code>{webhook.uuid}</code>,
    }),
    More: Failed,
    Acts: Pause,
    inputs: [
      { name: "url", label: "URL", type: "url", required: true, placeholder: "https://…" },
      {
        name: "kinds",
        label: "Kinds of events (all without one)",
        list: true,
        placeholder: "provision fault",
      },
      { name: "nodes", label: "Nodes (all without one)", list: true, placeholder: "rack1-01 rack1-02" },
      {
        name: "since",
        label: "Begin with",
        choices: [
          ["now", "new events"],
          ["0", "all events that are kept"],
        ],
      },
    ],
    loss: "Its receiver gets no further events.",
  },
};

/** @returns values that many kinds have */
function kept({ extra, created_at, updated_at, uuid }: Template) {
  return {
    Extra: extra && Object.keys(extra).length ? <Tree of={extra} /> : null,
    Made: stamp(created_at),
    Changed: stamp(updated_at),
    UUID: <code>{uuid}</code>,
  };
}

const nodeOf = ({ node_uuid: node }: Allocation) => node && link(path("nodes", node), wording(node));

/** The steps of a runbook or a deploy template. */
function Steps({ entry }: Shown) {
  return (
    <>
      <h2>Steps</h2>
      <List
        label="Steps"
        head={["Order or priority", "Step", "Arguments"]}
        rows={entry.steps.map((step: any) => [
          step.order ?? step.priority,
          stepName(step),
          Object.keys(step.args ?? {}).length ? <Tree of={step.args} /> : null,
        ])}
      />
    </>
  );
}

/** Deliveries that were put aside. */
function Failed({ own, reload }: Shown) {
  const again = ({ id }: { id: number }) =>
    openSimple({
      title: "Send again",
      kind: "none",
      says: "All events from this delivery on are sent again.",
      method: "POST",
      path: `${own}/replay`,
      body: { failed: id },
      button: "Send again",
      reload,
    });
  return (
    <>
      <h2>Failed deliveries</h2>
      <DocumentList
        path={`${own}/failed`}
        label="Failed deliveries"
        of="failed"
        head={["At", "Events", "Status", "Answer", "Again"]}
        row={(failed) => [
          stamp(failed.at),
          `${failed.first} – ${failed.last}`,
          failed.status,
          failed.answer,
          <button onClick={() => again(failed)}>Send again…</button>,
        ]}
      />
    </>
  );
}

/** Ends the deliveries of a webhook for a while, or begins them again. */
function Pause({ entry, own, name, reload }: Shown) {
  const active = entry.state === "active";
  const button = active ? "Pause" : "Resume";
  const open = () =>
    openSimple({
      title: `${button}: ${name}`,
      kind: "none",
      says: active ? "Events are kept, and sent when it is resumed." : "It gets the events since its last.",
      method: "PATCH",
      path: own,
      body: [{ op: "replace", path: "/state", value: active ? "paused" : "active" }],
      button,
      reload,
    });
  return <button onClick={open}>{button}…</button>;
}

/** The list of a kind, or one of its entries. */
export function ResourcePage() {
  const [root = "", ident] = route.value.parts;
  const kind = KINDS[root] as Kind;
  if (ident) return <Entry key={route.value.path} kind={kind} own={path(root, ident)} />;
  const { title, inputs } = kind;
  return (
    <>
      <h1>{title}</h1>
      {inputs && (
        <div class="actions">
          <button onClick={() => show(() => <Adding title={one(title)} root={root} inputs={inputs} />)}>
            Add {one(title)}…
          </button>
        </div>
      )}
      <DocumentList
        path={request(kind.query)}
        each={LIST_MS}
        label={title}
        of={kind.of}
        head={[...kind.head, COPY]}
        row={(entry) => [
          link(path(root, kind.id(entry)), kind.name(entry)),
          ...kind.row(entry),
          copyOf(root, kind.id(entry)),
        ]}
      />
    </>
  );
}

/** @returns the name of one of a kind */
const one = (title: string) => title.slice(0, -1).toLowerCase();

function Entry({ kind, own }: { kind: Kind; own: string }) {
  const { body: entry, fault, reload } = useDocument(own, { each: LIST_MS });
  if (!entry) return wrong(fault, own) ?? <Skeleton />;
  const name = kind.name(entry);
  const shown = { entry, own, name, reload };
  const word = one(kind.title);
  const { More, Acts } = kind;
  const remove = () =>
    openSimple({
      title: `Delete the ${word} ${name}`,
      kind: "none",
      says: kind.loss,
      method: "DELETE",
      path: own,
      button: `Delete the ${word}`,
      then: `#${path(own.split("/")[2] ?? "")}`,
      done: `${name} is deleted.`,
    });
  return (
    <>
      {wrong(fault, own)}
      <header class="node-head">
        <h1>{bdi(name)}</h1>
      </header>
      {kind.inputs && (
        <div class="actions" role="group" aria-label={`Acts on this ${word}`}>
          {Acts && <Acts {...shown} />} <button onClick={remove}>Delete…</button>
        </div>
      )}
      <dl class="tree">
        {Object.entries(kind.facts(entry))
          .filter(([, value]) => value != null && value !== "")
          .map(([label, value]) => (
            <>
              <dt>{label}</dt>
              <dd>{typeof value === "object" ? value : bdi(value)}</dd>
            </>
          ))}
      </dl>
      {More && <More {...shown} />}
    </>
  );
}
