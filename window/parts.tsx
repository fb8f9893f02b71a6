/** All parts in all their states, on one page without a service: see `npm run parts`. */
import { type ComponentChildren, render } from "preact";
import { useState } from "preact/hooks";
import { STATES } from "./facts";
import { Entries } from "./parts/activity";
import { Bulk } from "./parts/bulk";
import { Confirm } from "./parts/confirm";
import { Menu } from "./parts/dialog";
import { Checkbox, Field, Select } from "./parts/fields";
import { ActForm, Changes } from "./parts/form";
import { HoldForm, NEW_HOLD } from "./parts/holds";
import { ObservedBar } from "./parts/observed";
import { Plan } from "./parts/plan";
import { Checks, FaultBox, List, Skeleton } from "./parts/read";
import { Refusable } from "./parts/refusable";
import { Machine, Timeline } from "./parts/run";
import { Table } from "./parts/table";
import { Squares } from "./parts/squares";
import { Ago, bdi, filters, nodeLink, Result, stamp, State, Tree } from "./parts/text";
import { Curl } from "./parts/toasts";
import { waves } from "./state/members";
import { type Entry } from "./state/activity";
import { select } from "./state/nodes";
import { set } from "./state/settings";
import { Fault } from "./wire/api";
import { type Json } from "./wire/json";

// No part of this page asks a service.
globalThis.fetch = async () =>
  new Response('{"faultstring": "This page has no service."}', {
    status: 404,
    headers: { "Content-Type": "application/json", "X-OpenStack-Request-Id": "req-none" },
  });

const HOSTILE = "<b>rack\u202e1</b>";
const MINUTE = 60_000;
const ago = (minutes: number) => new Date(Date.now() - minutes * MINUTE).toISOString();
const nothing = () => undefined;

const RESULTS =
  "done complete partial failed aborted running waiting held pending kept waived starting paused refused ok warning unknown";

const step = (ordinal: number, state: string, facts: Json = {}): Json => ({
  ordinal,
  interface: "deploy",
  step: ordinal ? "erase_devices" : "erase_devices_metadata",
  state,
  attempt: 1,
  ...facts,
});

const run = (state: string, steps: Json[], facts: Json = {}): Json => ({
  uuid: "1be26c0b-03f2-4d2e-ae87-c02d7f33c123",
  node_uuid: "2f4c7a0e-6b1d-4a53-9a35-5d6f0f0f7d55",
  verb: "clean",
  state,
  requester: "ann",
  started_at: ago(30),
  steps,
  ...facts,
});

const DONE = {
  started_at: ago(30),
  ended_at: ago(29),
  duration_seconds: 60,
  usual_seconds: { p50: 50, p90: 70 },
};
const CAUSE = { code: "BmcUnreachable", text: "The disk is read-only.", cause: null };

const RUNS: Record<string, Json> = {
  running: run("running", [
    step(0, "done", DONE),
    step(1, "running", { started_at: ago(5), usual_seconds: { p50: 240, p90: 300 } }),
    step(2, "pending"),
  ]),
  "without usual times": run("running", [step(1, "running", { started_at: ago(5) })]),
  overdue: run("waiting", [
    step(1, "waiting", { started_at: ago(200), overdue: true, usual_seconds: { p50: 240, p90: 300 } }),
    step(2, "pending", { usual_seconds: { p50: 20, p90: 30 } }),
  ]),
  failed: run("failed", [step(0, "done", DONE), step(1, "failed", { ...DONE, attempt: 2, error: CAUSE })], {
    ended_at: ago(1),
  }),
  "failed before its first step": run("failed", [], { ended_at: ago(1), error: CAUSE }),
  retry: run(
    "done",
    [
      step(0, "done", { done_in: "2f4c7a0e-6b1d-4a53-9a35-5d6f0f0f7d55" }),
      step(1, "skipped", { waiver: { reason: "no disks" } }),
    ],
    { ended_at: ago(1), retry_of: "2f4c7a0e-6b1d-4a53-9a35-5d6f0f0f7d55" },
  ),
};

const planned = (facts: Json): Json => ({
  accepted: true,
  faults: [],
  leads_to: "manageable",
  ramdisk: true,
  restarts: 2,
  seconds: { p50: 300, p90: 400 },
  destroys: [],
  ...facts,
  steps: [
    {
      ...step(0, ""),
      by: "agent",
      destroys: ["data"],
      restarts: 1,
      usual_seconds: { p50: 4, p90: 6, samples: 9 },
    },
    { ...step(1, ""), by: "bmc", destroys: null, restarts: 0 },
  ],
});

