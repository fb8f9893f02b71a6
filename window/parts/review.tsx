/** What a patch changes, as a list to review; secrets are in neither side. */
import { withoutSecrets } from "../wire/curl";
import { type Json } from "../wire/json";
import { bdi } from "./text";

const MASK = "******";

/**
 * @param pointer RFC 6901
 * @returns what stands there now
 */
export const valueAt = (node: Json, pointer: unknown): unknown =>
  String(pointer ?? "")
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((at: any, part) => at?.[part], node) ?? "nothing";

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
