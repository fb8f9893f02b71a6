"""A release of Ironic beside this service, by the run book of docs/moving-from-ironic.rst."""

from __future__ import annotations

import collections
import contextlib
import pathlib
import re
import sqlite3
import subprocess
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import sqlalchemy as sa
from cryptography.fernet import Fernet

from tests.compare.contents import uuid_of
from tests.emulators import bmc, images, ipmi, machines
from tests.move_in import recorded, source
from tests.move_in.ironics import Ironic
from tests.support import machine_room, private_servers
from tests.support.ports import HOST, free_port
from tests.support.service import SCRIPTS, Service, environment

Json = dict[str, Any]

KINDS: Mapping[str, str] = {
    "24.1.5": "postgresql",
    "29.0.6": "mysql",
    "35.1.0": "mysql",
    "39.0.0": "sqlite",
}
"""Releases that are moved, and the kind of database of each.

The upgrade check of 24.1 fails by itself on MariaDB with SQLAlchemy 2.
"""
_SETTINGS = """
[database]
connection = {database}
encryption_keys = {key}
[sensor_data]
send_sensor_data = true
interval = 10
enable_for_undeployed_nodes = true
[oslo_messaging_notifications]
driver = log
"""
_STEP: Json = {"interface": "deploy", "step": "erase_devices_metadata"}
_OWN_INTERFACES = re.compile("enabled_(boot|deploy|inspect|raid)_interfaces = ")
"""Options of the machine room that would disable interfaces of imported nodes."""
_VERBS = ("manage", "provide", "active", "rebuild", "deleted", "inspect", "adopt")
"""Verbs that are sent to each machine; no node is in a state for ``clean`` or ``abort``."""
_ORDERS: tuple[tuple[str, str, Json | None], ...] = (
    # Requests that change a machine or its BMC: method, path below a node, body.
    *(
        ("PUT", "/states/power", {"target": target})
        for target in ("power off", "power on", "rebooting", "soft power off", "soft rebooting")
    ),
    *(("PUT", "/states/provision", {"target": verb}) for verb in _VERBS),
    ("PUT", "/states/provision", {"target": "service", "service_steps": [_STEP]}),
    ("PUT", "/states/boot_mode", {"target": "bios"}),
    ("PUT", "/states/secure_boot", {"target": False}),
    ("PUT", "/states/console", {"enabled": True}),
    ("PUT", "/states/console", {"enabled": False}),
    ("PUT", "/management/boot_device", {"boot_device": "pxe", "persistent": False}),
    ("PUT", "/management/indicators/system/led", {"state": "on"}),
    ("PUT", "/management/inject_nmi", {}),
    ("POST", "/vmedia", {"device_type": "cdrom", "image_url": "http://192.0.2.1/i.iso"}),
    ("DELETE", "/vmedia", None),
    ("POST", "/vendor_passthru?method=eject_vmedia", {}),
    ("POST", "/vendor_passthru?method=bmc_reset", {"warm": True}),
    ("DELETE", "", None),
)
_WITH_CONSOLE = "r7-06"
"""A node whose console interface is not ``no-console``."""
_READS = (
    # Requests that read the machine or its BMC.
    *("/states", "/validate", "/management/boot_device", "/management/boot_device/supported"),
    *("/management/indicators", "/vmedia", "/states/console", "/vendor_passthru/methods"),
    *("/bios", "/firmware", "/inventory", "/vifs", "/why", "/history"),
)
MACHINES = 20
"""Emulated machines: those of `source.BMCS`, and of the first nodes of the fleet."""
FLEET = 500
"""Nodes beside those of `source.NODES`."""
_SHOWN = (
    # Answers that have places for secrets.
    *(
        "/v1/nodes?detail=true&include_children=true&limit=1000",
        "/v1/volume/targets?detail=true&limit=1000",
    ),
    *("/v1/deploy_templates?detail=true", "/v1/runbooks?detail=true"),
    *("/v1/inspection_rules?detail=true", f"/v1/nodes/{source.AGENT}/bios?detail=true"),
    *(f"/v1/nodes/{source.AGENT}/history?detail=true", "/v1/imports", "/v1/doctor"),
)
_UNREAD = ("enroll", "verifying", "adopt failed")
"""States in which the power is not read."""
_LONG = 900.0
"""Seconds after which silent BMCs are known as such, and are read again."""
NEW = "r8-01"
"""A node that is created here."""
_REFUSED = range(400, 500)


