"""Attacks on a service at work, one after the other, and the judgement from outside."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import pathlib
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import bcrypt
import requests

from tests.attack import attacks, machines, outside, processes
from tests.attack.outside import MIB, Sight
from tests.chaos import checker, story
from tests.chaos.faults import World
from tests.chaos.records import Fault
from tests.support.ports import HOST
from tests.support.service import until

SETTINGS = """\
[api]
workers = 2
body_timeout = 2
auth_strategy = {auth}
[DEFAULT]
http_basic_auth_user_file = {users}
"""
LOGIN = "attack:sesame"
PATIENCE = 60.0
"""Seconds until a process is as it was before an attack."""
DESCRIPTORS = 24
"""More of them than before, which the load itself may account for: connections of its clients, and
of the pool of the database."""
THREADS = 80
"""More of them than before: pools of workers keep their threads."""
MEMORY = 96 * MIB
"""More resident memory than before."""
LOG = 4 * MIB
"""Bytes that one attack may have logged."""
UNANSWERED = 45.0
"""Seconds without an answer to an honest client, on a machine with too little time."""


@dataclasses.dataclass(frozen=True)
class Wishes:
    """Which attacks are made, and on what.

    :ivar names: of attacks; empty for all, or for all of the short form.
    :ivar auth: [api]auth_strategy.
    """

    seed: int
    short: bool = False
    names: tuple[str, ...] = ()
    auth: str = "noauth"
    database: str = "sqlite"
    rpc: str = "local"
    nodes: int = 40
    rate: float = 6.0


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of it."""

    done: list[str]
    violations: list[str]
    requests: int
    runs: int
    longest: float
    """Seconds for which the honest client had no answer, the most there were."""


