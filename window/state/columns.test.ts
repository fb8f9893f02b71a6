import { expect, test } from "vitest";
import { bmcOf } from "./columns";

test("the host of the BMC is found in the address of any driver", () => {
  expect(bmcOf({ redfish_address: "https://10.0.3.7", redfish_username: "root" })).toBe("10.0.3.7");
  expect(bmcOf({ redfish_address: "https://u:******@bmc-7.example:8443/redfish/v1" })).toBe(
    "bmc-7.example:8443",
  );
  expect(bmcOf({ ipmi_address: "10.0.3.8" })).toBe("10.0.3.8");
  expect(bmcOf({})).toBe("");
});
