/** The words of this page that are not the API's. */

/** Shapes and words of the kinds of states: never colour alone. */
export const KINDS = /** @type {Record<string, {sign: string, word: string}>} */ ({
  stable: { sign: "●", word: "at rest" },
  busy: { sign: "◐", word: "working" },
  wait: { sign: "◔", word: "waiting" },
  held: { sign: "■", word: "held" },
  fail: { sign: "▲", word: "failed" },
});

/** Results of runs and steps. */
export const RESULTS = /** @type {Record<string, string>} */ ({
  done: "✓", failed: "▲", aborted: "×", running: "◐", waiting: "◔", held: "■", pending: "○",
  kept: "↷", waived: "⤼", skipped: "⤼", starting: "◌", paused: "■", refused: "×", ok: "✓", warning: "!", unknown: "?",
});

/** Labels of verbs whose name is no plain imperative. */
export const VERBS = /** @type {Record<string, string>} */ ({
  active: "Deploy", deleted: "Undeploy", provide: "Provide", manage: "Manage", clean: "Clean",
  inspect: "Inspect", rebuild: "Rebuild", rescue: "Rescue", unrescue: "Unrescue", adopt: "Adopt",
  abort: "Abort", unhold: "Go on", service: "Service", retry: "Retry", available: "Make available",
});

/** @param {string} target */
export const verb = (target) =>
  VERBS[target] ?? target.charAt(0).toUpperCase() + target.slice(1);

/** What a step destroys, for people. */
export const DESTROYS = /** @type {Record<string, string>} */ ({
  data: "DESTROYS DATA", volumes: "destroys volumes", settings: "changes settings",
  firmware: "changes firmware", keys: "changes keys",
});

export const FAILED_STATES = [
  "clean failed", "deploy failed", "inspect failed", "rescue failed", "unrescue failed",
  "service failed", "adopt failed", "error",
];
