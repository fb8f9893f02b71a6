import { expect, test } from "vitest";
import { portPatch } from "./port";

const PORT = {
  pxe_enabled: true,
  name: null,
  physical_network: "net1",
  local_link_connection: { port_id: "7" },
};

test("a form of a port makes the operations of what was changed", () => {
  const same = {
    pxe_enabled: true,
    name: "",
    physical_network: "net1",
    local_link_connection: { port_id: "7" },
  };
  expect(portPatch(PORT, same)).toEqual([]);
  const now = { ...same, pxe_enabled: false, physical_network: "", local_link_connection: { port_id: "8" } };
  expect(portPatch(PORT, now)).toEqual([
    { op: "add", path: "/pxe_enabled", value: false },
    { op: "remove", path: "/physical_network" },
    { op: "add", path: "/local_link_connection/port_id", value: "8" },
  ]);
});

test("a port without a switch gets it as a whole", () => {
  const port = { ...PORT, local_link_connection: null };
  expect(portPatch(port, { local_link_connection: { port_id: "8" } })).toEqual([
    { op: "add", path: "/local_link_connection", value: { port_id: "8" } },
  ]);
});
