"""A release of Ironic beside this service, by the run book of docs/moving-from-ironic.rst."""

from __future__ import annotations

import contextlib
import pathlib
import re
import sqlite3
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from cryptography.fernet import Fernet

from tests.compare.contents import uuid_of
from tests.emulators import bmc, images, ipmi, machines
from tests.move_in import source
from tests.move_in.ironics import Ironic
from tests.support import machine_room, private_servers
from tests.support.ports import HOST, free_port
from tests.support.service import SCRIPTS, Service, environment, until

Json = dict[str, Any]

KINDS: Mapping[str, str] = {
    "24.1.5": "mysql",
    "29.0.6": "mysql",
    "35.1.0": "postgresql",
    "39.0.0": "sqlite",
}
"""Releases that are moved, and the kind of database of each."""
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
_OWN_INTERFACES = re.compile("enabled_(boot|deploy|inspect|raid)_interfaces = ")
"""Options of the machine room that would disable interfaces of imported nodes."""
_ORDERS: tuple[tuple[str, str, Json | None], ...] = (
    # Requests that change a machine or its BMC: method, path below a node, body.
    ("PUT", "/states/power", {"target": "power off"}),
    ("PUT", "/states/power", {"target": "rebooting"}),
    ("PUT", "/states/provision", {"target": "deleted"}),
    ("PUT", "/states/boot_mode", {"target": "bios"}),
    ("PUT", "/states/secure_boot", {"target": False}),
    ("PUT", "/management/boot_device", {"boot_device": "pxe", "persistent": False}),
    ("PUT", "/management/inject_nmi", {}),
    ("DELETE", "", None),
)
_ROUNDS = 20
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
        self.booting = stack.enter_context(machines.serve(1))[0]
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

    def orders(self) -> dict[str, list[str]]:
        """Return what each machine was told beside reads and logins."""
        told = {name: one.changes() for name, one in self._redfish.items()}
        told |= {name: one.actions for name, one in self._ipmi.items()}
        told[source.AGENT] = [str(self.booting.known)] if self.booting.known else []
        return {name: found for name, found in told.items() if found}

    def reads(self) -> int:
        """Return how many requests the Redfish BMCs have answered."""
        return sum(len(one.log) for one in self._redfish.values())


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
        (folder / "ironic").mkdir(exist_ok=True)
        self.ironic = Ironic(version, folder / "ironic", theirs)
        stack.callback(self.ironic.stop)
        self.ours = self._service(ours)
        self.reports: list[str] = []

    def _database(self, name: str) -> str:
        if self.kind == "sqlite":
            (self.folder / name).mkdir()
            return f"sqlite:///{self.folder}/{name}/{name}.sqlite"
        place = self.folder / name
        place.mkdir()
        place.chmod(0o755)
        server = self._stack.enter_context(private_servers.database(self.kind, place))
        return server.url(server.port)

    def _service(self, database: str) -> Service:
        place = self.folder / "lite"
        place.mkdir()
        key = Fernet.generate_key().decode()
        found = Service(place, migrated=False)
        more = machine_room.SETTINGS.replace(" = redfish\n", " = redfish,ipmi,fake-hardware\n")
        more = "".join(
            line for line in more.splitlines(keepends=True) if not _OWN_INTERFACES.match(line)
        )
        values = {"folder": place, "api": found.url, "files": free_port(), "patience": 1800}
        text = found.settings.read_text(encoding="utf-8") + more.format(**values)
        text = text.replace("sync_power_state_interval = 0", "sync_power_state_interval = 5")
        text += _SETTINGS.format(database=database, key=key)
        found.settings.write_text(text, encoding="utf-8")
        for name in (*machine_room.PARTS, *machine_room.LOADERS):
            (place / name).write_bytes(name.encode() * 1000)
        self._stack.callback(found.clear)
        return found

    # -- commands ----------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Print a step with its time."""
        print(f"{self.version} {time.monotonic() - self._began:4.0f} s  {text}", flush=True)

    def command(self, program: str, *words: str, allowed: tuple[int, ...] = (0,)) -> str:
        """Run one of our programs; return what it prints.

        :raises StepError: its exit status is another one.
        """
        command = [str(SCRIPTS / program), "--config-file", str(self.ours.settings), *words]
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
        self._fill()
        before = self._prepare()
        self._import(before)
        self._observe()
        self._release()
        self._return()

    def _fill(self) -> None:
        self.ironic.create_schema()
        source.fill(self.ironic, self.machines.bmcs)
        with self.ironic.engine.begin() as conn:
            card, address = source.ports(4)[0][0], {"address": self.machines.booting.mac}
            source.Tables(self.version, conn).update("ports", "uuid", card, address)
        self.say(f"filled: {len(source.NODES)} nodes on {self.kind}")

    def _prepare(self) -> pathlib.Path:
        """Steps 1 to 6."""
        self.command("ironic-lite-dbsync", "upgrade")
        self.ironic.start()
        saved = self.folder / "before.jsonl"
        compared = ("compare", "--ironic", self.ironic.url, "--save", str(saved))
        self.command("ironic-lite-status", *compared)
        self._dbsync("import-ironic", "--check", allowed=(0, 1))
        self.ironic.stop()
        return saved

    def _dbsync(self, name: str, *words: str, allowed: tuple[int, ...] = (0,)) -> str:
        way = "--from" if name == "import-ironic" else "--to"
        settings = str(self.ironic.settings)
        return self.command("ironic-lite-dbsync", name, way, settings, *words, allowed=allowed)

    def _import(self, saved: pathlib.Path) -> None:
        """Steps 7 to 9."""
        dump = self.dump()
        self._dbsync("import-ironic", allowed=(0, 1))
        check(self.dump() == dump, "the import has changed Ironic's database")
        text = self._dbsync("export-ironic", "--check")
        check("nothing to carry back" in text, text)
        check(self.dump() == dump, "export-ironic --check has changed Ironic's database")
        self.ours.start()
        self.ours.up()
        until(lambda: self._imported()["unread"] == 0, "the power of each node")
        self.say("the power of each node is read")
        self.command(
            "ironic-lite-status", "compare", "--ironic", str(saved), "--url", self.ours.url
        )

    def _imported(self) -> Json:
        found: Json = self.ours.get("/v1/imports?limit=1")["imports"][0]
        return found

    def _observe(self) -> None:
        """Twenty refused requests of each kind, and the sweeps of some minutes."""
        end = time.monotonic() + 60 * self._minutes
        for number in range(_ROUNDS):
            for name in self.machines.bmcs:
                for method, path, body in _ORDERS:
                    answer = self.ours.ask(method, f"/v1/nodes/{name}{path}", body)
                    check(answer.status_code in _REFUSED, f"{method} {name}{path}: {answer.text}")
            self.ours.get("/v1/doctor")
            if number == 0:
                self.say("each order is refused once")
        time.sleep(max(0.0, end - time.monotonic()))
        self._search_secrets()
        orders = self.machines.orders()
        check(not orders, f"BMCs were told: {orders}")
        self.say(f"observed: {self.machines.reads()} requests of Redfish, all of them reads")

    def _search_secrets(self) -> None:
        """Look for the planted words in all that this service has written."""
        files = [*(self.folder / "lite").rglob("*"), *(self.folder / "ours").rglob("*")]
        files.append(self.folder / "before.jsonl")
        texts = {str(one): one.read_bytes() for one in files if one.is_file()}
        texts["reports"] = "".join(self.reports).encode()
        for place, word in source.SECRETS.items():
            found = [name for name, text in texts.items() if word.encode() in text]
            check(not found, f"the secret of {place} is in {found}")
        self.say(f"no secret is in {len(texts)} files")

    def _release(self) -> None:
        """Step 10, and work here."""
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
