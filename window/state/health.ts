/** The health of a machine in words and tones. */

/** `kind` of a state, which has its shape and its colour; "" of what is not known. */
export type Tone = "stable" | "wait" | "fail" | "";

const HEALTH = new Map<unknown, { label: string; tone: Tone }>([
  ["OK", { label: "OK", tone: "stable" }],
  ["Warning", { label: "Warning", tone: "wait" }],
  ["Critical", { label: "Critical", tone: "fail" }],
]);

/** @returns the smaller, the more the machine needs somebody */
export const healthNeed = (value: unknown) => {
  const place = ["Critical", "Warning", "OK"].indexOf(String(value));
  return place < 0 ? 3 : place;
};

/** @returns the value that the API takes for a word in any case */
export const healthNamed = (word: string) =>
  [...HEALTH.keys()].map(String).find((value) => value.toLowerCase() === word.toLowerCase()) ?? word;

/** @param value of the field `health`: null if the BMC says nothing, or is not read */
export const health = (value: unknown) => HEALTH.get(value) ?? { label: "unknown", tone: "" as const };