const PLANS: Record<string, Json> = {
  accepted: planned({}),
  refused: planned({
    accepted: false,
    faults: [
      { path: "/clean_steps/0/step", text: "The node has no such step." },
      { path: "/target", text: "The node is held." },
    ],
  }),
};

const CHECKS = (["ok", "warning", "failed", "unknown", "unknown"] as const).map((status, ms) => ({
  status,
  ms,
  name: "bmc",
  where: "node rack1",
  text: `This check is ${status}.`,
  do: status === "failed" ? "Correct bmc_port." : null,
}));

const NODES = ["available", "active", "clean failed"].map((provision_state, at) => ({
  uuid: `${at}be26c0b-03f2-4d2e-ae87-c02d7f33c123`,
  name: at ? `rack${at}` : HOSTILE,
  provision_state,
}));

const MEMBERS = "done failed refused starting running pending skipped aborted"
  .split(" ")
  .map((result, at) => ({
    uuid: String(at),
    name: at ? `rack${at}` : HOSTILE,
    wave: at < 2 ? 0 : 1,
    result,
  }));

const IMPORTS = [
  { at: ago(86_400), release: "35 (2026.1)", trial: false, observed: 9998, unread: 4 },
  { at: ago(90_000), release: HOSTILE, trial: false, observed: 0, unread: 0 },
];

const entry = (key: string, facts: Partial<Entry>): Entry => ({
  key,
  at: ago(Number(key)),
  time: 0,
  group: "changes",
  node: { uuid: NODES[0]?.uuid ?? "", name: HOSTILE },
  person: "ann",
  process: null,
  text: "",
  changes: [],
  failed: false,
  inside: [],
  ...facts,
});

const OF_RUN = {
  uuid: "r1",
  verb: "clean",
  seconds: 360,
  step: null,
  error: null,
  retry: false,
  known: false,
};
const ENTRIES: Entry[] = [
  entry("1", {
    changes: [
      { path: "extra/rack", old: null, new: HOSTILE },
      { path: "driver_info", old_length: 300 },
    ],
  }),
  entry("2", { person: null, process: "time-outs (c1)", text: "Power off → on" }),
  entry("3", { group: "runs", run: { ...OF_RUN, state: "done" }, batch: { uuid: "b1", name: "nightly" } }),
  entry("4", {
    group: "runs",
    failed: true,
    run: {
      ...OF_RUN,
      state: "failed",
      step: "deploy.erase_devices",
      error: "The disk is read-only.",
      retry: true,
    },
  }),
  entry("5", {
    group: "batches",
    node: null,
    batch: { uuid: "b1", name: "nightly" },
    inside: [entry("6", { group: "runs", run: { ...OF_RUN, state: "running", seconds: null } })],
  }),
];

/** A part in one of its states. */
const Part = ({ name, children }: { name: string; children?: ComponentChildren }) => (
  <section aria-label={name}>
    <h2>{name}</h2>
    {children}
  </section>
);

function Rows({ plain = false }: { plain?: boolean }) {
  const [chosen, setChosen] = useState(new Set([NODES[1]?.uuid ?? ""]));
  return (
    <Table
      label={plain ? "Empty nodes" : "Nodes"}
      rows={plain ? [] : NODES}
      id={(node) => node.uuid}
      columns={[
        { key: "name", title: "Name", cell: nodeLink },
        { key: "state", title: "State", cell: (node) => <State state={node.provision_state} /> },
      ]}
      selected={chosen}
      onSelect={setChosen}
      sort="name"
      onSort={nothing}
      onOpen={nothing}
    />
  );
}

function Acts() {
  const [body, setBody] = useState<Json>(NEW_HOLD);
  const fault = new Fault("Node is locked by host c1.", {
    status: 409,
    request: "req-1",
    address: "PUT /v1/x",
  });
  const send = nothing;
  return (
    <>
      <ActForm title="Act that is ready" button="Send" send={send} />
      <ActForm title="Act that destroys" button="Erase" danger send={send} note="erases all disks" />
      <ActForm title="Act that is refused" button="Send" send={send} fault={fault} />
      <ActForm title="Act that waits" button="Send" send={send} known={false} holder="c1" />
      <ActForm title="Act under way" button="Send" send={send} busy />
      <ActForm title="Hold" button="Hold" send={send}>
        <HoldForm body={body} onChange={setBody} />
      </ActForm>
      <Changes seen={{ name: "rack1", owner: null }} now={{ name: HOSTILE, owner: "team-b" }} />
    </>
  );
}

