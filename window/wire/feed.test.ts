import { expect, test } from "vitest";
import { linesOf } from "./feed";

/** A body that comes in these pieces. */
const bodyOf = (...pieces: string[]) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece));
      controller.close();
    },
  });

async function read(...pieces: string[]) {
  const found: string[] = [];
  for await (const lines of linesOf(bodyOf(...pieces))) found.push(...lines);
  return found;
}

test("lines are whole, however they are cut", async () => {
  expect(await read('{"a":', "1}\n", '{"b":2}\n{"c"', ":3}\n")).toEqual(['{"a":1}', '{"b":2}', '{"c":3}']);
});

test("a last line without an end, and blank lines, are left out", async () => {
  expect(await read("one\n\ntw", "o")).toEqual(["one"]);
});

test("a character that is cut between two pieces stays whole", async () => {
  const bytes = new TextEncoder().encode("ü\n");
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(bytes.slice(0, 1));
      controller.enqueue(bytes.slice(1));
      controller.close();
    },
  });
  const found: string[] = [];
  for await (const lines of linesOf(body)) found.push(...lines);
  expect(found).toEqual(["ü"]);
});
