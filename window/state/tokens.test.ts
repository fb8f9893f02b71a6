import { expect, test } from "vitest";
import { argument, split, suggestions, withoutTokens } from "./tokens";

const NODES = [
  { provision_state: "clean failed", resource_class: "gpu" },
  { provision_state: "available", resource_class: "gpu" },
  { provision_state: "available", resource_class: "cpu", owner: null },
];

test("a token is an argument of the API", () => {
  expect(argument("class:gpu")).toEqual(["resource_class", "gpu"]);
  expect(argument("state:clean-failed,available")).toEqual(["provision_state", "clean failed,available"]);
  expect(argument("state:failed")?.[1]).toContain("deploy failed");
  expect(argument("health:critical")).toEqual(["health", "Critical"]);
  expect(argument("State:active")).toEqual(["provision_state", "active"]);
});

test.each(["class:", "52:54:00", "rack2", "constructor:x", ":x", "https://x"])("%s is no token", (word) =>
  expect(argument(word)).toBeNull(),
);

test("words stay, and tokens leave the field", () => {
  expect(split(" rack2  class:gpu data:dirty ")).toEqual({
    words: "rack2",
    found: { resource_class: "gpu", data_state: "dirty" },
  });
});

test("a token that is being typed is no word", () => {
  expect(withoutTokens("rack2 class: 52:54 owner:a")).toBe("rack2 52:54");
});

test("names of tokens complete a word", () => {
  expect(suggestions("rack2 cla", NODES)).toEqual([{ text: "class:" }]);
  expect(suggestions("", NODES)).toEqual([]);
  expect(suggestions("rack2 ", NODES)).toEqual([]);
});

test("values complete a token, the most frequent first", () => {
  expect(suggestions("state:", NODES)).toEqual([
    { text: "state:available", count: 2 },
    { text: "state:clean-failed", count: 1 },
  ]);
  expect(suggestions("x class:C", NODES)).toEqual([{ text: "class:cpu", count: 1 }]);
  expect(suggestions("owner:", NODES)).toEqual([]);
});

test("after a comma one more state is completed", () => {
  const nodes = [
    { provision_state: "available" },
    { provision_state: "clean wait" },
    { provision_state: "active" },
  ];
  const found = suggestions("state:available,", nodes).map(({ text }) => text);
  expect(found.sort()).toEqual(["state:available,active", "state:available,clean-wait"]);
});

test("flags that only the service knows are completed", () => {
  expect(suggestions("held:", [{}])).toEqual([{ text: "held:true" }, { text: "held:false" }]);
});
