"""Ramdisk of one machine: it boots what the service published, and speaks as agent 13 does.

Agent n listens at 127.(65..).x.y, with a certificate of its own. What it answers to commands
is compared with a recording of the real agent (``agent.json``).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import http
import io
import ipaddress
import pathlib
import random
import re
import ssl
import time
import urllib.parse
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import orjson
import pycdlib
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from benchmarks.site import faults
from benchmarks.site.bmc import Machine, address
from benchmarks.site.trees import Json
from benchmarks.site.wire import Client, Connection, Reply, Request
from tests.emulators import machines

FIRST = 65
"""The first number of the addresses of agents."""
RECORDED = orjson.loads((pathlib.Path(__file__).parent / "agent.json").read_bytes())
"""Clean steps of the real agent, and an exchange with it: types instead of values."""
VERSION = "13.0.0"
_TRIES_SECONDS, _RETRY_SECONDS = 60.0, 5.0
_HEARTBEAT_SECONDS, _LEAST = 5.0, 0.1
_LOCK_PAUSES = (5.0, 10.0, 30.0)
_LOOKUP, _HEARTBEAT = "1.62", "1.68"
_VERSION_HEADER = "X-OpenStack-Ironic-API-Version"
_KERNEL = re.compile(r"^kernel (?:--timeout \d+ )?--name \S+ (\S+) (.*) \|\| goto failed$", re.M)
_INITRD = re.compile(r"^initrd (?:--timeout \d+ )?--name \S+ (\S+) \|\| goto failed$", re.M)
_CHAIN = "chain --autofree pxelinux.cfg/${mac:hexhyp}"


class NotBooted(Exception):
    """The firmware finds nothing to boot."""


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds of a boot until the agent runs, and of a step."""

    boot: tuple[float, float] = (50, 70)
    step: tuple[float, float] = (8, 12)


@dataclasses.dataclass(frozen=True)
class Place:
    """Boot server, folder and times of all machines.

    :param files: the URL of the boot server, as DHCP gives it.
    :param folder: of certificates.
    :param port: of all agents; 9999 may be that of another site on this machine.
    """

    files: str
    folder: pathlib.Path
    port: int
    times: Times


# -- certificates ---------------------------------------------------------------------------------


def certificate(file: pathlib.Path, host: str, *, key: str = "p384") -> str:
    """Write a certificate and its key into one file, as agents make them; return the former.

    :param key: ``p384`` for agents, ``rsa2048`` for BMCs.
    """
    private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    if key == "rsa2048":
        private = rsa.generate_private_key(65537, 2048)
    else:
        private = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "site")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + 30 * day)
        .add_extension(names, critical=True)
        .sign(private, hashes.SHA512() if key == "p384" else hashes.SHA256())
    )
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    secret = private.private_bytes(serialization.Encoding.PEM, form, plain)
    text = made.public_bytes(serialization.Encoding.PEM)
    file.write_bytes(text + secret)
    return text.decode()


