import { expect, test } from "vitest";
import { floorOf, history, names, passes, readFrom, runsSince, untold } from "./activity";
import { actors } from "./actors";
import { type FeedEvent, groupsOf, kindsOf } from "./kinds";

let cursor = 0;
const event = (kind: string, more: Record<string, any> = {}): FeedEvent =>
  ({
    cursor: String((cursor += 1)),
    at: `2026-11-30T02:00:${String(cursor % 60).padStart(2, "0")}.123456+00:00`,
    node: "n1",
    name: "rack1",
    kind,
    event: null,
    before: null,
    after: null,
    run: null,
    requester: "alice",
    project: null,
    request_id: `req-${cursor}`,
    conductor: null,
    data: {},
    ...more,
  }) as FeedEvent;

const NOTHING = { events: [], runs: [], batches: [] };
const run = (uuid: string, more = {}) => ({
  uuid,
  node_uuid: "n1",
  node_name: "rack1",
  verb: "clean",
  state: "done",
  requester: "bob",
  conductor: "c1",
  started_at: "2026-11-30T01:00:00+00:00",
  ended_at: "2026-11-30T01:06:00+00:00",
  error: null,
  retry_of: null,
  ...more,
});

test.each([
  [{ requester: "alice", conductor: null }, "alice", null],
  [{ requester: "alice", conductor: "c1" }, "alice", "c1"],
  [{ requester: "conductor:time-outs", conductor: "c1" }, null, "time-outs (c1)"],
  [{ requester: "conductor:batches", conductor: null }, null, "batches"],
  [{ requester: "restore of the database" }, null, "restore of the database"],
  [{ requester: null, conductor: "c1" }, null, "c1"],
  [{}, null, null],
])("%o has a person and a process apart", (of, person, process) =>
  expect(actors(of)).toEqual({ person, process }),
);

test("a change has old and new values, and no text", () => {
  const changes = [{ path: "extra/rack", old: "r01", new: "r02" }];
  const [entry] = history({
    ...NOTHING,
    events: [event("node_updated", { data: { fields: ["extra"], changes } })],
  });
  expect(entry).toMatchObject({ group: "changes", person: "alice", text: "", changes });
});

test("a change whose values are hidden has its fields", () => {
  const [entry] = history({
    ...NOTHING,
    events: [event("node_updated", { data: { fields: ["driver_info"], changes: [] } })],
  });
  expect(entry?.text).toBe("Changed driver_info");
});

test("maintenance is told by its reason", () => {
  const maintenance = (on: boolean, reason: string | null) =>
    event("node_updated", {
      data: {
        fields: ["maintenance", "maintenance_reason"],
        changes: [
          { path: "maintenance", old: !on, new: on },
          { path: "maintenance_reason", old: null, new: reason },
        ],
      },
    });
  const events = [maintenance(true, "disk"), maintenance(false, null)];
  const found = history({ ...NOTHING, events }, { group: "maintenance" });
  expect(found.map(({ text }) => text)).toEqual(["Maintenance ended", "Maintenance: disk"]);
});

test("an order of power is one entry, at its begin", () => {
  const order = { request_id: "req-a", conductor: "c1", before: "power off", after: "power on" };
  const events = ["start", "end", "changed"].map((word) => event("power", { ...order, event: word }));
  const found = history({ ...NOTHING, events });
  expect(found).toHaveLength(1);
  expect(found[0]).toMatchObject({ at: events[0]?.at, text: "Power off → on", process: "c1", failed: false });
});

test("an order of power that failed says why", () => {
  const events = ["start", "fail"].map((word) =>
    event("power", {
      request_id: "r",
      event: word,
      after: "power on",
      data: word === "fail" ? { error: "no answer" } : {},
    }),
  );
  expect(history({ ...NOTHING, events })[0]).toMatchObject({
    failed: true,
    text: "Power on failed: no answer",
  });
});

