import { describe, expect, test } from "vitest";
import {
  counted,
  drawn,
  type Group,
  indexAt,
  layout,
  type Mark,
  neighbour,
  outline,
  within,
} from "./squares";

const DONE: Mark = { shape: "full", tone: "stable", word: "done" };
const FAILED: Mark = { shape: "triangle", tone: "fail", word: "failed" };

const group = (title: string, count: number, mark = DONE): Group => ({
  title,
  squares: Array.from({ length: count }, (_, at) => ({ id: `${title}-${at}`, name: `${title}-${at}`, mark })),
});
const racks = (count: number, each: number) =>
  Array.from({ length: count }, (_, at) => group(`r${String(at).padStart(3, "0")}`, each));

describe("layout", () => {
  test.each([
    ["one group", [group("all", 5000)]],
    ["racks", racks(125, 40)],
    ["groups of very different sizes", [group("big", 4900), ...racks(10, 10)]],
    ["a dozen", [group("wave 1", 1), group("wave 2", 11)]],
  ])("%s fit in 1 200 by 400", (_, groups) => {
    const { height, placed, cell } = layout(groups, 1200, 400);
    expect(height).toBeLessThanOrEqual(400);
    expect(placed.every(({ x, y }) => x >= 0 && x + cell <= 1200 && y + cell <= height)).toBe(true);
    expect(new Set(placed.map(({ x, y }) => `${x} ${y}`)).size).toBe(placed.length);
  });

  test("few nodes have large squares, in one row", () => {
    const { cell, placed } = layout([group("wave 1", 12)], 1200, 400);
    expect(cell).toBe(18);
    expect(new Set(placed.map(({ y }) => y)).size).toBe(1);
  });

  test("what does not fit a narrow window becomes higher, not wider", () => {
    const { width, height, placed, cell } = layout(racks(125, 40), 360, 400);
    expect(height).toBeGreaterThan(400);
    expect(Math.max(...placed.map(({ x }) => x + cell))).toBeLessThanOrEqual(width);
  });

  test("no group, an empty group and no room are no fault", () => {
    expect(layout([], 1200, 400).placed).toEqual([]);
    expect(layout([group("none", 0)], 1200, 400).height).toBeGreaterThan(0);
    expect(layout([group("all", 3)], 0, 400).placed).toHaveLength(3);
  });
});

test("a point names its square, a frame all that it touches", () => {
  const all = layout([group("a", 4), group("b", 4)], 1200, 400);
  const [first, second] = all.placed;
  expect(indexAt(all, first!.x + 1, first!.y + 1)).toBe(0);
  expect(indexAt(all, -1, -1)).toBe(-1);
  const ids = within(all, { x: second!.x + 1, y: second!.y + 1 }, { x: first!.x + 1, y: first!.y + 2 });
  expect(ids).toEqual(["a-0", "a-1"]);
  expect(within(all, { x: 0, y: 0 }, { x: 1200, y: 400 })).toHaveLength(8);
});

test("keys lead to the squares beside, above and below, and stay at the edge", () => {
  const all = layout([group("a", 300)], 200, 400);
  const columns = all.placed.findIndex(({ y }) => y > all.placed[0]!.y);
  expect(neighbour(all, 0, "ArrowLeft")).toBe(0);
  expect(neighbour(all, 0, "ArrowRight")).toBe(1);
  expect(neighbour(all, 1, "ArrowDown")).toBe(1 + columns);
  expect(neighbour(all, 1 + columns, "ArrowUp")).toBe(1);
  expect(neighbour(all, 1, "ArrowUp")).toBe(1);
  expect(neighbour(all, 5, "End")).toBe(299);
  expect(neighbour(all, 299, "ArrowDown")).toBe(299);
  expect(neighbour(all, 400, "Home")).toBe(0);
});

test("each mark is one path, with its number", () => {
  const all = layout([group("a", 9), group("b", 2, FAILED)], 1200, 400);
  expect(drawn(all).map(({ word, count }) => [word, count])).toEqual([
    ["done", 9],
    ["failed", 2],
  ]);
  expect(counted([...group("a", 9).squares, ...group("b", 2, FAILED).squares])).toBe("9 done, 2 failed");
});

test("no two shapes are alike", () => {
  const shapes = ["full", "half", "empty", "ring", "triangle", "slash", "dot"] as const;
  const levels = ["level1", "level2", "level3", "level4"] as const;
  const paths = [...shapes, ...levels].map((shape) => outline(shape, 0, 0, 10));
  expect(new Set(paths).size).toBe(paths.length);
});