def context(file: pathlib.Path) -> ssl.SSLContext:
    """Return the context of a server with such a file."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(file)
    return made


# -- boot -----------------------------------------------------------------------------------------


class Ramdisk:
    """One boot of a machine: first the firmware, then the agent, until the power goes off."""

    def __init__(self, machine: Machine, place: Place, source: str) -> None:
        self.machine, self.place, self._source = machine, place, source
        self.host = address(machine.number, FIRST)
        self._server: asyncio.Server | None = None
        self._clients: dict[tuple[str, int], Client] = {}
        self._work: list[asyncio.Task[None]] = []
        self.begin(self._live())

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin work that ends with the power."""
        self._work.append(asyncio.get_running_loop().create_task(work))

    def stop(self) -> None:
        """Lose the power: nothing of it goes on."""
        for task in self._work:
            task.cancel()
        self._close()

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for client in self._clients.values():
            client.close()

    async def _live(self) -> None:
        machine, seconds = self.machine, random.uniform(*self.place.times.boot)
        try:
            await asyncio.sleep(seconds / 3)
            given = await self._boot()
            await asyncio.sleep(seconds * 2 / 3)
            if machine.fault != "agent_silent":
                await Agent(self, given).run()
        except NotBooted as why:
            machine.notes.append(f"no boot: {why}")
        except Exception as why:
            machine.notes.append(f"{type(why).__name__}: {why}")
            raise
        finally:
            self._close()

    async def _boot(self) -> Mapping[str, str]:
        """Return the kernel's parameters; the firmware tries for a minute.

        :raises NotBooted: nothing is published for this machine.
        """
        end = time.monotonic() + _TRIES_SECONDS
        pause = min(_RETRY_SECONDS, self.place.times.boot[0])
        while True:
            try:
                if self._source in {"Pxe", "UefiHttp"}:
                    return await self._over_network()
                return await self._from_medium()
            except (NotBooted, OSError) as why:
                if time.monotonic() > end:
                    raise NotBooted(str(why)) from why
                await asyncio.sleep(pause)

    async def _over_network(self) -> Mapping[str, str]:
        """Load what iPXE loads: the first script, that of the card, kernel and ramdisk."""
        entry = (await self.fetch(f"{self.place.files}/boot.ipxe")).decode()
        if _CHAIN not in entry:
            raise NotBooted("boot.ipxe does not lead to the script of the card")
        card = self.machine.macs[0].lower().replace(":", "-")
        script = (await self.fetch(f"{self.place.files}/pxelinux.cfg/{card}")).decode()
        kernel, initrd = _KERNEL.search(script), _INITRD.findall(script)
        if kernel is None or not initrd:
            raise NotBooted("its script names no kernel and ramdisk")
        for url in (kernel[1], *initrd):
            if not await self.fetch(url):
                raise NotBooted(f"{url} is empty")
        return dict(word.split("=", 1) for word in kernel[2].split() if "=" in word)

    async def _from_medium(self) -> Mapping[str, str]:
        image = self.machine.image()
        if image is None:
            raise NotBooted("no medium")
        return _parameters(await self.fetch(image))

    async def fetch(self, url: str) -> bytes:
        """Return a file; the BMC reads a medium, the firmware everything else.

        :raises NotBooted: there is no such file.
        """
        self.machine.count("file GET")
        target = urllib.parse.urlsplit(url)
        found = await self.client(url).ask("GET", target.path)
        if found.status != http.HTTPStatus.OK:
            raise NotBooted(f"{target.path}: HTTP {found.status}")
        return found.body

    def client(self, url: str) -> Client:
        """Return the client of a server."""
        parts = urllib.parse.urlsplit(url)
        where = (parts.hostname or "", parts.port or 80)
        return self._clients.setdefault(where, Client(*where, source=self.host))

    async def listen(self, agent: Agent) -> str:
        """Let the agent listen with a new certificate, or that which was made before the run."""
        file = self.place.folder / f"{self.machine.number}.pem"
        again = len(self.machine.booted) > 1 or not file.exists()
        text = certificate(file, self.host) if again else file.read_text()
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(agent.receive, lambda _: self.machine.count("agent connect")),
            self.host,
            self.place.port,
            ssl=context(file),
        )
        return text.partition("-----BEGIN PRIVATE")[0]


def _parameters(medium: bytes) -> dict[str, str]:
    """Return the parameters that the boot loader of a medium gives to its kernel."""
    disc = pycdlib.PyCdlib()
    disc.open_fp(io.BytesIO(medium))
    try:
        for name, first in machines.CONFIGS.items():
            out = io.BytesIO()
            with contextlib.suppress(pycdlib.pycdlibexception.PyCdlibInvalidInput):
                disc.get_file_from_iso_fp(out, rr_path=name)
                lines = (line.strip() for line in out.getvalue().decode().splitlines())
                words = [line.split() for line in lines if line.lower().startswith(first)]
                return dict(word.split("=", 1) for line in words for word in line if "=" in word)
    finally:
        disc.close()
    raise NotBooted("no boot loader finds its configuration on the medium")


