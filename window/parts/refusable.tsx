/** Orders of a node, and buttons that say why an order is refused. */
import { type Json } from "../wire/json";
import { say } from "./toasts";
import { unanswered, wording } from "./words";

/** @returns an order of the node */
export const orderOf = (why: Json, name: string): Json | undefined =>
  why.orders.find((order: Json) => order.order === name);

/**
 * A button that says why it cannot be used, instead of being used.
 * @param props `now`: what it sets is so at present
 */
export function Refusable({
  refused: reason,
  onClick,
  children,
  primary,
  hint,
  now,
}: {
  refused?: Json | null;
  onClick: () => void;
  children?: any;
  primary?: boolean;
  hint?: string;
  now?: boolean;
}) {
  const away = unanswered();
  const refused = away ? { text: away } : reason;
  const hintText = refused ? wording(refused.text) : hint;
  return (
    <button
      class={primary && !refused ? "primary" : ""}
      aria-disabled={refused ? "true" : undefined}
      aria-current={now ? "true" : undefined}
      title={hintText}
      onClick={() => (refused ? say(String(hintText)) : onClick())}
    >
      {now && <span aria-hidden="true">● </span>}
      {children}
      {refused && <span class="unseen"> refused: {hintText}</span>}
    </button>
  );
}