class Honest:
    """A client that asks for something small again and again while attacks go on.

    :ivar longest: seconds without an answer, the most there were.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._closing = threading.Event()
        self._answered = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="honest")
        self.longest = 0.0

    def reset(self) -> None:
        """Count the time without an answer from now on."""
        self._answered = time.monotonic()
        self.longest = 0.0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.closing(requests.Session()) as session:
            session.trust_env = False
            while not self._closing.wait(0.1):
                answered = False
                with contextlib.suppress(OSError):
                    answered = session.get(self.url, timeout=10).ok
                now = time.monotonic()
                self.longest = max(self.longest, now - self._answered)
                if answered:
                    self._answered = now


def run(
    wishes: Wishes, folder: pathlib.Path, report: Callable[[str], None] = lambda _line: None
) -> Outcome:
    """Make the attacks.

    :param folder: has a short name, and keeps the logs.
    :param report: called with a line for each attack that has ended.
    :raises servers.Lacking: a server that was asked for is not installed.
    """
    chosen = chosen_by(wishes)
    needs_disk = any(one.name == "disk-full" for one in chosen)
    users = folder / "users"
    name, _, password = LOGIN.partition(":")
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(10)).decode()
    users.write_text(f"{name}:{hashed}\n", encoding="utf-8")
    world_wishes = story.Wishes(
        seconds=0,
        seed=wishes.seed,
        database=wishes.database,
        rpc=wishes.rpc,
        faults=("disk",) if needs_disk else (),
        nodes=wishes.nodes,
        apis=1,
        rate=wishes.rate,
        settings=machines.SETTINGS + SETTINGS.format(auth=wishes.auth, users=users),
        login="" if wishes.auth == "noauth" else LOGIN,
    )
    with contextlib.ExitStack() as stack:
        world = stack.enter_context(story.world_of(world_wishes, folder))
        switched = machines.Machines(world, stack)
        return _Siege(world, folder, wishes, switched, report).run(chosen)


def chosen_by(wishes: Wishes) -> list[attacks.Attack | processes.Strike]:
    """Return the attacks that are to be made."""
    table: list[attacks.Attack | processes.Strike] = [
        one for one in attacks.TABLE if wishes.auth in one.auth
    ]
    table += processes.TABLE if wishes.auth == "noauth" else ()
    if wishes.names:
        return [one for one in table if one.name in wishes.names]
    if wishes.short:
        return [one for one in table if one.short]
    return [one for one in table if one.name != "some-signals"]


class _Siege:
    """One run of attacks."""

    def __init__(
        self,
        world: World,
        folder: pathlib.Path,
        wishes: Wishes,
        switched: machines.Machines,
        report: Callable[[str], None],
    ) -> None:
        self._world = world
        self._machines = switched
        self._report = report
        self._folder = folder
        self._dice = random.Random(wishes.seed)
        self._faults: list[Fault] = []
        self._found: list[str] = []
        url = world.watch.database.url
        self._database = pathlib.Path(str(url.database)) if wishes.database == "sqlite" else None
        node = next(iter(world.watch.look.rows))
        header = f"Authorization: Basic {base64.b64encode(LOGIN.encode()).decode()}"
        login = header if world.ports.login else ""
        self._target = attacks.Target((HOST, world.ports.numbers[0]), node, login)
        self._honest = Honest(f"{world.ports.url(0)}/v1/nodes/{node}?fields=uuid")

    def run(self, chosen: Iterable[attacks.Attack | processes.Strike]) -> Outcome:
        """Attack, and judge."""
        world = self._world
        longest, done = 0.0, []
        world.load.start()
        until(lambda: requests.get(self._honest.url, timeout=10).ok, "the API")
        self._honest.start()
        self._machines.start()
        try:
            for one in chosen:
                self._honest.reset()
                begun, known = time.monotonic(), len(self._found)
                self._one(one)
                seconds, new = time.monotonic() - begun, self._found[known:]
                self._report(f"{one.name}: {seconds:.0f} s, violations {len(new)}")
                longest = max(longest, self._honest.longest)
                done.append(one.name)
        finally:
            self._honest.stop()
            self._machines.stop()
            world.load.stop()
        story.settle(world)
        self._found += self._machines.judged()
        world.agents.stop()
        world.fleet.end()
        history = story.history_of(world, self._folder, self._faults)
        self._found += map(str, checker.check(history))
        return Outcome(done, self._found, len(history.requests), len(history.runs), longest)

    def _one(self, one: attacks.Attack | processes.Strike) -> None:
        before, logged = self._look(), self._logged()
        if isinstance(one, attacks.Attack):
            self._found += (f"{one.name}: {text}" for text in one.run(self._target))
        else:
            self._faults += one.run(self._world, self._dice)
        end = time.monotonic() + PATIENCE
        while (left := list(self._changed(before))) and time.monotonic() < end:
            time.sleep(0.5)
        self._found += (f"{one.name}: {text}" for text in left)
        self._found += (f"{one.name}: {text}" for text in self._said(logged))
        if self._honest.longest > UNANSWERED:
            text = f"an honest client had no answer for {self._honest.longest:.0f} s"
            self._found.append(f"{one.name}: {text}")

    def _look(self) -> dict[int, Sight]:
        return outside.look(processes.pids(self._world), self._database)

    def _changed(self, before: dict[int, Sight]) -> Iterator[str]:
        """Yield how processes differ from what they were."""
        for pid, now in self._look().items():
            if now.unlocked:
                yield f"process {pid} has lost its locks on {', '.join(now.unlocked)}"
            then = before.get(pid)
            if then is None:
                continue  # it was started meanwhile
            for what, more, most in (
                ("descriptors", now.descriptors - then.descriptors, DESCRIPTORS),
                ("threads", now.threads - then.threads, THREADS),
                ("bytes of memory", now.memory - then.memory, MEMORY),
            ):
                if more > most:
                    yield f"process {pid} has {more} {what} more than before"

    # -- logs --------------------------------------------------------------------------------

    def _logged(self) -> dict[pathlib.Path, int]:
        return {one.log: one.log.stat().st_size for one in self._world.fleet.processes.values()}

    def _said(self, before: dict[pathlib.Path, int]) -> Iterator[str]:
        for path, size in before.items():
            with path.open("rb") as log:
                log.seek(size)
                text = log.read()
            if len(text) > LOG:
                yield f"{path.name} has grown by {len(text) // MIB} MiB"
            for line in outside.odd_lines(text.decode(errors="replace"))[:3]:
                yield f"{path.name} has the line {line[:200]!r}"
