import { describe, expect, test } from "vitest";
import { beginning, chosen, grouped, GROUPINGS, markOf, switchesOf } from "./heat";
import { layout } from "./squares";

const NOW = Date.parse("2026-11-30T12:00:00Z");
const beside = { failedAt: (uuid: string) => (uuid === "bad" ? "2026-11-30T11:30:00Z" : null), now: NOW };

test.each([
  ["rack3-21", "rack3"],
  ["rack3-u21", "rack3"],
  ["r20-u18", "r20"],
  ["rack3u21", "rack3"],
  ["big-00014", "big"],
  ["node17", "node"],
  ["dc1-r2-05", "dc1-r2"],
  ["gpu", "gpu"],
  ["17", "17"],
  ["", ""],
])("%s begins with %s", (name, group) => {
  expect(beginning(name)).toBe(group);
});

test("the switch of a node is that of its port for PXE, by its name", () => {
  const port = (node: string, link: unknown, pxe = true) => ({
    node_uuid: node,
    pxe_enabled: pxe,
    local_link_connection: link,
  });
  const found = switchesOf([
    port("a", { switch_info: "leaf-2" }, false),
    port("a", { switch_info: "leaf-1", switch_id: "00:01" }),
    port("b", { switch_id: "00:02" }),
    port("c", {}),
    port("d", null),
  ]);
  expect([...found]).toEqual([
    ["a", "leaf-1"],
    ["b", "00:02"],
  ]);
});

describe("marks", () => {
  test("states of one colour have shapes of their own", () => {
    const states = ["active", "available", "manageable", "enroll", "cleaning", "clean failed", "new"];
    const marks = states.map((provision_state) => markOf("state", { provision_state }, beside));
    expect(new Set(marks.slice(0, 6).map(({ shape, tone }) => `${shape} ${tone}`)).size).toBe(6);
    expect(marks.map(({ word }) => word)).toEqual(states);
  });

  test("an older state is fuller, a newer failure is fuller", () => {
    const age = (at: string | null) => markOf("age", { provision_updated_at: at }, beside);
    expect(age("2026-11-30T11:59:00Z")).toMatchObject({ shape: "level1", word: "under 1 h" });
    expect(age("2026-09-01T00:00:00Z")).toMatchObject({ shape: "level5", word: "30 days and more" });
    // A clock that is behind is no fault.
    expect(age("2026-11-30T13:00:00Z").shape).toBe("level1");
    expect(age(null)).toMatchObject({ shape: "dot", word: "unknown" });
    expect(markOf("failure", { uuid: "bad" }, beside)).toMatchObject({ shape: "level5", tone: "fail" });
    expect(markOf("failure", { uuid: "good" }, beside)).toMatchObject({ shape: "dot", word: "none" });
  });

  test("data and health that are not known are no good news", () => {
    expect(markOf("data", { data_state: "dirty" }, beside).tone).toBe("fail");
    expect(markOf("data", {}, beside)).toMatchObject({ tone: "quiet", word: "unknown" });
    expect(markOf("health", { health: "Critical" }, beside).shape).toBe("triangle");
    expect(markOf("health", { health: null }, beside)).toMatchObject({ tone: "quiet", word: "unknown" });
  });
});

describe("groups", () => {
  const nodes = Array.from({ length: 5000 }, (_, at) => ({
    uuid: `${at}`,
    name: `r${Math.floor(at / 40)}-${at % 40}`,
    provision_state: "active",
  }));
  const draw = (node: object) => markOf("state", node, beside);

  test("stand in the order of their numbers, those without a group at the end", () => {
    const found = grouped(
      [{ uuid: "x", name: "x" }, ...nodes],
      ({ name }) => (name === "x" ? "" : beginning(name)),
      "no rack",
      draw,
    );
    expect(found).toHaveLength(126);
    expect(found.slice(0, 3).map(({ title }) => title)).toEqual(["r0", "r1", "r2"]);
    expect(found.at(-1)).toMatchObject({ title: "no rack", squares: [{ id: "x" }] });
  });

  test("5 000 nodes of 125 racks fit in 1 200 by 400", () => {
    const all = layout(
      grouped(nodes, ({ name }) => beginning(name), "", draw),
      1200,
      400,
    );
    expect(all.placed).toHaveLength(5000);
    expect(all.height).toBeLessThanOrEqual(400);
  });

  test("too many groups are one group at the end", () => {
    const found = grouped(nodes, ({ uuid }) => uuid, "none", draw);
    expect(found).toHaveLength(401);
    expect(found.at(-1)!.title).toBe("4600 more");
    expect(found.at(-1)!.squares).toHaveLength(4600);
  });
});

test("an address with another key gets the first one", () => {
  expect(chosen(GROUPINGS, "switch")).toBe("switch");
  expect(chosen(GROUPINGS, "__proto__")).toBe("name");
});
