import { afterEach, expect, test, vi } from "vitest";
import { askLogin, logInBasic, logInToken, loginUser, loginWanted, logOut } from "./login";

afterEach(() => vi.unstubAllGlobals());

test("a page that was read by one user is not shown to another", () => {
  const reload = vi.fn();
  vi.stubGlobal("location", { reload });
  for (const password of ["a", "b"]) {
    logInBasic("ann", password);
    logOut();
  }
  expect(reload).not.toHaveBeenCalled();
  askLogin("basic");
  logInBasic("bob", "c");
  expect(reload).toHaveBeenCalledOnce();
  // What waits for a login is not asked for in the page that goes.
  expect(loginWanted.value).toBe("basic");
});

test("the user of a token is the one that the service names", async () => {
  const reload = vi.fn();
  vi.stubGlobal("location", { reload });
  const users: Record<string, object> = {
    t1: { user: "ann", name: "Bob" },
    t2: { user: "ann", name: "Bob" },
    t3: { user: "u-2", name: "Bob" },
  };
  vi.stubGlobal("fetch", async (_: string, { headers }: any) => {
    const found = users[headers["X-Auth-Token"]];
    return new Response(JSON.stringify(found ?? {}), { status: found ? 200 : 401 });
  });
  logInBasic("ann", "a");
  for (const [token, label, times] of [
    ["t1 ", "Bob", 0],
    ["refused", "token", 0],
    ["t2", "Bob", 0],
    ["t3", "Bob", 1],
  ] as const) {
    reload.mockClear();
    await logInToken(token);
    expect([loginUser.value, reload.mock.calls.length]).toEqual([label, times]);
  }
});
