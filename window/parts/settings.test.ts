import { expect, test } from "vitest";
import { shownValue } from "./review";
import { operations, readable } from "./settings";

test("a form makes the operations of what was changed", () => {
  const before = { address: "https://a", user: "root", gone: "x", list: [1] };
  const now = { address: "https://b", user: "root", list: [1], password: "new", "a/b": "c" };
  expect(operations("/driver_info", before, now)).toEqual([
    { op: "add", path: "/driver_info/address", value: "https://b" },
    { op: "remove", path: "/driver_info/gone" },
    { op: "add", path: "/driver_info/password", value: "new" },
    { op: "add", path: "/driver_info/a~1b", value: "c" },
  ]);
});

test("secrets have no value in a form, and none in its review", () => {
  expect(readable({ a: "x", redfish_password: "******" })).toEqual({ a: "x" });
  expect(shownValue("/driver_info/redfish_password", "hunter2")).toBe("******");
  expect(shownValue("/driver_info", { ipmi_password: "hunter2", a: 1 })).toEqual({
    ipmi_password: "******",
    a: 1,
  });
});

test("the password of a URL has no place in a review", () => {
  expect(shownValue("/driver_info/deploy_kernel", "https://ann:hunter2@images/k")).toBe(
    "https://ann:******@images/k",
  );
  expect(shownValue("/instance_info", { image_url: "https://signed/x", kernel: "ftp://a:p@ss@b/k" })).toEqual(
    {
      image_url: "******",
      kernel: "ftp://a:******@b/k",
    },
  );
  expect(shownValue("/extra", { list: ["http://me@host/", "http://a:b@c"], count: 3 })).toEqual({
    list: ["http://me@host/", "http://a:******@c"],
    count: 3,
  });
  expect(shownValue("/driver_info/pin_password", 1234)).toBe("******");
});
