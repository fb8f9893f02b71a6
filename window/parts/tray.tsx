/** What the user has done: the tray of the bar, and the sentences beside the button that was pressed. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { type Act, acts, clearEnded, summary } from "../state/acts";
import { small } from "../state/settings";
import { Menu } from "./dialog";
import { Ago, bdi, Result } from "./text";
import { hush, type Toast, toasts } from "./toasts";
import { visible } from "./words";

/** All acts of this page, in the bar. */
export function Tray() {
  const all = acts.value;
  if (!all.length) return null;
  const words = summary(all);
  return (
    <div class={`tray ${/failed/.test(words) ? "failed" : ""}`}>
      <Menu name={words}>
        <ul aria-label="Your acts">
          {all.map((act) => (
            <Entry key={act.id} act={act} />
          ))}
        </ul>
        <button onClick={clearEnded}>Clear what has ended</button>
      </Menu>
    </div>
  );
}

const Entry = ({ act: { title, stage, text, at, to, undo } }: { act: Act }) => (
  <li class={stage}>
    {to ? <a href={to}>{bdi(title)}</a> : bdi(title)} <Result result={stage} />{" "}
    <span class="small">
      {text && <>{bdi(text)} · </>}
      <Ago at={at} ago />
    </span>
    {undo && <button onClick={undo}>Undo</button>}
  </li>
);

const MARGIN = 8;

/** Put the sentences below the button that was pressed, or above it at the end of the screen. */
function putBeside(element: HTMLElement) {
  const { style } = element;
  style.left = style.top = style.right = style.bottom = "";
  const pressed = document.activeElement;
  if (small.value || !pressed?.matches("button, a, summary") || pressed.closest("dialog, .live")) return;
  const button = pressed.getBoundingClientRect();
  const { width, height } = element.getBoundingClientRect();
  if (!button.width || button.bottom < 0 || button.top > innerHeight) return;
  const below = button.bottom + MARGIN;
  const top = below + height < innerHeight ? below : button.top - height - MARGIN;
  style.top = `${Math.max(MARGIN, top)}px`;
  style.left = `${Math.max(MARGIN, Math.min(button.left, innerWidth - width - MARGIN))}px`;
  style.right = style.bottom = "auto";
}

const closing = (toast: Toast) => () => hush((other) => other === toast);

/** Sentences about the last acts. */
export function Messages() {
  const element = useRef<HTMLDivElement>(null);
  const all = toasts.value;
  const count = useRef(0);
  useLayoutEffect(() => {
    // What is read stays where it is while others go.
    if (all.length > count.current || !all.length) element.current && putBeside(element.current);
    count.current = all.length;
  }, [all]);
  return (
    <div
      ref={element}
      class={all.every((toast) => toast.seen) ? "live unseen" : "live"}
      role="status"
      aria-live="polite"
    >
      {all.map((toast) => (
        <p class={toast.seen ? "unseen" : toast.failed ? "wrong" : ""}>
          {toast.failed && <span aria-hidden="true">▲</span>} {visible(toast.text)}{" "}
          {toast.undo && <button onClick={toast.undo}>Undo</button>}
          {toast.to && (
            <>
              {toast.to !== location.hash && (
                <a href={toast.to} onClick={closing(toast)}>
                  Show
                </a>
              )}
              <button class="quiet" aria-label="Close this message" onClick={closing(toast)}>
                ×
              </button>
            </>
          )}
        </p>
      ))}
    </div>
  );
}
