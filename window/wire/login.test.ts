import { afterEach, expect, test, vi } from "vitest";
import { askLogin, logInBasic, loginWanted, logOut } from "./login";

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
