import { expect, test } from "vitest";
import { confirmation, confirmationOf, confirmationOfUse, stageOfOrder } from "./confirm";

const plan = (destroys: string[] | null, more = {}) => ({ destroys, steps: [], restarts: 0, ...more });

test("the name is typed for what destroys data, unless they are erased already", () => {
  expect(confirmation(plan(["data"]), { data_state: "dirty" })).toBe("name");
  expect(confirmation(plan(["volumes"]), { data_state: "unknown" })).toBe("name");
  expect(confirmation(plan(["data"]), null)).toBe("name");
  expect(confirmation(plan(null), { data_state: "dirty" })).toBe("unknown");
  expect(confirmation(plan(["data"]), { data_state: "clean" })).toBe("none");
  expect(confirmation(plan(["data", "volumes"]), { data_state: "clean" })).toBe("name");
  expect(confirmation(plan(null), { data_state: "clean" })).toBe("unknown");
  expect(confirmation(plan(["settings"], { restarts: 1 }), { data_state: "dirty" })).toBe("none");
});

test("the name is typed for what ends the work of an active node", () => {
  for (const target of ["power off", "rebooting", "soft power off", "soft rebooting", "rescue"]) {
    expect(confirmationOfUse(target, "active")).toBe("name");
    expect(confirmationOfUse(target, "manageable")).toBe("none");
  }
  for (const target of ["power on", "abort"]) expect(confirmationOfUse(target, "active")).toBe("none");
});

test("the number of nodes is typed for what may destroy the data of a batch", () => {
  expect(confirmationOf("provide", false)).toBe("name");
  expect(confirmationOf("provide", false, true)).toBe("none");
  expect(confirmationOf("power off", true)).toBe("name");
  expect(confirmationOf("power off", false)).toBe("none");
  expect(confirmationOf("abort", true)).toBe("none");
});

test("an order has failed by the same error as before, and is unknown where its end cannot be told", () => {
  const stage = (node: object, target?: string) => stageOfOrder("BMC is away", target)(node).stage;
  const [used, broken] = [{ provision_state: "active" }, { provision_state: "clean failed" }];
  const [on, error] = [{ power_state: "power on" }, { last_error: "BMC is away" }];
  expect(stage({ ...used, ...on, target_power_state: "power on" }, "power on")).toBe("running");
  expect(stage({ ...used, ...on }, "power on")).toBe("done");
  expect(stage({ ...used, ...on, ...error }, "rebooting")).toBe("failed");
  expect(stage({ ...used, ...on }, "power off")).toBe("unknown");
  // A node in a fail state keeps its error through an order.
  expect(stage({ ...broken, ...on, ...error }, "power on")).toBe("done");
  expect(stage({ ...broken, ...on, ...error }, "soft power off")).toBe("unknown");
  expect(stage({ ...broken, ...on, ...error }, "rebooting")).toBe("unknown");
  expect(stage({ ...broken, ...on, last_error: "another" }, "power on")).toBe("failed");
  expect(stage(used)).toBe("done");
});
