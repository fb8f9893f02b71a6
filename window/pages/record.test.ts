import { expect, test } from "vitest";
import { chainOf } from "./record";

const ALL: object[] = ["3", "2", "1"].map((name) => ({ uuid: name, sha256: `h${name}` }));
const chain = (uuid: string, previous: string | null, records: object[] = ALL, complete = true) => {
  const { before, text, broken } = chainOf({ uuid, previous }, records, complete);
  return [before?.uuid, text.replace(/:.*/, ""), broken];
};

test.each([
  ["3", "sha256:h2", ["2", "", false]],
  ["1", null, [undefined, "none, this is the first of the node", false]],
  // The record before it is another one than it names.
  ["3", "sha256:h1", ["2", "MISSING, or of another project's time", true]],
  ["1", "sha256:h0", [undefined, "MISSING, or of another project's time", true]],
  ["2", null, ["1", "NOT NAMED by this record, although it exists", true]],
  ["9", "sha256:h3", [undefined, "NOT KNOWN", true]],
])("the record %s that names %s", (uuid, previous, found) => expect(chain(uuid, previous)).toEqual(found));

test("an incomplete list proves no fault", () => {
  expect(chain("1", "sha256:h0", ALL, false)).toEqual([undefined, "not read", false]);
  expect(chain("1", null, ALL, false)).toEqual([undefined, "not read", false]);
  expect(chain("9", null, ALL, false)).toEqual([undefined, "not read", false]);
});
