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

/** Pages of what the service has beside machines, in a menu of the navigation: label, address. */
export const MORE = [
  ["Conductors", "/v1/conductors"],
  ["Runbooks", "/v1/runbooks"],
  ["Deploy templates", "/v1/deploy_templates"],
  ["Allocations", "/v1/allocations"],
  ["Webhooks", "/v1/webhooks"],
] as const;

export function nextTheme() {
  const order = { auto: "light", light: "dark", dark: "auto" } as const;
  set({ theme: order[prefs.value.theme] });
}
