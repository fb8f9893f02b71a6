/** Refusals of the API and failures on the way to it. */

const LONGEST = 500;

/** A request that did not succeed: what the API said, or why there was no answer. */
export class Fault extends Error {
  /**
   * @param {string} text a sentence
   * @param {{status?: number, code?: string, request?: string, address?: string,
   *   retryAfter?: number, body?: unknown, link?: string}} [facts]
   */
  constructor(text, facts = {}) {
    super(text);
    this.status = facts.status ?? 0;
    this.code = facts.code ?? "";
    this.request = facts.request ?? "";
    this.address = facts.address ?? "";
    this.retryAfter = facts.retryAfter ?? 0;
    this.body = facts.body;
    this.link = facts.link ?? "";
  }
}

/**
 * Read the sentence of a refusal in any of its three forms: `error_message` with a JSON text or an
 * object in it, or a list `errors`.
 * @param {string} text the body
 * @returns {{text: string, code: string, body: unknown}}
 */
export function sentence(text) {
  const body = parsed(text);
  if (body === null || typeof body !== "object") {
    return { text: text.slice(0, LONGEST), code: "", body: null };
  }
  const outer = /** @type {Record<string, any>} */ (body);
  const inner = typeof outer.error_message === "string"
    ? parsed(outer.error_message) ?? { faultstring: outer.error_message }
    : outer.error_message ?? outer.errors?.[0] ?? outer;
  const said = inner.faultstring ?? inner.description ?? inner.detail ?? inner.title;
  return {
    text: typeof said === "string" ? said : text.slice(0, LONGEST),
    code: String(inner.code ?? inner.faultcode ?? ""),
    body,
  };
}

/** @param {string} text @returns {any} null if it is no JSON */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * @param {Response} answer
 * @param {string} text its body
 * @param {string} address
 */
export function fault(answer, text, address) {
  const said = sentence(text);
  return new Fault(said.text || `${answer.status} ${answer.statusText}`, {
    status: answer.status,
    code: said.code,
    request: answer.headers.get("X-OpenStack-Request-Id") ?? "",
    retryAfter: Number(answer.headers.get("Retry-After") ?? 0),
    link: answer.headers.get("Link") ?? "",
    body: said.body,
    address,
  });
}
