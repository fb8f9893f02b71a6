import { beforeEach, expect, test, vi } from "vitest";
import { changeRoute, go, href, path, request, route } from "./route";

beforeEach(() => go("#/v1/nodes"));

test("the address is the path of the API, with arguments of the view apart", () => {
  go("#/v1/nodes?owner=team-b&~q=rack3&~sel=a,b");
  expect(route.value).toMatchObject({
    path: "/v1/nodes",
    parts: ["nodes"],
    view: { q: "rack3", sel: "a,b" },
  });
  expect(String(route.value.query)).toBe("owner=team-b");
  expect(request({ limit: "5" })).toBe("/v1/nodes?owner=team-b&limit=5");
});

test("parts are decoded, and a broken one stays as it is", () => {
  go(`#${path("nodes", "a/b c")}`);
  expect(route.value.parts).toEqual(["nodes", "a/b c"]);
  go("#/v1/nodes/%zz");
  expect(route.value.parts).toEqual(["nodes", "%zz"]);
});

test("any other fragment is the first page", () => {
  go("#main-content");
  expect(route.value.path).toBe("/v1/nodes");
});

test("an empty argument is removed, and the view stays", () => {
  go("#/v1/nodes?owner=team-b&~q=rack3");
  changeRoute({ owner: "", driver: "redfish" });
  expect(href(route.value.path, route.value.query, route.value.view)).toBe(
    "#/v1/nodes?driver=redfish&~q=rack3",
  );
});

test("a long selection is kept with the entry and not in the address", () => {
  const push = vi.spyOn(history, "pushState");
  const sel = "x".repeat(6000);
  go("#/v1/nodes");
  changeRoute({ "~sel": sel });
  expect(push).toHaveBeenLastCalledWith(sel, "", "#/v1/nodes");
});
