/** The bar of machines that are only observed since their import, on every page. */
import { useEffect, useRef, useState } from "preact/hooks";
import { dateOf } from "../state/clock";
import { href } from "../state/route";
import { prefs } from "../state/settings";
import { get, may, oneAtATime } from "../wire/api";
import { type Json } from "../wire/json";
import { openRelease } from "./openers";
import { visible } from "./words";

const IMPORTS = "/v1/imports?limit=100&fields=at,release,trial,observed,unread";
const EACH_MS = 60_000;
const RULE = "baremetal:import:get";

/** Read the imports each minute, and after a release; a caller who may not see them has no bar. */
export function Observed() {
  const [imports, setImports] = useState([] as Json[]);
  const [releases, setReleases] = useState(false);
  const again = useRef(() => {});
  useEffect(() => {
    const reading = oneAtATime(async (abort) => {
      if (document.hidden || !(await may(RULE))) return;
      // What was read stays; without the feature there is nothing.
      const found = await get(IMPORTS, abort).catch(() => null);
      if (!found || abort.aborted) return;
      setImports(found.body.imports);
      setReleases(await may("baremetal:hold:many"));
    });
    again.current = reading.again;
    reading.now();
    const timer = setInterval(reading.now, EACH_MS);
    return () => {
      clearInterval(timer);
      reading.stop();
    };
  }, []);
  return <ObservedBar imports={imports} releases={releases} reload={() => again.current()} />;
}

/** @param props `imports`: the newest is the first; `releases`: the caller may release nodes */
export function ObservedBar({
  imports,
  releases,
  reload,
}: {
  imports: Json[];
  releases: boolean;
  reload: () => void;
}) {
  const [newest, ...others] = imports.filter(({ observed }) => observed > 0);
  if (!newest) return null;
  const { at, release, trial } = newest;
  let { observed, unread } = newest;
  for (const other of others) {
    observed += other.observed;
    unread += other.unread;
  }
  const one = observed === 1;
  return (
    <p class="notice observed" role="status">
      {observed} {one ? "machine is" : "machines are"} only observed since {one ? "its" : "their"}{" "}
      {trial ? "trial import" : "import"} from Ironic {visible(release.split(" ")[0])} on{" "}
      {dateOf(at, prefs.value.utc)}.{" "}
      {unread > 0 && `${unread} ${unread === 1 ? "has" : "have"} not answered. `}
      <a href={href(`/v1/nodes?held=${trial ? "trial" : "observe"}`)}>Show them</a>{" "}
      {releases && !trial && (
        <button onClick={() => openRelease({ observed, unread, reload })}>Release…</button>
      )}
    </p>
  );
}
