import { expect, test } from "vitest";
import { confirmation, confirmationOf, confirmationOfUse } from "./confirm";

const plan = (destroys: string[] | null, more = {}) => ({ destroys, steps: [], restarts: 0, ...more });

test("the name is typed for what destroys data, unless they are erased already", () => {
  expect(confirmation(plan(["data"]), { data_state: "dirty" })).toBe("name");
  expect(confirmation(plan(["volumes"]), { data_state: "unknown" })).toBe("name");
  expect(confirmation(plan(["data"]), null)).toBe("name");
  expect(confirmation(plan(null), { data_state: "dirty" })).toBe("unknown");
  expect(confirmation(plan(["data"]), { data_state: "clean" })).toBe("none");
  expect(confirmation(plan(["settings"], { restarts: 1 }), { data_state: "dirty" })).toBe("none");
});

test("the name is typed for what ends the work of an active node", () => {
  for (const target of ["power off", "rebooting", "rescue"]) {
    expect(confirmationOfUse(target, "active")).toBe("name");
    expect(confirmationOfUse(target, "manageable")).toBe("none");
  }
  for (const target of ["power on", "soft power off", "abort"])
    expect(confirmationOfUse(target, "active")).toBe("none");
});

test("the number of nodes is typed for what may destroy the data of a batch", () => {
  expect(confirmationOf("provide", false)).toBe("name");
  expect(confirmationOf("provide", false, true)).toBe("none");
  expect(confirmationOf("power off", true)).toBe("name");
  expect(confirmationOf("power off", false)).toBe("none");
  expect(confirmationOf("abort", true)).toBe("none");
});
