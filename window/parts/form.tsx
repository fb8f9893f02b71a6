/** Forms of acts: what they send, how they are refused, their buttons. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Answer, Fault, get, keeper, sendChange, sleep } from "../wire/api";
import { type Json } from "../wire/json";
import { close, opened } from "./dialog";
import { FaultBox } from "./read";
import { bdi } from "./text";
import { Curl, differing } from "./toasts";
import { unanswered, visible } from "./words";

/** A node as it was read: its fields and its tag. */
export type Version = { body: Json | null; tag: string };

const NONE: Version = { body: null, tag: "" };

const LOCK_MS = 1000;

/**
 * The version of a node that a dialog is about: read when it opens, because the page below may be
 * late, and again while a conductor works on the node if the act has to wait for that.
 * @param of the path of the node
 */
function useVersion(of: string | undefined, waits: boolean, onFault: (fault: Fault) => void) {
  const [version, setVersion] = useState(NONE);
  useEffect(() => {
    const abort = new AbortController();
    const read = async () => {
      const { body, tag } = await get(of as string, abort.signal);
      setVersion({ body, tag });
      if (!waits || !body.reservation) return;
      await sleep(LOCK_MS);
      if (!abort.signal.aborted) await read();
    };
    if (of) read().catch((fault) => abort.signal.aborted || onFault(fault));
    return () => abort.abort();
  }, [of]);
  return [version, setVersion] as const;
}

/**
 * Send the change of a form. Its key stays until the service answers, so a lost answer and another
 * press change the node once. If the node is no more as it was read, both versions are shown.
 * @param request `of`: the path of the node whose version is named; `waits`: for the end of its lock,
 *   too; `seen`: the version if it was read before; `onTheirs`: what is typed is given up for that version
 * @param onFault returns what is shown of it
 * @param keep sends the request; of a form that sends it in other ways, too
 * @returns what `ActForm` takes of it
 */
export function useSend(
  {
    of,
    waits = false,
    seen,
    onTheirs,
    ...request
  }: Parameters<typeof sendChange>[0] & {
    of?: string;
    waits?: boolean;
    seen?: Version;
    onTheirs?: (theirs: Version) => void;
  },
  onDone: (answer: Answer, before: Json | null) => void,
  onFault: (fault: Fault) => Fault | null = (fault) => fault,
  keep?: ReturnType<typeof keeper>,
) {
  const own = useRef(keeper());
  const send = keep ?? own.current;
  const none = { busy: false, fault: null as Fault | null, now: NONE };
  const [state, setState] = useState(none);
  const [read, setRead] = useVersion(seen ? undefined : of, waits, (fault) => setState({ ...none, fault }));
  // After a lost answer it is sent again as it was: it may have replaced the version that it named.
  const sent = useRef(NONE);
  const known = send.keyOf(request) && sent.current.tag ? sent.current : (seen ?? read);
  const change = of ? { ...request, tag: known.tag } : request;
  const sendOf = async (version: Version) => {
    const dialog = opened.value;
    sent.current = version;
    setState({ ...none, busy: true });
    try {
      const answer = await send({ ...request, ...(of && { tag: version.tag }) });
      setState(none);
      if (opened.value === dialog) close();
      onDone(answer, version.body);
    } catch (error) {
      const fault = error as Fault;
      const now = of && fault.status === 412 ? await get(of).catch(() => NONE) : NONE;
      setState({ busy: false, fault: onFault(fault), now });
    }
  };
  // What was said of another input is not true of this one.
  useEffect(() => setState((old) => (old.fault ? none : old)), [JSON.stringify(request.body)]);
  // A copy has no key, because it would do nothing when it is run again; but after a lost answer it is
  // the same change.
  const lost = !state.busy && send.keyOf(change);
  const headers: Record<string, string> = lost ? { "Idempotency-Key": lost } : {};
  if (change.tag) headers["If-Match"] = change.tag;
  const choice = state.now.body && (
    <Choice
      seen={known.body ?? {}}
      now={state.now.body}
      onMine={() => (setRead(state.now), void sendOf(state.now))}
      onTheirs={() => {
        setState(none);
        onTheirs?.(state.now);
        close();
      }}
    />
  );
  const holder = waits ? known.body?.reservation : null;
  return {
    ...state,
    choice,
    holder,
    known: !choice && (!of || (!!known.tag && !holder)),
    seen: known.body,
    send: () => sendOf(known),
    request: { ...change, headers },
  };
}

/**
 * Send changes of a part of a page or of a dialog, one at a time. A change whose answer was lost has
 * the same key when it is sent again.
 */
