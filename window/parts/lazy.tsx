/** Parts of the window that are loaded when they are first shown, or soon after the page has opened. */
import { type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Skeleton } from "./read";

const loads: (() => Promise<void>)[] = [];

/** A component of a module that is not part of the first page. */
export function lazy<Props extends object>(load: () => Promise<ComponentType<Props>>) {
  let Part: ComponentType<Props> | undefined;
  const read = async () => {
    Part = await load();
  };
  loads.push(read);
  return function Lazy(props: Props) {
    const [failed, setFailed] = useState(false);
    const [, draw] = useState({});
    const Drawn = Part;
    useEffect(() => {
      if (Drawn) return;
      // It may have come between the drawing and this effect.
      if (Part) draw({});
      else
        read().then(
          () => draw({}),
          () => setFailed(true),
        );
    }, []);
    if (Drawn) return <Drawn {...props} />;
    return failed ? <Unloaded /> : <Skeleton />;
  };
}

/** The service is away, or a newer one has other files. */
function Unloaded() {
  return (
    <p class="fault" role="alert">
      This part of the page could not be loaded.{" "}
      <button type="button" onClick={() => location.reload()}>
        Reload
      </button>
    </p>
  );
}

/** Load all parts, so that an open page goes on while the service is away, and after an upgrade. */
export async function loadAll() {
  // A part may name further parts, which stand in the list when it is loaded.
  for (const read of loads) await read().catch(() => undefined);
}
