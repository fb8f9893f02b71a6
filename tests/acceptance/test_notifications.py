"""Real processes send notifications, or say why they will not start."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import oslo_messaging

from ironic_lite.core import config
from tests.support import rabbit, service
from tests.support.ports import free_port
from tests.support.service import Program, Service

ON = "\n[DEFAULT]\nnotification_level = info\n[oslo_messaging_notifications]\ndriver = {driver}\n"
_LOGGED = re.compile(r"oslo\.messaging\.notification\.\S+ (?P<message>\{.*\})$", re.MULTILINE)


def logged(program: Program) -> list[tuple[str, str]]:
    """Return (publisher, event type) of what the driver ``log`` has written."""
    messages = [json.loads(found["message"]) for found in _LOGGED.finditer(program.said())]
    return [(one["publisher_id"], one["event_type"]) for one in messages]


def live(started: Service) -> None:
    """Lead a node to `available` and delete it."""
    started.create("metal-7", driver_info={"redfish_password": "sesame"})
    started.provision("metal-7", "manage", "manageable")
    started.provision("metal-7", "provide", "available")
    assert started.ask("DELETE", "/v1/nodes/metal-7").status_code == 204


def test_api_and_conductor_tell_what_they_have_done() -> None:
    with service.service(ON.format(driver="log")) as started:
        program = started.start()
        started.up()
        live(started)
        wanted = {
            ("ironic-api.tester", "baremetal.node.create.end"),
            ("ironic-conductor.tester", "baremetal.node.provision_set.start"),
            ("ironic-conductor.tester", "baremetal.node.provision_set.end"),
            ("ironic-conductor.tester", "baremetal.node.delete.end"),
        }
        service.until(lambda: wanted <= set(logged(program)), "notifications")
        assert program.stop() == 0
        assert "sesame" not in program.said()
        assert "notifications were lost" not in program.said()


class Ear:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def info(self, ctxt: Any, publisher: str, kind: str, payload: Any, about: Any) -> None:
        self.seen.append(kind)


def test_a_consumer_hears_both_processes_over_a_broker() -> None:
    topic = f"test-{uuid.uuid4().hex}"
    with rabbit.own_url() as broker:
        config.CONF([], default_config_files=[], default_config_dirs=[])
        messaging = oslo_messaging.get_notification_transport(config.CONF, url=broker)
        target = oslo_messaging.Target(topic=topic, exchange="ironic")
        ear = Ear()
        listener = oslo_messaging.get_notification_listener(
            messaging, [target], [ear], executor="threading"
        )
        listener.start()
        settings = ON.format(driver="messagingv2") + f"transport_url = {broker}\n"
        settings = settings.replace("[oslo", f"versioned_notifications_topics = {topic}\n[oslo")
        with service.service(settings) as started:
            program = started.start()
            started.up()
            live(started)
            service.until(lambda: "baremetal.node.create.end" in ear.seen, "the API")
            service.until(lambda: "baremetal.node.delete.end" in ear.seen, "the conductor")
            assert program.stop() == 0
        listener.stop()
        listener.wait()
        messaging.cleanup()


def test_a_broker_that_is_away_holds_up_nothing_not_even_the_stop() -> None:
    away = f"transport_url = rabbit://guest:s3cret@{service.HOST}:{free_port()}/\n"
    with service.service(ON.format(driver="messagingv2") + away) as started:
        program = started.start()
        started.up()
        live(started)

        def failures() -> int:
            return program.said().count("Notifications cannot be sent")

        service.until(lambda: failures() == 2, "the failure of each process")
        assert program.stop() == 0
        assert failures() == 2  # once a process
        assert program.said().count("notifications were lost") == 2
        assert "s3cret" not in program.said()
        assert "sesame" not in program.said()
        assert "Traceback" not in program.said()


def test_a_driver_of_no_use_stops_the_start_with_one_line() -> None:
    with service.service(ON.format(driver="pigeon")) as started:
        program = started.start()
        assert program.process.wait(service.PATIENCE) == 2
        (line,) = program.lines()
        assert line.startswith(
            "ironic-lite: [oslo_messaging_notifications]driver: pigeon is not one of"
        )
