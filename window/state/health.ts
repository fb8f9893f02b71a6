/** The health of a machine in words and tones. */

/** `kind` of a state, which has its shape and its colour; "" of what is not known. */
export type Tone = "stable" | "wait" | "fail" | "";

const HEALTH = new Map<unknown, { label: string; tone: Tone }>([
  ["OK", { label: "OK", tone: "stable" }],
  ["Warning", { label: "Warning", tone: "wait" }],
  ["Critical", { label: "Critical", tone: "fail" }],
]);

/** @param value of the field `health`: null if the BMC says nothing, or is not read */
export const health = (value: unknown) => HEALTH.get(value) ?? { label: "unknown", tone: "" as const };
