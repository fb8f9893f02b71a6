/** Dialogs of acts that need no plan. */
import { useState } from "preact/hooks";
import { go } from "../state/route";
import { monitor } from "../wire/api";
import { began, Confirm } from "./confirm";
import { Field, Select, typed } from "./fields";
import { ActForm, useSend } from "./form";
import { bdi } from "./text";
import { done } from "./toasts";
import { DATA_STATES } from "./words";

/** Orders whose answer comes before their end. */
const ORDERS = /\/states\/(power|console|boot_mode|secure_boot)$/;

export function Simple(props: any) {
  const {
    title,
    kind,
    button,
    reload,
    then,
    method,
    of,
    says: saying,
    explained,
    waits = true,
    inverse,
    gives,
    done: ended = `${title}: done.`,
  } = props;
  const [sure, setSure] = useState(false);
  const [reason, setReason] = useState("");
  const body = explained ? { reason } : props.body;
  const sending = useSend({ method, path: props.path, body, of, waits }, ({ status, link }, before) => {
    if (then) go(then);
    else reload?.();
    if (status === 202 && ORDERS.test(props.path))
      void began(title, monitor(link), { about: of, before: before?.last_error, target: body?.target });
    else {
      const back = before && inverse?.(before);
      const after = before && gives && { ...before, ...gives(before, body) };
      void done(title, ended, { about: then ? undefined : of, inverse: back, after, reload });
    }
  });
  const says = typeof saying === "function" ? saying(sending.seen) : saying;
  return (
    <ActForm
      {...sending}
      title={title}
      button={button}
      danger={kind === "name"}
      ready={kind === "none" || sure}
    >
      {says && <p>{bdi(says)}</p>}{" "}
      {explained && <Field label="Reason" class="block" onInput={typed(setReason)} />}
      <Confirm {...props} onSure={setSure} />
    </ActForm>
  );
}

/** Declare the state of the node's data. */
export function Declare({
  own,
  name,
  now,
  reload,
}: {
  own: string;
  name: string;
  now: string;
  reload: () => void;
}) {
  const [body, setBody] = useState({ data_state: now ?? DATA_STATES[0], reason: "" });
  const title = `Data on ${name}`;
  const sending = useSend({ method: "PUT", path: `${own}/data_state`, body, of: own }, () => {
    reload();
    void done(title, `The data on ${name} is declared ${body.data_state}.`, { about: own });
  });
  return (
    <ActForm {...sending} title={title} button="Declare" ready={!!body.reason}>
      <p>This proves no erasure. The history shows who declared it.</p>
      <div class="form-grid">
        <Select
          label="State"
          value={body.data_state}
          onChange={(data_state) => setBody({ ...body, data_state })}
          choices={DATA_STATES}
        />
        <Field label="Reason" required onInput={typed((reason) => setBody({ ...body, reason }))} />
      </div>
    </ActForm>
  );
}
