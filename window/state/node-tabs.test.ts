import { describe, expect, it } from "vitest";
import { tabOf } from "./node-tabs";

const parts = (below: string) => ["nodes", "rack1-01", ...below.split("/").filter(Boolean)];

describe("the tab of an address", () => {
  it.each([
    ["", undefined, "overview"],
    ["why", undefined, "overview"],
    ["runs", undefined, "activity"],
    ["runs/1/log", undefined, "activity"],
    ["", "log", "activity"],
    ["history", undefined, "activity"],
    ["holds", undefined, "activity"],
    ["erasures", undefined, "activity"],
    ["inventory", undefined, "hardware"],
    ["", "fields", "settings"],
    ["", "settings", "settings"],
    ["ports", undefined, "settings"],
    ["states", undefined, "console"],
    ["states/console", undefined, "console"],
    ["nonsense", undefined, null],
    ["constructor", undefined, null],
  ])("/%s with ~tab=%s is %s", (below, named, tab) => expect(tabOf(parts(below), named)).toBe(tab));
});
