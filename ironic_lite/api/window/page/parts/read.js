/** A document of the API that a page shows: read, read again, and its faults. */
import { h } from "../vendor/preact.js";
import { useEffect, useState } from "../vendor/hooks.js";
import { get } from "../wire/api.js";
import { Fault } from "../wire/faults.js";
import { Curl, copy } from "./copy.js";
import { html, Text } from "./text.js";

/**
 * Read a document, and again when `again` changes or every `each` milliseconds.
 * @param {string | null} path null: nothing is read
 * @param {{again?: unknown, each?: number}} [options]
 * @returns {{body: any, tag: string, fault: Fault | null, reload: () => void}}
 */
export function useDocument(path, { again, each = 0 } = {}) {
  const [state, setState] = useState(/** @type {any} */ ({ body: null, tag: "", fault: null }));
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (path === null) return undefined;
    const abort = new AbortController();
    get(path, abort.signal).then(
      ({ body, tag }) => setState({ body, tag, fault: null, path }),
      (error) => {
        if (!abort.signal.aborted) setState(failed(error, path));
      },
    );
    return () => abort.abort();
  }, [path, turn, again]);
  useEffect(() => {
    if (!each) return undefined;
    const timer = setInterval(() => !document.hidden && setTurn((last) => last + 1), each);
    return () => clearInterval(timer);
  }, [each]);
  const shown = state.path === path ? state : { body: null, tag: "", fault: null };
  return { ...shown, reload: () => setTurn((last) => last + 1) };
}

/** @param {unknown} error @param {string} path */
const failed = (error, path) => ({
  body: null,
  tag: "",
  path,
  fault: error instanceof Fault ? error : new Fault(String(error), { address: path }),
});

/** @param {{fault: Fault, path?: string}} props */
export function FaultBox({ fault, path }) {
  return html`<div class="fault" role="alert">
    <p>
      <span class="sign" aria-hidden="true">▲</span> ${h(Text, { of: fault.message })}
    </p>
    <p class="small">
      ${fault.status ? `HTTP ${fault.status}` : "No answer"} ${fault.address}
      ${fault.request && html`<button class="quiet" onClick=${() => void copy(fault.request)}>
        ${fault.request}
      </button>`}
      ${path && h(Curl, { path })}
    </p>
  </div>`;
}

/** Lines of the final height while a document is read. @param {{rows?: number}} props */
export function Skeleton({ rows = 5 }) {
  return html`<div class="skeleton" aria-label="Loading">
    ${Array.from({ length: rows }, () => html`<div />`)}
  </div>`;
}