# -- the agent ------------------------------------------------------------------------------------


class Agent:
    """The agent of one boot: lookup, heartbeats, commands."""

    def __init__(self, ramdisk: Ramdisk, given: Mapping[str, str]) -> None:
        self._ramdisk, self._machine = ramdisk, ramdisk.machine
        self._api = ramdisk.client(given["ipa-api-url"])
        self._url = given["ipa-api-url"]
        self._token: str | None = given.get("ipa-agent-token")
        self._commands: dict[str, Json] = {}
        self._node, self._certificate, self._timeout = "", "", 300.0
        self._interval, self._previous, self._forced = 0.0, 0.0, False

    async def run(self) -> None:
        """Look the node up, listen, and send heartbeats until the power goes off."""
        if self._machine.fault == "second_lookup":
            await self._look_up()
        if not await self._knows_its_node():
            self._machine.notes.append("the agent has locked itself: its token was told before")
            return
        self._certificate = await self._ramdisk.listen(self)
        while True:
            rest = self._interval - (time.monotonic() - self._previous)
            await asyncio.sleep(min(_HEARTBEAT_SECONDS, max(0.0, rest)) + _LEAST)
            elapsed = time.monotonic() - self._previous
            if elapsed >= self._interval or (self._forced and elapsed > _HEARTBEAT_SECONDS):
                await self._send_heartbeat()

    async def _ask(
        self, method: str, target: str, version: str, body: object = None
    ) -> Reply | None:
        """Return an answer of the API, None without one: the agent goes on."""
        name = urllib.parse.urlsplit(target).path.split("/")[2:3] or ["root"]
        self._machine.count(f"api {name[0]}")
        headers = {"Accept": "application/json", _VERSION_HEADER: version}
        try:
            return await self._api.ask(method, target, body, headers)
        except OSError:
            return None

    async def _look_up(self) -> Reply | None:
        """Return the answer to a lookup."""
        addresses = urllib.parse.quote(",".join(self._machine.macs).lower(), safe="")
        return await self._ask("GET", f"/v1/lookup?addresses={addresses}", _LOOKUP)

    async def _knows_its_node(self) -> bool:
        """Look the node up until it is known; return whether the agent has its token."""
        await self._ask("GET", "/", _LOOKUP)
        pauses, tries = iter((*_LOCK_PAUSES, *[_LOCK_PAUSES[-1]] * 20)), 0
        while True:
            found = await self._look_up()
            if found is not None and found.status == http.HTTPStatus.OK:
                break
            if found is not None and found.status == http.HTTPStatus.CONFLICT:
                self._machine.count("api refused lookup")
                await asyncio.sleep(next(pauses))
            tries += 1
            await asyncio.sleep(max(1.0, random.uniform(0, min(60, 2**tries))))
        document = orjson.loads(found.body)
        self._node = document["node"]["uuid"]
        self._timeout = document["config"]["heartbeat_timeout"]
        told = document["config"].get("agent_token") or ""
        if len(told) >= 32:
            self._token = told
        if self._machine.fault == "agent_token":
            self._token = "wrong" * 8
        await self._ask("GET", urllib.parse.urlsplit(self._url).path or "/", _LOOKUP)  # its probe
        return self._token is not None

    async def _send_heartbeat(self) -> None:
        body = {
            "callback_url": f"https://{self._ramdisk.host}:{self._ramdisk.place.port}",
            "agent_token": self._token,
            "agent_version": VERSION,
            "agent_verify_ca": self._certificate,
        }
        found = await self._ask("POST", f"/v1/heartbeat/{self._node}", _HEARTBEAT, body)
        if found is not None and found.status == http.HTTPStatus.ACCEPTED:
            self._forced = False
            self._interval = self._timeout * random.uniform(0.3, 0.6)
        else:
            self._machine.count("api refused heartbeat")
            self._interval = _HEARTBEAT_SECONDS * random.uniform(1.0, 2.0)
        self._previous = time.monotonic()

    # -- commands -----------------------------------------------------------------------------

    def receive(self, connection: Connection, request: Request) -> None:
        """Answer a request of the service."""
        self._machine.count(f"agent {request.method}")
        asked = urllib.parse.parse_qs(request.query)
        path = request.path.removeprefix("/v1")
        if not path.startswith("/commands/"):
            connection.reply(_refusal(404, "404 Not Found: There is no such URL here."))
        elif self._token is None or asked.get("agent_token") != [self._token]:
            connection.reply(_refusal(401, "401 Unauthorized: Token invalid."))
        elif request.method == "POST":
            connection.reply(self._begin(orjson.loads(request.body)))
        else:
            connection.reply(self._show(path.removeprefix("/commands/")))

    def _show(self, known: str) -> Reply:
        if not known:
            return Reply(200, orjson.dumps({"commands": list(self._commands.values())}))
        if known not in self._commands:
            text = f"Not found: Command Result with id {known} not found."
            return _refusal(404, text)
        if self._commands[known]["command_status"] == "RUNNING":
            self._machine.count("agent poll in vain")
        return Reply(200, orjson.dumps(self._commands[known]))

    def _begin(self, body: Json) -> Reply:
        extension, _, name = body["name"].partition(".")
        last = next(reversed(self._commands.values()), None)
        if last is not None and last["command_status"] == "RUNNING":
            return _refusal(409, f"Agent is busy: executing command {last['command_name']}")
        if (extension, name) not in {
            ("clean", "get_clean_steps"),
            ("clean", "execute_clean_step"),
            ("log", "collect_system_logs"),
        }:
            return _refusal(404, f"Not found: Extension with id {extension} not found.")
        command: Json = {
            "id": str(uuid.uuid4()),
            "command_name": name,
            "command_status": "SUCCEEDED",
            "command_error": None,
            "command_result": None,
        }
        self._commands[command["id"]] = command
        if name == "get_clean_steps":
            command["command_result"] = {
                "clean_steps": {"GenericHardwareManager": RECORDED["steps"]},
                "hardware_manager_version": {"generic_hardware_manager": "1.2"},
            }
        elif name == "collect_system_logs":
            command["command_result"] = {"system_logs": ""}
        else:
            command["command_status"] = "RUNNING"
            self._ramdisk.begin(self._carry_out(command, body["params"]["step"]))
        return Reply(200, orjson.dumps(command))

    async def _carry_out(self, command: Json, step: Json) -> None:
        seconds, machine = random.uniform(*self._ramdisk.place.times.step), self._machine
        await asyncio.sleep(seconds / 2)
        if machine.fault in {"step_crash", "step_reboot"}:
            machine.notes.append(machine.fault)
            if machine.fault == "step_reboot":
                machine.crash()
            else:
                self._ramdisk.stop()
            return
        await asyncio.sleep(seconds / 2)
        if machine.fault == "step_error":
            told = "Clean step failed"
            error = {"type": "CleaningError", "code": 500, "message": told}
            error["details"] = "disk sda is on fire"
            command.update(command_status="FAILED", command_error=error)
        else:
            machine.erasures += step["step"] == faults.ERASES
            done = {"clean_result": None, "clean_step": step}
            command.update(command_status="SUCCEEDED", command_result=done)
        self._forced = True


def _refusal(status: int, text: str) -> Reply:
    return Reply(status, orjson.dumps({"faultcode": "Client", "faultstring": text}))


def make_certificates(folder: pathlib.Path, numbers: Sequence[int]) -> None:
    """Write the certificates of agents before the run."""
    for number in numbers:
        certificate(folder / f"{number}.pem", address(number, FIRST))