class StepError(Exception):
    """A step of the run book ended in another way than its page says."""


def check(holds: object, text: object) -> None:
    """Report a step that ended in another way.

    :raises StepError: it did.
    """
    if not holds:
        raise StepError(str(text))


class MovedMachines:
    """The BMCs of some nodes, and what each was told."""

    def __init__(self, folder: pathlib.Path, stack: contextlib.ExitStack) -> None:
        self.bmcs: dict[str, tuple[str, Json]] = {}
        self.added: dict[str, Json] = {}
        self._rack = stack.enter_context(machines.serve(1))
        self.booting = self._rack[0]
        self._redfish: dict[str, bmc.Machine] = {}
        self._ipmi: dict[str, ipmi.Bmc] = {}
        for number, (name, (driver, _)) in enumerate(source.BMCS.items()):
            if name == source.AGENT:
                info = self._booting_info(folder)
            elif driver == "redfish":
                info = self._serve(name, sessions=number % 2 == 0, stack=stack)
            else:
                place = folder / name
                place.mkdir()
                self._ipmi[name] = stack.enter_context(ipmi.Bmc(place))
                self._ipmi[name].power = name in source.POWERED
                info = self._ipmi[name].driver_info()
            self.bmcs[name] = (driver, info)
        for number in range(MACHINES - len(source.BMCS)):
            self.added[f"m{number}"] = self._serve(
                f"m{number}", sessions=number % 2 == 0, stack=stack
            )

    def _serve(self, name: str, *, sessions: bool, stack: contextlib.ExitStack) -> Json:
        password = source.SECRETS["nodes.driver_info"]
        machine = stack.enter_context(bmc.serve(users={"root": password}))
        if not sessions:  # this BMC takes the password with each request
            machine.tricks["POST /redfish/v1/SessionService/*"] = bmc.says(404)
        word = "On" if name in source.POWERED else "Off"
        for path in (machine.system, machine.places.chassis):
            machine.tree[path]["PowerState"] = word
        self._redfish[name] = machine
        return machine.driver_info

    def _booting_info(self, folder: pathlib.Path) -> Json:
        """Return the driver_info of the machine with an agent, which is off."""
        files = {part: f"file://{folder}/lite/{part}" for part in machine_room.PARTS}
        address, _, _ = self.booting.reset.partition("/redfish/")
        return {
            "redfish_address": address,
            "redfish_system_id": self.booting.system_id,
            **files,
        }

    @property
    def names(self) -> list[str]:
        """The nodes that have an emulated machine."""
        return [*self.bmcs, *self.added]

    def orders(self) -> dict[str, list[str]]:
        """Return what each machine was told beside reads and logins."""
        told = {name: one.changes() for name, one in self._redfish.items()}
        told |= {name: one.actions for name, one in self._ipmi.items()}
        told[source.AGENT] = [str(self.booting.known)] if self.booting.known else []
        return {name: found for name, found in told.items() if found}

    def counts(self) -> dict[str, int]:
        """Return how many requests of each method the Redfish BMCs have got; logins apart."""
        titles = (title for one in self._redfish.values() for title in one.log)
        words = ("login" if "/Sessions" in one else one.partition(" ")[0] for one in titles)
        return dict(collections.Counter(words))

    def fall_silent(self) -> None:
        """Let no BMC answer any more."""
        for machine in self._redfish.values():
            machine.tricks["*"] = bmc.hangs_up
        for other in self._ipmi.values():
            other.stop()
        self._rack.hang()

    def answer_again(self) -> None:
        """End `fall_silent`."""
        for machine in self._redfish.values():
            del machine.tricks["*"]
        for other in self._ipmi.values():
            check(other.start(), "ipmi_sim does not start again")
        self._rack.wake()


