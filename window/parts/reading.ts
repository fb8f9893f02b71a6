/** Readings of more than one document, which are made again after a fault that passes. */
import { useEffect, useState } from "preact/hooks";
import { type Fault, oneAtATime, passing } from "../wire/api";
import { POLL_MS } from "../wire/feed";

/**
 * Read what is more than one document, and again after a fault that passes.
 * @param of what it is of: of other things it is read anew, and what was read stays until then
 */
export function useReading<Found>(
  read: (abort: AbortSignal) => Promise<Found>,
  of: readonly unknown[],
): { found: Found | undefined; fault: Fault | null } {
  const [state, setState] = useState({
    found: undefined as Found | undefined,
    fault: null as Fault | null,
  });
  useEffect(() => {
    let timer = 0;
    let over = false;
    const reading = oneAtATime(async (abort) => {
      try {
        const found = await read(abort);
        if (!over) setState({ found, fault: null });
      } catch (error) {
        const fault = error as Fault;
        if (over) return;
        setState((old) => ({ ...old, fault }));
        if (passing(fault)) timer = setTimeout(reading.now, POLL_MS);
      }
    });
    reading.now();
    return () => {
      over = true;
      clearTimeout(timer);
      reading.stop();
    };
  }, of);
  return state;
}
