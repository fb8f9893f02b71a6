import { expect, test } from "vitest";
import { json } from "../wire/curl";
import { driveOf, encoded } from "./instance";

test("a config drive has what was typed", () => {
  expect(driveOf({})).toBeUndefined();
  expect(driveOf({ hostname: "", key: "", user_data: "" })).toBeUndefined();
  expect(driveOf({ hostname: "n1", key: "ssh-ed25519 AAA" })).toEqual({
    meta_data: { hostname: "n1", public_keys: { default: "ssh-ed25519 AAA" } },
  });
  expect(driveOf({ user_data: "#cloud-config" })).toEqual({ user_data: "#cloud-config" });
  expect(driveOf({ hostname: "n1", file: "H4sI" })).toBe("H4sI");
});

test("a compressed file is sent in Base64, a text as it is", () => {
  expect(encoded(new Uint8Array([0x1f, 0x8b, 0]))).toBe("H4sA");
  expect(encoded(new TextEncoder().encode("H4sIAAA=\n"))).toBe("H4sIAAA=");
});

test("a curl has a variable in place of a config drive", () => {
  const body = { target: "active", configdrive: { user_data: "password: hunter2" } };
  expect(json(body)).toBe(`'{"target":"active","configdrive":"'"$CONFIGDRIVE"'"}'`);
});
