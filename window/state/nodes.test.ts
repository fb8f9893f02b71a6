import { afterEach, describe, expect, test } from "vitest";
import { fleet, type Node, named, needOf, predicate, remote } from "./nodes";

const node = (facts: Partial<Node>): Node => ({
  uuid: "1be26c0b-03f2-4d2e-ae87-c02d7f33c123",
  provision_state: "available",
  text: "",
  ...facts,
});

afterEach(() => {
  fleet.nodes.clear();
  fleet.overdue.value = new Map();
  fleet.holds.value = new Map();
});

describe("filters", () => {
  const accepts = (query: string, facts: Partial<Node>, words = "") =>
    predicate(new URLSearchParams(query), words)(node(facts));

  test("equality filters are those of the API", () => {
    expect(accepts("provision_state=active,available", {})).toBe(true);
    expect(accepts("provision_state=active", {})).toBe(false);
    expect(accepts("maintenance=yes", { maintenance: true })).toBe(true);
    expect(accepts("associated=true", { instance_uuid: null })).toBe(false);
    expect(accepts("conductor_group=Rack1", { conductor_group: "rack1" })).toBe(true);
  });

  test("all words must be found", () => {
    expect(accepts("", { text: "rack3-21\ngpu" }, "rack3 gpu")).toBe(true);
    expect(accepts("", { text: "rack3-21\ngpu" }, "rack3 cpu")).toBe(false);
  });

  test("filters that only the API knows are named", () => {
    expect(remote(new URLSearchParams("owner=a&held=true"))).toEqual(["held"]);
  });
});

test("overdue, failed, faulted and held nodes come first", () => {
  const late = node({ uuid: "late" });
  fleet.overdue.value = new Map([["late", {}]]);
  fleet.holds.value = new Map([["kept", []]]);
  const all = [
    late,
    node({ provision_state: "clean failed" }),
    node({ fault: "power failure" }),
    node({ uuid: "kept" }),
    node({ provision_state: "cleaning" }),
    node({}),
  ].map(needOf);
  expect(all).toEqual([...all].sort((a, b) => a - b));
  expect(new Set(all).size).toBe(all.length);
});

test("nodes without a name are listed by UUID", () => {
  fleet.nodes.set("b", node({ uuid: "b" }));
  fleet.nodes.set("a", node({ uuid: "a", name: "rack1" }));
  expect(named()).toHaveLength(2);
});