test("a run has its moves, steps and power changes inside", () => {
  const events = [
    event("provision", { run: "r1", event: "provide", before: "manageable", after: "cleaning" }),
    event("power", { run: "r1", event: "changed", after: "power on" }),
    event("erasure", {
      run: "r1",
      event: "complete",
      data: { erasure: "e1", result: "complete", level: "clear" },
    }),
    event("provision", { run: "r1", event: "done", before: "cleaning", after: "available" }),
  ];
  const [entry, ...others] = history({ ...NOTHING, events, runs: [run("r1")] });
  expect(others).toEqual([]);
  expect(entry).toMatchObject({ person: "bob", process: "c1", failed: false });
  expect(entry?.run).toMatchObject({ verb: "clean", state: "done", seconds: 360 });
  expect(entry?.inside.map(({ group, erasure }) => [group, erasure])).toEqual([
    ["data", "e1"],
    ["power", undefined],
  ]);
});

test("a run of a deleted node is told by its events", () => {
  const events = [
    event("provision", { run: "r1", event: "provide", before: "manageable", after: "cleaning" }),
    event("provision", { run: "r1", event: "fail", after: "clean failed", data: { error: "read-only" } }),
  ];
  const [entry] = history({ ...NOTHING, events });
  expect(entry?.run).toMatchObject({ verb: "provide", state: "failed", error: "read-only", seconds: 1 });
});

test("a run that began before its events has no verb without its document", () => {
  const events = [event("provision", { run: "r1", event: "done", before: "cleaning", after: "available" })];
  expect(history({ ...NOTHING, events })[0]?.run?.verb).toBeNull();
});

test("documents are read of runs whose begin is not told, unless their node is deleted", () => {
  const ends = (run: string, node: string) => event("provision", { run, node, event: "done" });
  const events = [
    event("provision", { run: "r1", event: "clean" }),
    ends("r1", "n1"),
    ends("r2", "n1"),
    ends("r3", "n2"),
    ends("r4", "n1"),
    event("node_deleted", { node: "n2" }),
  ];
  expect(untold(events, new Set(["r4"]))).toEqual(["r2"]);
});

test("the end of a run is that of its last event, if its document is older", () => {
  const events = [event("provision", { run: "r1", event: "done", after: "available" })];
  const runs = [run("r1", { state: "running", ended_at: null })];
  expect(history({ ...NOTHING, events, runs })[0]?.run?.state).toBe("done");
});

test("who asks for an abort stands beside the run, and who ends it in the run", () => {
  const events = [
    event("provision", { run: "r1", event: "clean", requester: "bob" }),
    event("abort_requested", { run: "r1", requester: "carol", data: { step: "deploy.erase_devices" } }),
    event("provision", { run: "r1", event: "abort", requester: "carol" }),
  ];
  const found = history({ ...NOTHING, events });
  expect(found.map(({ person, text, of }) => [person, text, of])).toEqual([
    ["carol", "Abort requested, after the step deploy.erase_devices", "r1"],
    ["bob", "by carol", undefined],
  ]);
});

const BATCH = { document: { uuid: "b1", name: "nightly", requester: "bob" }, runs: new Set(["r1"]) };

test("a batch contains its runs in the fleet, and is a mark of the run of a node", () => {
  const events = [
    event("batch_started", { node: null, data: { batch: "b1", name: "nightly", nodes: 1 } }),
    event("batch_paused", {
      node: null,
      requester: "conductor:batches",
      data: { batch: "b1", by: "failures" },
    }),
  ];
  const given = { events, runs: [run("r1"), run("r2")], batches: [BATCH] };
  const fleet = history(given);
  expect(fleet.map(({ key }) => key)).toEqual(["r2", "b1"]);
  expect(fleet[1]?.inside.map(({ text, key }) => text || key)).toEqual([
    "Paused, because too many nodes failed",
    "Begun with 1 node",
    "r1",
  ]);
  expect(fleet[1]).toMatchObject({ person: "bob", process: null, at: "2026-11-30T01:00:00+00:00" });
  const one = history({ ...given, events: [] }, { node: true });
  expect(one.map(({ key, batch }) => [key, batch?.name])).toEqual([
    ["r1", "nightly"],
    ["r2", undefined],
  ]);
});