function Parts() {
  return (
    <>
      <h1>Parts of the window</h1>
      <Part name="Activity">
        <div class="activity">
          <Entries entries={ENTRIES} fleet label="A day" />
        </div>
      </Part>
      <Part name="States">
        {[...Object.keys(STATES), null].map((state) => (
          <State key={state} state={state} />
        ))}
      </Part>
      <Part name="Results">
        {RESULTS.split(" ").map((result) => (
          <Result key={result} result={result} />
        ))}{" "}
        <Result result="failed" word={false} />
      </Part>
      <Part name="Texts">
        {bdi(HOSTILE)} {bdi({ a: 1 })} <Ago at={ago(90)} /> <Ago at={ago(0)} ago /> {stamp(ago(1))}{" "}
        {filters(new URLSearchParams("owner=team-b&provision_state=active"))} <Curl path="/v1/nodes" />
      </Part>
      <Part name="Fields">
        <div class="form-grid">
          <Field label="Name" value="rack1" />
          <Field label="Password" type="password" />
          <Select
            label="Driver"
            value="redfish"
            onChange={nothing}
            choices={["ipmi", ["redfish", "Redfish"]]}
          />
        </div>
        <Checkbox label="Chosen" on onChange={nothing} /> <Checkbox label="Not chosen" onChange={nothing} />
      </Part>
      <Part name="Buttons">
        <div class="actions">
          <Refusable onClick={nothing} primary>
            Retry…
          </Refusable>
          <Refusable onClick={nothing} refused={{ text: "The node is held." }}>
            Clean…
          </Refusable>
          <Refusable onClick={nothing} now>
            pxe…
          </Refusable>
          <Menu name="Power">
            <button>Reboot…</button>
          </Menu>
        </div>
      </Part>
      <Part name="Faults">
        <FaultBox fault={new Fault("No answer from the service. Is it up?")} path="/v1/nodes" />
        <FaultBox fault={new Fault(`${HOSTILE} is unknown.`, { status: 404, request: "req-1" })} />
      </Part>
      <Part name="Loading">
        <Skeleton rows={2} />
      </Part>
      <Part name="Lists">
        <List
          label="Erasures"
          head={["Node", "Serial"]}
          days={[ago(1), ago(3 * 24 * 60)]}
          rows={[
            [nodeLink({ name: "rack1" }), HOSTILE],
            ["", "S3EV"],
          ]}
        />
        <List label="Empty" head={["Node"]} rows={[]} />
        <Tree of={{ name: HOSTILE, tags: ["a", "b"], nothing: null, empty: {}, disks: [{ size: 5 }] }} />
        <Checks checks={CHECKS} />
      </Part>
      <Part name="Table">
        <Rows />
        <Rows plain />
        <Bulk shown={NODES} />
      </Part>
      <Part name="Squares">
        <Squares
          label="Squares of a batch"
          groups={waves([2, 6], MEMBERS)}
          selected={new Set(["3"])}
          onSelect={nothing}
          onPress={nothing}
          about={() => HOSTILE}
        />
      </Part>
      {Object.entries(RUNS).map(([name, each]) => (
        <Part key={name} name={`Run, ${name}`}>
          <Timeline run={each} why={{ waits_for: { what: "agent", since: ago(5), given_up_at: ago(-5) } }} />
        </Part>
      ))}
      <Part name="States around a node">
        <Machine
          why={{
            provision_state: "cleaning",
            run: { verb: "clean" },
            verbs: [{ target: "abort", leads_to: "clean failed" }],
          }}
        />
      </Part>
      {Object.entries(PLANS).map(([name, plan]) => (
        <Part key={name} name={`Plan, ${name}`}>
          <Plan plan={plan} />
        </Part>
      ))}
      <Part name="Observed machines">
        <ObservedBar imports={IMPORTS} releases reload={() => {}} />
        <ObservedBar
          imports={[{ ...IMPORTS[0], observed: 1, unread: 1, trial: true }]}
          releases
          reload={() => {}}
        />
      </Part>
      <Part name="Confirmations">
        {["name", "unknown", "tick", "none"].map((kind) => (
          <Confirm key={kind} kind={kind} name="rack1" onSure={nothing} />
        ))}
      </Part>
      <Part name="Acts">
        <Acts />
      </Part>
    </>
  );
}

set({ utc: true });
select(new Set([NODES[0]?.uuid ?? ""]));
render(<Parts />, document.getElementById("parts") as HTMLElement);
