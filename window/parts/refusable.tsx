/** Orders of a node, and buttons that say why an order is refused. */
import { type Json } from "../wire/json";
import { say } from "./toasts";
import { unanswered, wording } from "./words";

/** @returns an order of the node */
export const orderOf = (why: Json, name: string): Json | undefined =>
  why.orders.find((order: Json) => order.order === name);

/**
 * A button that says why it cannot be used, instead of being used.
 * @param props `now`: what it sets is so at present; `line`: its hint or refusal is a line below it
 */
export function Refusable({
  refused: reason,
  onClick,
  children,
  primary,
  hint,
  now,
  line,
}: {
  refused?: Json | null | undefined;
  onClick: () => void;
  children?: any;
  primary?: boolean;
  hint?: string;
  now?: boolean;
  line?: boolean;
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
      {refused ? (
        <span class={line ? "small" : "unseen"}>
          {" "}
          <span class="unseen">refused: </span>
          {hintText}
        </span>
      ) : (
        line && (
          <span class="small" aria-hidden="true">
            {hint}
          </span>
        )
      )}
    </button>
  );
}
