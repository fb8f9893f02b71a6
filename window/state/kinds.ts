/** What events say: their kinds in groups, and their words. */
import { type Answers } from "../wire/documents";
import { type Json } from "../wire/json";

export type FeedEvent = Answers["/v1/events"]["events"][number];

/** Kinds of entries, with their labels. */
export const GROUPS = {
  changes: "Fields and ports",
  maintenance: "Maintenance and faults",
  power: "Power",
  runs: "Runs",
  batches: "Batches",
  holds: "Holds",
  machine: "BMC and health",
  data: "Data and erasures",
  service: "Service",
};
export type Group = keyof typeof GROUPS;

/** Groups without nodes. */
const OF_SERVICE = new Set<string>(["batches", "service"]);

export const groupsOf = (node: boolean) =>
  Object.entries(GROUPS).filter(([group]) => !node || !OF_SERVICE.has(group));

export const because = (reason: unknown) => (reason ? `: ${reason}` : "");
const bare = (power: unknown) => String(power ?? "unknown").replace("power ", "");

type Tell = (event: FeedEvent, data: Json) => string;

const move: Tell = ({ before, after }) => `${before ?? "unknown"} → ${after ?? "unknown"}`;

export const KINDS: Record<string, [Group, Tell]> = {
  node_created: ["changes", (_, { driver }) => `Enrolled${driver ? ` with the driver ${driver}` : ""}`],
  imported: ["changes", (_, { release }) => `Imported from Ironic ${release}`],
  node_updated: ["changes", (_, { fields }) => `Changed ${(fields ?? []).join(", ")}`],
  node_deleted: ["changes", () => "Deleted"],
  traits_updated: [
    "changes",
    (_, { added, removed, ...more }) =>
      added ? `Trait ${added} added` : removed ? `Trait ${removed} removed` : `Traits ${listed(more)}`,
  ],
  fault: [
    "maintenance",
    ({ event, after }, { error }) =>
      error ? `Fault${because(error)}` : `Fault ended (${event}${after ? `, ${after}` : ""})`,
  ],
  power: [
    "power",
    ({ event, before, after }, { error }) =>
      event === "fail"
        ? `Power ${bare(after)} failed${because(error)}`
        : `Power ${before ? `${bare(before)} → ` : ""}${bare(after)}${event === "start" ? ", begun" : ""}`,
  ],
  provision: ["runs", move],
  flow_started: ["runs", ({ event }) => `${flow(event)} begins`],
  flow_ended: ["runs", ({ event }, { outcome }) => `${flow(event)}: ${outcome ?? "ended"}`],
  step_started: ["runs", (_, { step }) => `${step} begins`],
  step_ended: ["runs", (_, { step, error }) => `${step} ${error ? `failed${because(error)}` : "ended"}`],
  step_waived: ["runs", (_, { step, reason }) => `Step ${step} waived${because(reason)}`],
  abort_requested: ["runs", (_, { step }) => `Abort requested, after the step ${step}`],
  stop_requested: ["runs", ({ event }, { reason }) => `Stop (${event}) requested${because(reason)}`],
  stop_withdrawn: ["runs", ({ event }) => `Stop (${event}) withdrawn`],
  agent_changed: ["runs", (_, { error }) => `Another agent reports${because(error)}`],
  overdue: ["runs", (_, { step }) => `Overdue${because(step)}`],
  boot_retry: ["runs", (_, { reason }) => `Restarted${because(reason)}`],
  taken_over: ["runs", (_, data) => `Taken over from ${data.from}`],
  management: [
    "machine",
    ({ event }, { order, target, error }) =>
      event === "fail"
        ? `Order to the BMC failed${because(error)}`
        : `${sentence(order ?? "order to the BMC")}${target == null ? "" : `: ${plain(target)}`}${event === "start" ? ", begun" : ""}`,
  ],
  health: ["machine", ({ before, after }) => `Health ${after ?? "unknown"}, was ${before ?? "unknown"}`],
  network: ["machine", ({ event }, data) => `Network: ${event ?? ""} ${listed(data)}`],
  agent_refused: ["machine", (_, { address, reason }) => `Ramdisk at ${address} refused${because(reason)}`],
  hold_added: ["holds", (_, { kind, reason }) => `Hold (${kind})${because(reason)}`],
  hold_ended: ["holds", (_, { kind, reason }) => `Hold (${kind}) ended${because(reason)}`],
  data_state: ["data", (event, data) => `Data ${move(event, data)}${because(data.reason)}`],
  erasure: ["data", (_, { result, level }) => `Erasure record: ${result}, level ${level}`],
  batch_started: ["batches", (_, { nodes }) => `Begun with ${nodes} ${nodes === 1 ? "node" : "nodes"}`],
  batch_wave: ["batches", (_, { wave }) => `Wave ${wave + 1} begins`],
  batch_paused: ["batches", (_, { by }) => `Paused${PAUSES[by] ?? ""}`],
  batch_resumed: ["batches", () => "Resumed"],
  batch_aborted: ["batches", (_, { by }) => `Aborted${PAUSES[by] ?? ""}`],
  batch_ended: ["batches", (_, { state }) => `Ended: ${state}`],
  batch_deleted: ["batches", () => "Deleted"],
};

/** Reasons of the service for the pause of a batch. */
const PAUSES: Record<string, string> = {
  failures: ", because too many nodes failed",
  "end of a wave": " at the end of a wave",
};

const DONE: Record<string, string> = { created: "added", updated: "changed", deleted: "removed" };
const RESOURCES: [Group, string[]][] = [
  ["changes", ["port", "portgroup", "volume_connector", "volume_target"]],
  ["service", ["chassis", "deploy_template", "runbook", "inspection_rule", "allocation", "webhook"]],
];
for (const [group, words] of RESOURCES) {
  for (const word of words) {
    for (const [what, done] of Object.entries(DONE)) {
      KINDS[`${word}_${what}`] = [
        group,
        (_, { address, name, changed, ...data }) =>
          `${sentence(word)} ${address ?? name ?? data[word] ?? ""} ${done}${because(changed?.join(", "))}`,
      ];
    }
  }
}

const flow = (event: string | null) => sentence(event ?? "run");
export const sentence = (word: string) => (word.charAt(0).toUpperCase() + word.slice(1)).replaceAll("_", " ");
const plain = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));
const listed = (data: Json) =>
  Object.values(data)
    .flat()
    .filter((value) => value != null)
    .map(plain)
    .join(", ");

/** Kinds that only repeat what a run or its steps say; their number would leave no room for others. */
const STEPS = ["flow_started", "flow_ended", "step_started", "step_ended", "agent_changed"];

/**
 * @param group none for all
 * @param node without what has no node
 * @returns the kinds of events that are read
 */
export const kindsOf = (group: string, node: boolean): string[] =>
  Object.entries(KINDS)
    .filter(([kind, [other]]) => !STEPS.includes(kind) && (!node || !OF_SERVICE.has(other)))
    .filter(([kind, [other]]) => !group || other === group || (group === "maintenance" && kind === UPDATED))
    .map(([kind]) => kind);

export const UPDATED = "node_updated";
