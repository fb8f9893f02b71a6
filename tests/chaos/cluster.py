"""Several RabbitMQs that are one: quorum queues outlive the death of a member."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import shutil
import threading
from collections.abc import Iterator, Sequence

from ironic_lite.rpc.contract import TOPIC
from tests.support.ports import HOST, free_port
from tests.support.private_servers import RabbitMQ
from tests.support.service import until

MEMBERS = 3
SETTINGS = """\
[oslo_messaging_rabbit]
rabbit_quorum_queue = true
rabbit_transient_quorum_queue = true
"""
"""What makes every queue of our processes a quorum queue."""


class Cluster:
    """All members, each in a folder of its own, with one name server.

    :raises servers.Lacking: RabbitMQ is not installed.
    """

    def __init__(self, folder: pathlib.Path, count: int = MEMBERS) -> None:
        names, cookie = free_port(), secrets.token_hex(16)
        self.members = [RabbitMQ(folder, f"rabbitmq-{n}", names) for n in range(count)]
        nodes = [one.node for one in self.members]
        for one in self.members:
            _join(one, nodes, cookie)

    def start(self) -> None:
        """Start all at once, as they wait for each other; return when they are one."""
        starts = [threading.Thread(target=one.start) for one in self.members]
        for one in starts:
            one.start()
        for one in starts:
            one.join()
        first = self.members[0]
        until(lambda: self._joined(first), "one cluster")

    def _joined(self, member: RabbitMQ) -> bool:
        said = member.said("cluster_status", "--formatter", "json")
        running = said.partition('"running_nodes":')[2].partition("]")[0]
        return all(one.node in running for one in self.members)

    def again(self, member: RabbitMQ) -> None:
        """Start one that was stopped; return when it is one of them."""
        member.start()
        until(lambda: self._joined(member), f"{member.node} is back in the cluster")

    def flaws(self) -> list[str]:
        """Return which queues would not outlive the death of a member; all live now."""
        said = self.members[0].said("list_queues", "name", "type", "members", "-s")
        rows = [line.split("\t") for line in said.splitlines()]
        if not any(row[0].startswith(TOPIC) for row in rows):
            return ["the brokers know no queue of a conductor"]
        return [
            f"a queue that is not on all brokers: {' '.join(row)}"
            for row in rows
            if row[1] != "quorum" or row[2].count("@") < len(self.members)
        ]

    def url(self) -> str:
        """Return the URL by which our processes reach them."""
        return f"rabbit://{','.join(f'guest:guest@{HOST}:{one.port}' for one in self.members)}/"

    def close(self) -> None:
        """End all and their name server."""
        for one in self.members:
            one.stop()
        self.members[0].close()


def _join(member: RabbitMQ, nodes: Sequence[str], cookie: str) -> None:
    """Write down who its peers are."""
    lines = ["cluster_formation.peer_discovery_backend = classic_config"]
    lines += [
        f"cluster_formation.classic_config.nodes.{number} = {node}"
        for number, node in enumerate(nodes, 1)
    ]
    with member.settings.open("a") as settings:
        print(*lines, sep="\n", file=settings)
    secret = member.folder / ".erlang.cookie"
    secret.write_text(cookie)
    secret.chmod(0o400)
    if os.geteuid() == 0:
        shutil.chown(secret, "rabbitmq", "rabbitmq")


@contextlib.contextmanager
def cluster(folder: pathlib.Path) -> Iterator[Cluster]:
    """Give a cluster of brokers.

    :raises servers.Lacking: RabbitMQ is not installed.
    """
    made = Cluster(folder)
    try:
        made.start()
        yield made
    finally:
        made.close()
