/** The pages of the navigation, and the theme. */
import { prefs, set } from "../state/settings";

/** Pages in the navigation: key of the shortcut, label, address. */
export const PAGES = [
  ["f", "Fleet", "/v1/nodes"],
  ["r", "Runs", "/v1/runs"],
  ["b", "Batches", "/v1/batches"],
  ["e", "Activity", "/v1/events"],
  ["v", "Erasures", "/v1/erasures"],
  ["s", "Steps", "/v1/stats/steps"],
  ["d", "Doctor", "/v1/doctor"],
] as const;

/** All machines with the worst health first. */
const HEALTH = "/v1/nodes?~sort=health&~cols=name,provision_state,health,power_state,resource_class,owner";

/** The words of the window. */
export const WORDS = "/v1/whoami?~tab=words";

/** Further pages, in a menu of the navigation: label, address. */
export const MORE = [
  ["Health", HEALTH],
  ["Conductors", "/v1/conductors"],
  ["Runbooks", "/v1/runbooks"],
  ["Deploy templates", "/v1/deploy_templates"],
  ["Allocations", "/v1/allocations"],
  ["Webhooks", "/v1/webhooks"],
  ["Words", WORDS],
] as const;

export function nextTheme() {
  const order = { auto: "light", light: "dark", dark: "auto" } as const;
  set({ theme: order[prefs.value.theme] });
}