test("a batch that is not read is told by its events", () => {
  const events = [event("batch_started", { node: null, data: { batch: "b9", name: "old", nodes: 3 } })];
  expect(history({ ...NOTHING, events })[0]?.batch).toMatchObject({
    uuid: "b9",
    name: "old",
    requester: "alice",
  });
});

test("a filter by group takes events out of their runs", () => {
  const events = [event("power", { run: "r1", event: "changed", after: "power on" }), event("hold_added")];
  const found = history({ ...NOTHING, events, runs: [run("r1")] }, { group: "power" });
  expect(found.map(({ text, of }) => [text, of])).toEqual([["Power on", "r1"]]);
});

test("an entry passes by its own process, or those inside it", () => {
  const events = [
    event("batch_started", { node: null, requester: "bob", data: { batch: "b1", nodes: 1 } }),
    event("power", {
      event: "changed",
      requester: "conductor:power sync",
      conductor: "c2",
      after: "power on",
    }),
  ];
  const found = history({ events, runs: [run("r1", { requester: "dora" })], batches: [BATCH] });
  expect(names(found, "person")).toEqual(["bob", "dora"]);
  expect(names(found, "process")).toEqual(["c1", "power sync (c2)"]);
  const shown = (process: string) =>
    found.filter((entry) => passes(entry, process)).map(({ group }) => group);
  expect(shown("c1")).toEqual(["batches"]);
  expect(shown("power sync (c2)")).toEqual(["power"]);
  expect(shown("")).toEqual(["power", "batches"]);
});

test("kinds of events that only repeat steps are not read, and those without a node not for one", () => {
  expect(kindsOf("power", false)).toEqual(["power"]);
  expect(kindsOf("maintenance", true)).toEqual(["node_updated", "fault"]);
  expect(kindsOf("", false)).not.toContain("step_started");
  expect(kindsOf("", false)).toContain("webhook_created");
  expect(kindsOf("", true).filter((kind) => /batch|webhook|runbook/.test(kind))).toEqual([]);
  expect(groupsOf(true).map(([group]) => group)).not.toContain("batches");
});

test("an unknown kind is told by its name", () => {
  expect(history({ ...NOTHING, events: [event("node_painted")] })[0]?.text).toBe("Node painted");
});

test("runs before the oldest event that is read are not shown, unless an event tells of them", () => {
  const events = [event("provision", { run: "r2", event: "done" })];
  const floor = Date.parse("2026-11-30T02:00:00Z");
  const late = run("r3", { started_at: "2026-11-30T02:05:00+00:00" });
  expect(runsSince([run("r1"), run("r2"), late], events, floor).map(({ uuid }) => uuid)).toEqual([
    "r2",
    "r3",
  ]);
});

test("what is shown begins with the oldest event while there are older ones", () => {
  const oldest = event("hold_added", { at: "2026-11-30T02:00:00+00:00" });
  const [since, first] = [Date.parse("2026-11-24T00:00:00Z"), Date.parse(oldest.at)];
  expect(floorOf(since, oldest, true)).toBe(first);
  expect(floorOf(since, oldest, false)).toBe(since);
  expect(floorOf(null, oldest, false)).toBe(first);
  expect(floorOf(null, undefined, false)).toBeNull();
});

test("events that are dropped do not ask for all runs anew", () => {
  const at = Date.parse("2026-11-30T02:07:00Z");
  expect(readFrom(at + 1000)).toBe(readFrom(at));
  expect(readFrom(at)).toBeLessThanOrEqual(at);
});
