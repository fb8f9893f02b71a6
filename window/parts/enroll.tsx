/** The dialog that enrolls a machine: its driver, and what the driver requires. */
import { useState } from "preact/hooks";
import { go, path } from "../state/route";
import { secret } from "../wire/api";
import { type Json, withValue } from "../wire/json";
import { Field, Select, typed } from "./fields";
import { ActForm, useSend } from "./form";
import { useDocument } from "./read";
import { nodeAddress } from "./text";
import { say } from "./toasts";

export function Enroll() {
  const [chosen, setChosen] = useState("");
  const [body, setBody] = useState({} as Json);
  const drivers = useDocument("/v1/drivers");
  const names = (drivers.body?.drivers ?? []).map((driver: Json) => driver.name);
  const driver = chosen || names[0];
  const properties = useDocument(driver ? path("drivers", driver, "properties") : null);
  const fields = Object.entries<string>(properties.body ?? {});
  const sending = useSend({ method: "POST", path: "/v1/nodes", body: { ...body, driver } }, (answer) => {
    go(nodeAddress(answer.body));
    say("The node is enrolled.");
  });
  const info = (name: string) =>
    typed((value) => setBody({ ...body, driver_info: withValue(body.driver_info ?? {}, name, value) }));
  const act = {
    ...sending,
    fault: sending.fault ?? drivers.fault ?? properties.fault,
    title: "Enroll a machine",
    button: "Enroll",
    ready: !!driver,
  };
  return (
    <ActForm {...act}>
      <div class="form-grid">
        <Field
          label="Name"
          autocomplete="off"
          onInput={typed((value) => setBody(withValue(body, "name", value)))}
        />
        <Select
          label="Driver"
          value={driver}
          onChange={(next) => (setChosen(next), setBody(withValue(body, "driver_info", "")))}
          choices={names}
        />
        {fields
          .filter(([, about]) => /required/i.test(about))
          .map(([name, about]) => (
            <Field
              label={name}
              key={name}
              title={about}
              type={secret.test(name) ? "password" : "text"}
              autocomplete={secret.test(name) ? "new-password" : "off"}
              onInput={info(name)}
            />
          ))}
      </div>
    </ActForm>
  );
}
