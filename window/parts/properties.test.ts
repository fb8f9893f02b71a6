import { expect, test } from "vitest";
import { grouped, lacking, type Properties, valueOf } from "./properties";

const about = (group: string, order: number, required = false) => ({
  group,
  order,
  required,
  secret: false,
  default: null,
  example: null,
  description: "",
});
const PROPERTIES: Properties = {
  deploy_kernel: about("Ramdisk", 3),
  b_user: about("BMC", 2),
  a_address: about("BMC", 1, true),
};

test("keys come in the order of the driver, by group", () => {
  expect(grouped(PROPERTIES)).toEqual([
    ["BMC", ["a_address", "b_user"]],
    ["Ramdisk", ["deploy_kernel"]],
  ]);
});

test("required keys without a value are lacking", () => {
  expect(lacking(PROPERTIES, {})).toEqual(["a_address"]);
  expect(lacking(PROPERTIES, { a_address: "x" })).toEqual([]);
});

test("only rehearsals take JSON", () => {
  expect(valueOf("[1]", "BMC")).toBe("[1]");
  expect(valueOf("[1]", "Rehearsal")).toEqual([1]);
  expect(valueOf("2", "Rehearsal")).toBe(2);
  expect(valueOf("oh no", "Rehearsal")).toBe("oh no");
});
