import { expect, test } from "vitest";
import { inverseOf, shownValue } from "./review";
import { operations, readable } from "./settings";
import { differing } from "./toasts";

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

test("Undo of a patch takes back what it changed, in reverse", () => {
  const node = { owner: "a", lessee: null, driver_info: { address: "https://a", password: "******" } };
  const patch = [
    { op: "add", path: "/owner", value: "b" },
    { op: "add", path: "/lessee", value: "c" },
    { op: "remove", path: "/driver_info/address" },
    { op: "add", path: "/driver_info/note", value: "x" },
  ];
  expect(inverseOf(node, patch)).toEqual([
    { op: "remove", path: "/driver_info/note" },
    { op: "add", path: "/driver_info/address", value: "https://a" },
    { op: "remove", path: "/lessee" },
    { op: "add", path: "/owner", value: "a" },
  ]);
});

test("there is no Undo of what answers mask or of moved items", () => {
  const node = { driver_info: { password: "******", url: "https://a:******@b", list: [1, 2] } };
  for (const path of ["/driver_info/password", "/driver_info/url", "/driver_info", "/driver_info/list/0"])
    expect(inverseOf(node, [{ op: "replace", path, value: "x" }])).toBeNull();
  expect(inverseOf(node, [{ op: "move", from: "/driver_info/list", path: "/extra/list" }])).toBeNull();
});

test("an act is the last change if the node reads as the act alone makes it", () => {
  const before = {
    maintenance: false,
    maintenance_reason: null,
    traits: ["B", "A"],
    updated_at: "1",
    owner: null,
  };
  const after = { ...before, maintenance: true, maintenance_reason: "" };
  const read = {
    ...after,
    maintenance_reason: null,
    traits: ["A", "B"],
    updated_at: "2",
    reservation: "host",
  };
  expect(differing(after, read)).toEqual([]);
  expect(differing(after, { ...read, owner: "b" })).toEqual(["owner"]);
  expect(differing(after, { ...read, maintenance_reason: "theirs" })).toEqual(["maintenance_reason"]);
});