class Journey:
    """The steps of the run book, with one release.

    :param minutes: of observing.
    """

    def __init__(
        self, version: str, folder: pathlib.Path, stack: contextlib.ExitStack, minutes: float
    ) -> None:
        self.version = version
        self.kind = KINDS[version]
        self.folder = folder
        self._minutes = minutes
        self._stack = stack
        self._began = time.monotonic()
        folder.chmod(0o755)  # the servers run as other users
        self.machines = MovedMachines(folder, stack)
        theirs, ours = (self._database(name) for name in ("theirs", "ours"))
        (folder / "lite").mkdir()
        (folder / "ironic").mkdir(exist_ok=True)
        self.ironic = Ironic(version, folder / "ironic", theirs)
        stack.callback(self.ironic.stop)
        self.ours = self._service("lite", ours)
        (folder / "trial").mkdir()
        self.trial = self._service("trial", f"sqlite:///{folder}/trial/trial.sqlite")
        self.reports: list[str] = []
        self._steps: list[tuple[float, str]] = []

    def _database(self, name: str) -> str:
        if self.kind == "sqlite":
            (self.folder / name).mkdir()
            return f"sqlite:///{self.folder}/{name}/{name}.sqlite"
        place = self.folder / name
        place.mkdir()
        place.chmod(0o755)
        server = self._stack.enter_context(private_servers.database(self.kind, place))
        return server.url(server.port)

    def _service(self, name: str, database: str) -> Service:
        key = Fernet.generate_key().decode()
        found = Service(self.folder / name, migrated=False)
        found.session.headers["X-OpenStack-Ironic-API-Version"] = "latest"
        more = machine_room.SETTINGS.replace(" = redfish\n", " = redfish,ipmi,fake-hardware\n")
        more = "".join(
            line for line in more.splitlines(keepends=True) if not _OWN_INTERFACES.match(line)
        )
        place = self.folder / "lite"
        values = {"folder": place, "api": found.url, "files": free_port(), "patience": 1800}
        text = found.settings.read_text(encoding="utf-8") + more.format(**values)
        text = text.replace("sync_power_state_interval = 0", "sync_power_state_interval = 5")
        text += _SETTINGS.format(database=database, key=key)
        found.settings.write_text(text, encoding="utf-8")
        for part in (*machine_room.PARTS, *machine_room.LOADERS):
            (place / part).write_bytes(part.encode() * 1000)
        self._stack.callback(found.clear)
        return found

    # -- commands ----------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Print a step with its time."""
        print(f"{self.version} {time.monotonic() - self._began:4.0f} s  {text}", flush=True)

    def begin(self, step: str) -> None:
        """Begin a step of the page."""
        self._steps.append((time.monotonic(), step))
        self.say(f"--- {step}")

    def summary(self) -> None:
        """Print how long each step has taken."""
        ends = [*(at for at, _ in self._steps[1:]), time.monotonic()]
        for (at, step), end in zip(self._steps, ends, strict=True):
            print(f"{self.version}   {end - at:6.0f} s  {step}", flush=True)

    def command(
        self,
        program: str,
        *words: str,
        allowed: tuple[int, ...] = (0,),
        service: Service | None = None,
    ) -> str:
        """Run one of our programs; return what it prints.

        :raises StepError: its exit status is another one.
        """
        settings = (service or self.ours).settings
        command = [str(SCRIPTS / program), "--config-file", str(settings), *words]
        if "check-ironic-conf" in words:
            command[1:3] = []
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment(), check=False
        )
        text = done.stdout + done.stderr
        self.reports.append(text)
        shown = " ".join((program, *words))
        check(done.returncode in allowed, f"{shown}: exit status {done.returncode}\n{text}")
        lines = text.strip().splitlines() or [""]
        self.say(f"{shown.replace(str(self.folder), '')}: {done.returncode}, {lines[-1]}")
        return text

    def dump(self) -> bytes:
        """Return Ironic's database as text, byte for byte the same if nothing has changed."""
        url = self.ironic.engine.url
        if self.kind == "sqlite":
            with contextlib.closing(sqlite3.connect(str(url.database))) as database:
                return "\n".join(database.iterdump()).encode()
        place = ("-h", HOST, "-P" if self.kind == "mysql" else "-p", str(url.port))
        if self.kind == "mysql":
            words = ["mariadb-dump", "--no-defaults", *place, "-u", str(url.username)]
            words += ["--skip-dump-date", "--hex-blob", "--single-transaction", str(url.database)]
        else:
            newest = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
            program = private_servers.program("pg_dump", str(newest))
            words = [program, *place, "-U", str(url.username), str(url.database)]
        text = subprocess.run(words, capture_output=True, check=True).stdout
        # Newer pg_dump writes a random word around its text.
        return b"\n".join(one for one in text.splitlines() if b"restrict" not in one[:12])

    # -- the run book ------------------------------------------------------------------------

    def run(self) -> None:
        """Go all steps, forth and back.

        :raises StepError: one has ended in another way than the page says.
        """
        self.begin("filling Ironic")
        self._fill()
        self._prepare()
        self._try()
        saved = self._stop()
        self._import(saved)
        self._observe()
        self._fall_silent()
        self._release()
        self._return()
        self.summary()

    def _fill(self) -> None:
        self.ironic.create_schema()
        source.fill(self.ironic, self.machines.bmcs)
        recorded.multiply(self.ironic.engine, FLEET)
        with self.ironic.engine.begin() as conn:
            tables = source.Tables(self.version, conn)
            for name, info in self.machines.added.items():
                tables.update("nodes", "name", name, source.driven("redfish", info))
            card, address = source.ports(4)[0][0], {"address": self.machines.booting.mac}
            tables.update("ports", "uuid", card, address)
        self.say(f"filled: {len(source.NODES) + FLEET} nodes on {self.kind}")

    def _prepare(self) -> None:
        """Steps 1 and 2."""
        self.begin("1. Prepare, days before")
        words = ("check-ironic-conf", str(self.ironic.settings))
        self.command("ironic-lite-status", *words, allowed=(0, 1, 2))
        self.command("ironic-lite-dbsync", "upgrade")
        self.command("ironic-lite-status", "config", allowed=(0, 1))
        self.ironic.start()
        self.begin("2. Try the import")
        output = ("--output", str(self.folder / "lite/report.txt"))
        self._dbsync("import-ironic", "--check", *output, allowed=(0, 1))

    def _try(self) -> None:
        """Step 3: a trial beside Ironic, which changes neither Ironic nor a machine."""
        self.begin("3. A trial beside Ironic")
        before = self._rows(but="updated_at")
        words = ("import-ironic", "--from", str(self.ironic.settings), "--trial")
        self.command("ironic-lite-dbsync", "upgrade", service=self.trial)
        self.command("ironic-lite-dbsync", *words, allowed=(0, 1), service=self.trial)
        self._start(self.trial)
        compared = ("compare", "--ironic", self.ironic.url, "--deep", "2")
        self.command("ironic-lite-status", *compared, service=self.trial)
        # Ironic locks a node whose boot device is read, which changes its updated_at.
        self._check_rows(before, self._rows(but="updated_at"))
        before = self._rows()
        end = time.monotonic() + 60 * self._minutes / 3
        self._order(self.trial)
        why = ("--reason", "too early")
        for chosen in ("--all", "r7-01"):
            text = self.command(
                "ironic-lite-status", "release", chosen, *why, allowed=(2,), service=self.trial
            )
            check("after the cut-over" in text, text)
        for hold in self.trial.get("/v1/holds?limit=20")["holds"]:
            answer = self.trial.ask("DELETE", f"/v1/nodes/{hold['node_uuid']}/holds/{hold['uuid']}")
            check(answer.status_code == HTTPStatus.CONFLICT, answer.text)
        time.sleep(max(0.0, end - time.monotonic()))
        self._check_rows(before, self._rows())
        self._search_secrets(self.trial)
        self.trial.clear()
        orders = self.machines.orders()
        check(not orders, f"BMCs were told: {orders}")
        self.say(f"trial: no row of Ironic has changed; requests at BMCs: {self.machines.counts()}")

    def _rows(self, but: str = "") -> dict[str, list[str]]:
        """Return all rows of Ironic, but for its heartbeats and a column."""
        metadata = sa.MetaData()
        metadata.reflect(self.ironic.engine)
        with self.ironic.engine.connect() as conn:
            return {
                name: sorted(
                    repr(tuple(row))
                    for row in conn.execute(sa.select(*(c for c in table.c if c.name != but)))
                )
                for name, table in metadata.tables.items()
                if name != "conductors"
            }

    def _check_rows(self, before: dict[str, list[str]], after: dict[str, list[str]]) -> None:
        changed = {
            name: sorted(set(rows) ^ set(before[name]))[:4]
            for name, rows in after.items()
            if rows != before[name]
        }
        check(not changed, f"the trial has changed Ironic: {changed}")

    def _stop(self) -> pathlib.Path:
        """Steps 5 and 6; return Ironic's answers."""
        self.begin("5. Wait for nodes in motion")
        self._dbsync("import-ironic", "--check", allowed=(0, 1))
        saved = self.folder / "before.jsonl"
        compared = ("compare", "--ironic", self.ironic.url, "--save", str(saved))
        self.command("ironic-lite-status", *compared)
        self.begin("6. Stop Ironic")
        self.ironic.stop()
        return saved

    def _dbsync(self, name: str, *words: str, allowed: tuple[int, ...] = (0,)) -> str:
        way = "--from" if name == "import-ironic" else "--to"
        settings = str(self.ironic.settings)
        return self.command("ironic-lite-dbsync", name, way, settings, *words, allowed=allowed)

    def _start(self, service: Service) -> None:
        """Start a service, and wait for the power of each node."""
        service.start()
        service.up()
        self._wait(lambda: self._imported(service)["unread"] == 0, "the power of each node")
        self.say("the power of each node is read")

    def _wait(self, ask: Callable[[], bool], about: str) -> None:
        end = time.monotonic() + _LONG
        while not ask():
            check(time.monotonic() < end, f"{about}: not within {_LONG:g} s")
            time.sleep(1)

    def _imported(self, service: Service) -> Json:
        found: Json = service.get("/v1/imports?limit=1")["imports"][0]
        return found

    def _import(self, saved: pathlib.Path) -> None:
        """Steps 7 to 9."""
        self.begin("7. Import")
        dump = self.dump()
        self._dbsync("import-ironic", allowed=(0, 1))
        check(self.dump() == dump, "the import has changed Ironic's database")
        text = self._dbsync("export-ironic", "--check")
        check("nothing to carry back" in text, text)
        self._dbsync("import-ironic", allowed=(2,))
        check(self.dump() == dump, "export-ironic --check has changed Ironic's database")
        self.begin("8. Start, and read the BMCs")
        self._start(self.ours)
        self.begin("9. Compare, and move the endpoint")
        self.command(
            "ironic-lite-status", "compare", "--ironic", str(saved), "--url", self.ours.url
        )

    def _order(self, service: Service) -> None:
        """Send each order to each machine; all are refused, each at least once by the hold."""
        statuses: collections.Counter[int] = collections.Counter()
        unheld = []
        names = [*self.machines.names, _WITH_CONSOLE]
        for method, path, body in _ORDERS:
            found = set()
            for name in names:
                answer = service.ask(method, f"/v1/nodes/{name}{path}", body)
                check(answer.status_code in _REFUSED, f"{method} {name}{path}: {answer.text}")
                statuses[answer.status_code] += 1
                found.add(answer.status_code)
            if HTTPStatus.CONFLICT not in found:
                unheld.append(f"{method} {path} {body}: {found}")
        check(not unheld, f"no hold has refused {unheld}")
        shown = ", ".join(f"{count} by {status}" for status, count in sorted(statuses.items()))
        self.say(f"{len(_ORDERS)} orders to each of {len(names)} nodes are refused: {shown}")

    def _observe(self) -> None:
        """Refused requests of each kind, reads, and the sweeps of some minutes."""
        self.begin(f"observing for {self._minutes:g} minutes")
        end = time.monotonic() + 60 * self._minutes
        self._order(self.ours)
        silent = set()
        while True:
            self.ours.get("/v1/doctor")
            for name in self.machines.names:
                for path in (*_READS, f"/v1/doctor?node={name}"):
                    place = path if path.startswith("/v1/") else f"/v1/nodes/{name}{path}"
                    if self.ours.get(place) is None:
                        silent.add(path)
            if time.monotonic() > end:
                break
            time.sleep(max(0.0, min(60.0, end - time.monotonic())))
        self._search_secrets(self.ours)
        orders = self.machines.orders()
        check(not orders, f"BMCs were told: {orders}")
        self.say(f"observed: requests at Redfish BMCs {self.machines.counts()}, no order")
        self.say(f"reads that some machine does not offer: {sorted(silent)}")

    def _fall_silent(self) -> None:
        """No BMC answers for a third of the minutes: that is counted, and nothing else happens."""
        self.begin("all BMCs are silent")
        nodes = self._nodes()
        before = {one["name"]: one["maintenance"] for one in nodes}
        watched = sorted(
            one["name"]
            for one in nodes
            if one["name"] in self.machines.names
            and not one["maintenance"]
            and not one["retired"]
            and one["provision_state"] not in _UNREAD
        )
        self.machines.fall_silent()
        end = time.monotonic() + 60 * self._minutes / 3
        counted = lambda: self._imported(self.ours)["unread"] == len(watched)  # noqa: E731
        self._wait(counted, "the silence of each BMC")
        self.say(f"{len(watched)} silent nodes are counted")
        time.sleep(max(0.0, end - time.monotonic()))
        checks = self.ours.get("/v1/doctor")["checks"]
        (text,) = (one["text"] for one in checks if one["name"] == "imports")
        check(f"{len(watched)} have not answered: " in text, text)
        changed = [
            one["name"] for one in self._nodes() if one["maintenance"] != before[one["name"]]
        ]
        check(not changed, f"in maintenance: {changed}")
        why = ("--reason", "too early")
        text = self.command("ironic-lite-status", "release", "--all", *why, allowed=(1,))
        left = sorted(re.findall(r"^(\S+): PowerUnread", text, re.MULTILINE))
        check(left == watched, f"left are {left}, silent are {watched}")
        self.command("ironic-lite-status", "observe", "--all", "--reason", "silent")
        self.machines.answer_again()
        self._wait(lambda: self._imported(self.ours)["unread"] == 0, "the power of each node")
        orders = self.machines.orders()
        check(not orders, f"BMCs were told: {orders}")
        self.say("all BMCs are read again")

    def _nodes(self) -> list[Json]:
        path = "/v1/nodes?detail=true&include_children=true&limit=1000"
        found: list[Json] = self.ours.get(path)["nodes"]
        return found

    def _search_secrets(self, service: Service) -> None:
        """Look for the planted words in all that this service has written or shows."""
        places = [self.folder / name for name in ("lite", "ours", "trial")]
        files = [one for place in places for one in place.rglob("*")]
        files.append(self.folder / "before.jsonl")
        texts = {str(one): one.read_bytes() for one in files if one.is_file()}
        texts["reports"] = "".join(self.reports).encode()
        for path in _SHOWN:
            answer = service.ask("GET", path)
            check(answer.ok, f"GET {path}: {answer.text}")
            texts[path] = answer.content
        for place, word in source.SECRETS.items():
            found = [name for name, text in texts.items() if word.encode() in text]
            check(not found, f"the secret of {place} is in {found}")
        self.say(f"no secret is in {len(texts) - len(_SHOWN)} files and {len(_SHOWN)} answers")

    def _release(self) -> None:
        """Step 10, and work here."""
        self.begin("10. Release, and work here")
        self.command("ironic-lite-status", "release", "r7-01", "--reason", "first")
        self._clean_here("r7-01")
        self.command("ironic-lite-status", "release", "--all", "--reason", "all")
        self._deploy_here()

    def _clean_here(self, name: str) -> None:
        for target, wanted in (("manage", "manageable"), ("provide", "available")):
            self.ours.provision(name, target, wanted)
        self.say(f"{name} was cleaned here")

    def _deploy_here(self) -> None:
        """Undeploy, clean and deploy an imported machine by the real agent."""
        pictures = self.folder / "images"
        pictures.mkdir()
        served = self._stack.enter_context(images.serve(pictures, None))
        path = f"/v1/nodes/{source.AGENT}"
        bios = {"capabilities": "boot_mode:bios"}
        self._change(path, "replace", "protected", False)
        self._change(path, "replace", "properties", bios)
        self.ours.provision(source.AGENT, "deleted", "available")
        info = served.put("system.raw", images.disk())
        self._change(path, "add", "instance_info", info)
        self.ours.provision(source.AGENT, "active", "active")
        disk = (self.machines.booting.agent.folder / "disk.img").read_bytes()
        check(disk.startswith(images.disk()), "the image is not on the disk")
        self.say(f"{source.AGENT} was undeployed, cleaned and deployed here by the agent")

    def _change(self, path: str, how: str, field: str, value: object) -> None:
        body = [{"op": how, "path": f"/{field}", "value": value}]
        answer = self.ours.ask("PATCH", path, body)
        check(answer.ok, answer.text)

    def _return(self) -> None:
        """Step 13, after changes of all kinds, and a clean there."""
        self.begin("13. Back later, and work there")
        self._change_all()
        self.command("ironic-lite-status", "observe", "--all", "--reason", "going back")
        for program in self.ours.running():
            program.stop()
        self._dbsync("export-ironic", "--check", allowed=(0, 1))
        self._dbsync("export-ironic", "--yes", allowed=(0, 1))
        text = self.ironic.run("ironic-status", "upgrade", "check")
        check("Failure" not in text, text)
        self.ironic.start()
        saved = str(self.folder / "after.jsonl")
        compared = ("ironic-lite-status", "compare", "--ironic")
        self.command(*compared, self.ironic.url, "--save", saved)
        self.ours.start()
        self.ours.up()
        self.command(*compared, saved, "--url", self.ours.url)
        for name in ("r7-01", NEW):
            self._clean_there(name)

    def _change_all(self) -> None:
        """Change fields with a secret, a name and a trait; add a node, and delete one."""
        self._change("/v1/nodes/r7-03", "replace", "extra/rack", 8)
        self._change("/v1/nodes/r7-06", "replace", "driver_info/bmc_password", "new-word")
        self._change("/v1/nodes/r7-12", "replace", "name", "r8-12")
        self._change(f"/v1/ports/{source.ports(13)[1][0]}", "replace", "extra", {"nic": "b"})
        number = uuid_of(20)
        self.ours.create(NEW, uuid=number, resource_class="metal", extra={"made": "here"})
        for method, path, body in (
            ("PUT", "/v1/nodes/r7-13/traits/CUSTOM_NEW", None),
            ("POST", "/v1/ports", {"node_uuid": number, "address": "52:54:00:09:00:01"}),
            ("DELETE", f"/v1/ports/{source.ports(10)[1][0]}", None),
            ("DELETE", "/v1/nodes/r7-10", None),
        ):
            answer = self.ours.ask(method, path, body)
            check(answer.ok, f"{method} {path}: {answer.text}")
        self._clean_here(NEW)

    def _clean_there(self, name: str) -> None:
        path = f"/v1/nodes/{name}"
        for target, wanted in (("manage", "manageable"), ("provide", "available")):
            self.ironic.send("PUT", f"{path}/states/provision", {"target": target})
            self.ironic.reaches(path, "provision_state", wanted)
        self.say(f"{name} was cleaned by Ironic")