export function useChange() {
  const send = useRef(keeper());
  const busy = useRef(false);
  const [state, setState] = useState({ busy: false, fault: null as Fault | null });
  const change = async (
    request: Parameters<typeof sendChange>[0],
    onDone: (answer: Answer) => void,
  ): Promise<void> => {
    if (busy.current) return;
    busy.current = true;
    setState({ busy: true, fault: null });
    try {
      const answer = await send.current(request);
      setState({ busy: false, fault: null });
      onDone(answer);
    } catch (error) {
      setState({ busy: false, fault: error as Fault });
    } finally {
      busy.current = false;
    }
  };
  return { ...state, change };
}

/** What differs between two versions of a node. */
export function Changes({ seen, now }: { seen: Json; now: Json }) {
  const text = (value: unknown) => bdi(value ?? "null");
  const names = differing(seen, now);
  return (
    <dl class="tree" aria-label="What has changed">
      {names.map((name) => (
        <>
          <dt>{name}</dt>
          <dd>
            {text(seen[name])} → {text(now[name])}
          </dd>
        </>
      ))}
    </dl>
  );
}

function Choice({
  seen,
  now,
  onMine,
  onTheirs,
}: {
  seen: Json;
  now: Json;
  onMine: () => void;
  onTheirs: () => void;
}) {
  return (
    <>
      <Changes seen={seen} now={now} />
      <div class="actions">
        <button type="button" onClick={onMine}>
          Use mine
        </button>
        <button type="button" onClick={onTheirs}>
          Take theirs
        </button>
      </div>
    </>
  );
}

const FIELDS = "input, select, textarea";

/**
 * Keep the focus on the first field of a form until the user moves it. Without a field it is on the
 * button that acts, or on Cancel if the act destroys or is not possible.
 */
function useFocus() {
  const form = useRef<HTMLFormElement>(null);
  const placed = useRef<Element | null>(null);
  useLayoutEffect(() => {
    const element = form.current;
    const { activeElement } = document;
    const moved = placed.current && element?.contains(activeElement) && activeElement !== placed.current;
    // A field that appears later does not take the focus from one that may be typed in.
    if (!element?.closest("dialog") || moved || placed.current?.matches(FIELDS)) return;
    // Fields of what is folded are not visible.
    const field = [...element.querySelectorAll<HTMLElement>(FIELDS)].find((each) => each.checkVisibility());
    const button = element.querySelector<HTMLElement>("footer .primary:enabled");
    placed.current = field ?? button ?? element.querySelector(".cancel");
    (placed.current as HTMLElement | null)?.focus();
  });
  return form;
}

/**
 * The form of an act: its title, its fields, what was refused, its curl, and two buttons.
 * @param props `choice`: between two versions; `holder` of the lock that the act waits for; `more`:
 *   further buttons; `inPage`: it is no dialog, which has a title and can be closed
 */
export function ActForm(props: {
  title: string;
  note?: string;
  fault?: Fault | null;
  request?: Record<string, any>;
  choice?: any;
  holder?: string | null;
  button?: string;
  danger?: boolean;
  ready?: boolean;
  known?: boolean;
  busy?: boolean;
  send?: (() => unknown) | undefined;
  more?: any;
  inPage?: boolean;
  children?: any;
}) {
  const { title, note, fault, request, button, danger, ready = true, known = true, busy, send } = props;
  const { more, inPage } = props;
  const away = send ? unanswered() : "";
  const can = ready && known && !busy && !away;
  const form = useFocus();
  const submit = (event: Event) => {
    event.preventDefault();
    if (can) void send?.();
  };
  return (
    <form
      method="dialog"
      ref={form}
      onSubmit={submit}
      {...(inPage && { class: "in-page", "aria-label": visible(title) })}
    >
      {!inPage && (
        <header class="dialog-head">
          <h2 id="dialog-title">{visible(title)}</h2>
          {note && <span class="small">{note}</span>}
        </header>
      )}
      {props.children} {fault && <FaultBox fault={fault} />} {props.choice}
      {away && (
        <p class="wrong" role="alert">
          {away}. Nothing can be sent.
        </p>
      )}
      {props.holder && <p role="status">{bdi(props.holder)} works on this node. The window waits for it.</p>}
      <footer>
        {request && <Curl {...(request as any)} />}
        {!inPage && (
          <button type="button" class="cancel" onClick={close}>
            {send ? "Cancel" : "Close"}
          </button>
        )}
        {more}
        {send && button && (
          <button class={danger ? "danger" : "primary"} disabled={!can}>
            {button}
          </button>
        )}
      </footer>
    </form>
  );
}
