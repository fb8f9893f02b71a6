/** Cells whose content has changed fade in, so that the eye finds what has moved. */
import { type RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

const FADE_MS = 150;
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** @returns what a cell says; an age that goes on is that of the same time */
const contentOf = (cell: Element): string =>
  [...cell.querySelectorAll("time")].reduce(
    (text, time) => text.replace(time.textContent ?? "", time.dateTime),
    cell.textContent ?? "",
  );

/** @param row its children are the cells; it stays the same element for the same thing */
export function useFade(row: RefObject<HTMLElement | null>) {
  const before = useRef<string[]>([]);
  useLayoutEffect(() => {
    const cells = [...(row.current?.children ?? [])];
    const contents = cells.map(contentOf);
    const known = before.current;
    before.current = contents;
    if (still.matches || known.length !== contents.length) return;
    cells.forEach((cell, at) => {
      if (known[at] !== contents[at]) cell.animate({ opacity: [0.2, 1] }, FADE_MS);
    });
  });
}
