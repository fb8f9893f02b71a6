/** What a patch changes, as a list to review; secrets are in neither side. */
import { path } from "../state/route";
import { type Answer } from "../wire/api";
import { MASK, withoutSecrets } from "../wire/curl";
import { type Json } from "../wire/json";
import { bdi } from "./text";
import { type Done } from "./toasts";

/** @returns what stands at a pointer (RFC 6901), undefined if there is nothing */
const heldAt = (node: Json, pointer: unknown): unknown =>
  String(pointer ?? "")
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((at: any, part) => at?.[part], node);

const valueAt = (node: Json, pointer: unknown): unknown => heldAt(node, pointer) ?? "nothing";

/**
 * @param node before the patch
 * @returns the patch that takes the changes back; null if it is not known, because answers mask what was there
 */
export function inverseOf(node: Json, patch: Json[]): Json[] | null {
  const operations = [...patch].reverse().map(({ op, path }) => {
    const held = heldAt(node, path);
    if (!["add", "replace", "remove"].includes(op) || /\/(-|\d+)$/.test(path)) return null;
    if (JSON.stringify(held)?.includes(MASK)) return null;
    return held == null ? { op: "remove", path } : { op: "add", path, value: held };
  });
  return operations.includes(null) ? null : (operations as Json[]);
}

/**
 * An act that has sent a patch.
 * @param node before it
 */
export function changed(node: Json, patch: Json[], { body, tag }: Answer, reload: () => void): Done {
  const about = path("nodes", node.uuid);
  const back = inverseOf(node, patch);
  // The name may have changed by it.
  const inverse = back && { method: "PATCH", path: path("nodes", body.uuid), body: back };
  return { about, inverse, tag, reload };
}

/** @returns a value with secrets masked */
export const shownValue = (pointer: unknown, value: unknown): unknown =>
  withoutSecrets(value, String(pointer ?? ""), () => MASK);

export const Review = ({ node, patch }: { node: Json; patch: Json[] }) => (
  <ul aria-label="Changes">
    {patch.map((change) => (
      <li>
        <code>{bdi(change?.path)}</code>: {bdi(valueAt(node, change?.path))} →{" "}
        {change?.op === "remove" ? "removed" : bdi(shownValue(change?.path, change?.value))}
      </li>
    ))}
  </ul>
);
