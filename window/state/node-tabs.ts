/** The tabs of a node's page, and the addresses that lead to them. */

export type Tab = "overview" | "activity" | "hardware" | "settings" | "console";

/** Tabs with their labels. */
export const TABS: Record<Tab, string> = {
  overview: "Overview",
  activity: "Activity",
  hardware: "Hardware",
  settings: "Settings",
  console: "Console",
};

/** Tabs by the part of the API's path below the node, and by the names that older addresses have. */
const PLACES = new Map<string, Tab>([
  ["why", "overview"],
  ["runs", "activity"],
  ["history", "activity"],
  ["holds", "activity"],
  ["erasures", "activity"],
  ["log", "activity"],
  ["inventory", "hardware"],
  ["bios", "hardware"],
  ["firmware", "hardware"],
  ["fields", "settings"],
  ["ports", "settings"],
  ["traits", "settings"],
  ["states", "console"],
  ["management", "console"],
  ["vmedia", "console"],
]);

/**
 * @param parts of the path
 * @param named by the view
 * @returns null for a path that has no tab
 */
export function tabOf(parts: string[], named: string | undefined): Tab | null {
  const name = named || parts[2] || "overview";
  return Object.hasOwn(TABS, name) ? (name as Tab) : (PLACES.get(name) ?? null);
}
