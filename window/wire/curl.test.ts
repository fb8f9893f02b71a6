import { afterEach, describe, expect, test } from "vitest";

import { curl, json } from "./curl";
import { logInBasic, logOut } from "./login";

afterEach(logOut);

describe("curl", () => {
  test("words are quoted for a shell", () => {
    expect(curl("GET", "/v1/nodes/it's")).toContain(`"$api"'/v1/nodes/it'\\''s'`);
  });

  test("values of secret keys are variables, in patches too", () => {
    expect(json({ driver_info: { redfish_password: "hunter2" } })).not.toContain("hunter2");
    const patch = [{ op: "add", path: "/driver_info/redfish_password", value: "hunter2" }];
    expect(json(patch)).toContain('"$REDFISH_PASSWORD"');
    expect(json({ name: "rack1" })).toBe(`'{"name":"rack1"}'`);
  });

  test("passwords of URLs are variables", () => {
    const insert = json({ device_type: "cdrom", image_url: "https://ann:hunter2@images/rescue.iso" });
    expect(insert).toContain(`https://ann:'"$IMAGE_URL_PASSWORD"'@images/rescue.iso`);
    const patch = ["deploy_kernel", "deploy_ramdisk"].map((name) => ({
      op: "add",
      path: `/driver_info/${name}`,
      value: "https://ann:hunter2@images/a",
    }));
    expect(json(patch)).not.toContain("hunter2");
    expect(json(patch)).toContain('"$DEPLOY_RAMDISK_PASSWORD"');
    expect(json({ urls: ["http://a:one@x/", "http://a:two@x/"] })).toContain('"$URLS_PASSWORD_2"');
    expect(json({ settings: [{ name: "AdminPassword", value: "hunter2" }] })).not.toContain("hunter2");
  });

  test("the login is a variable", () => {
    logInBasic("ann", "hunter2");
    const command = curl("GET", "/v1/nodes");
    expect(command).toContain('-u "$USER"');
    expect(command).not.toContain("hunter2");
  });
});
