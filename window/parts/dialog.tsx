/** Dialogs: one at a time, with the browser's own focus trap; the form of new machines. */
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { route } from "../state/route";
import { hush } from "./toasts";

/** The dialog that is open: a function that draws it. */
export const opened = signal(null as (() => any) | null);

/** True while the dialog asks whether it may be closed: it draws the question. */
export const asking = signal(false);

let unfinished = () => false;

/**
 * Let the dialog ask before it closes.
 * @param has tells whether something would be lost
 * @returns a function that ends this
 */
export function guard(has: () => boolean) {
  unfinished = has;
  return () => {
    unfinished = () => false;
    asking.value = false;
  };
}

export function show(draw: () => any) {
  opened.value = draw;
}

/** Close the dialog, whatever is lost. */
export function leave() {
  opened.value = null;
}

export function close() {
  if (opened.value && unfinished()) asking.value = true;
  else leave();
}

// Dialogs, menus and sentences are of the page below them.
let below = "";
route.subscribe((next) => {
  close();
  if (next.path === below) return;
  below = next.path;
  document.querySelectorAll(".menu").forEach((menu) => menu.removeAttribute("open"));
  hush((toast) => !toast.to);
});

/** True while a dialog is on the screen: the browser closes it before it tells so. */
export const covered = () => !!document.querySelector("dialog[open]");

/** Draws the dialog that is open. */
export function DialogHost() {
  const draw = opened.value;
  return draw && <Frame key={draw} draw={draw} />;
}

function Frame({ draw }: { draw: () => any }) {
  const element = useRef<HTMLDialogElement | null>(null);
  // At once: a key that follows the press, such as Escape, is for the dialog. Before the effects of what
  // it shows: a form chooses where the focus is.
  const open = (dialog: HTMLDialogElement | null) => {
    element.current = dialog ?? element.current;
    if (dialog && !dialog.open) dialog.showModal();
  };
  useLayoutEffect(() => () => element.current?.close(), []); // The browser returns the focus.
  const onClose = () => {
    if (opened.value !== draw) return;
    close();
    // It asks first, but the browser has closed it.
    if (asking.value) element.current?.showModal();
  };
  return (
    <dialog ref={open} aria-labelledby="dialog-title" onClose={onClose}>
      {draw()}
    </dialog>
  );
}

/**
 * What a button shows over the page until it loses the focus, or one of its buttons is pressed.
 * @param props `label`: of a button whose name is no word
 */
export function Menu({ name, label, children }: { name: string; label?: string; children?: any }) {
  // Before the button acts: its dialog returns the focus to where it was.
  const leave = ({ currentTarget: menu }: any) => {
    menu.open = false;
    menu.firstElementChild.focus();
  };
  const onKey = (event: any) => {
    if (event.key !== "Escape" || !event.currentTarget.open) return;
    event.stopPropagation();
    leave(event);
  };
  const onLeft = ({ relatedTarget, currentTarget: menu }: any) => {
    if (!menu.contains(relatedTarget)) menu.open = false;
  };
  const onClick = (event: any) => event.target.closest("button") && leave(event);
  return (
    <details class="menu" onKeyDown={onKey} onFocusOut={onLeft} onClickCapture={onClick}>
      <summary aria-label={label}>{name}</summary>
      <div>{children}</div>
    </details>
  );
}
