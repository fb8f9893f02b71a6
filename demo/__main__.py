"""``make demo``: the whole service on emulated machines, in one command."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sqlite3
import sys
import time
from collections.abc import Sequence

from demo import backstage, display, emulator, fleet, journey
from demo.client import ApiError, Client
from demo.display import say

MACHINES = 3
LIMIT = 90.0
"""Time limit in seconds for all machines together."""
_INTERRUPTED = 130
# A step is overdue after 15 minutes, and clean_callback_timeout ends it after 30.
_OVERDUE_MINUTES = 20
_POWER_SECONDS = 0.2
_STEP_SECONDS = 0.4
_FAULTS = (ApiError, backstage.ServiceError, emulator.EmulatorError, journey.JourneyError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demonstration; return the exit status."""
    wanted = _parse_arguments(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return _run_demo(wanted)
    except KeyboardInterrupt:
        say("\nStopped.")
        return _INTERRUPTED
    except _FAULTS as why:
        say(f"\n{why}")
        return 1


def _parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description="Start ironic-lite and a Redfish emulator on this machine, and take three "
        "machines from enroll to available, active, and back.",
    )
    parser.add_argument("--keep", action="store_true", help="leave everything running until Ctrl-C")
    parser.add_argument("--port", type=int, default=6385, help="of the API (default: 6385)")
    return parser.parse_args(argv)


def _run_demo(wanted: argparse.Namespace) -> int:
    began = time.monotonic()
    say(f"Starting ironic-lite and a Redfish emulator with {MACHINES} machines ...")
    with (
        backstage.Service(wanted.port) as service,
        emulator.Emulator(count=MACHINES, power_delay=_POWER_SECONDS) as bmc,
    ):
        try:
            api = _ready_client(service)
            names = _enroll_machines(api, bmc)
            say(f"{service.url} answers; {bmc.address} is the BMC of {', '.join(names)}.\n")
            with display.board() as show:
                done = journey.travel(api, names, show, LIMIT)
            if wanted.keep:
                _fill_window(api, service)
        except _FAULTS:
            say(f"\nThe end of the log of ironic-lite:\n{service.tail()}")
            raise
        _print_summary(done, time.monotonic() - began)
        _print_examples(service, wanted.keep)
        if wanted.keep:
            _keep_running(service)
    return 0


def _fill_window(api: Client, service: backstage.Service) -> None:
    """Create the fleet; print what prevents it, because the service is useful without it."""
    say(f"\nFilling the window with {len(fleet.NAMES)} more nodes ...")
    try:
        fleet.populate(api, LIMIT)
        service.age_run(fleet.OVERDUE, _OVERDUE_MINUTES)
    except (ApiError, journey.JourneyError, sqlite3.Error) as why:
        say(f"The fleet is not complete: {why}")


def _keep_running(service: backstage.Service) -> None:
    """Wait until Ctrl-C.

    :raises backstage.ServiceError: the service has ended by itself.
    """
    with contextlib.suppress(KeyboardInterrupt):
        service.wait()
        service.check()
    say("\nStopped.")


def _ready_client(service: backstage.Service) -> Client:
    """Return a client once the API answers and a conductor drives Redfish."""
    api = Client(service.url)
    end = time.monotonic() + LIMIT
    impatient = Client(service.url, patience=0)
    while time.monotonic() < end:
        service.check()
        try:
            if any(each["name"] == "redfish" for each in impatient.get("/v1/drivers")["drivers"]):
                return api
        except ApiError:
            pass
        time.sleep(journey.PAUSE)
    raise backstage.ServiceError(f"{service.url} does not answer within {LIMIT:g} s")


def _enroll_machines(api: Client, bmc: emulator.Emulator) -> list[str]:
    """Create the machines as nodes in the API; return their names."""
    names = []
    for number, machine in enumerate(bmc.machines, 1):
        node = {
            "name": f"demo-{number}",
            "driver": "redfish",
            "driver_info": {
                "redfish_address": bmc.address,
                "redfish_system_id": machine.system_id,
                "redfish_username": "admin",
                "redfish_password": "password",
                "fake_step_seconds": _STEP_SECONDS,
            },
            # There are no disks to write to: power is real, all other interfaces are fake.
            **{f"{kind}_interface": "fake" for kind in ("boot", "deploy", "raid")},
        }
        created = api.ask("POST", "/v1/nodes", node)
        api.ask("POST", "/v1/ports", {"node_uuid": created["uuid"], "address": machine.mac})
        names.append(node["name"])
    return [str(name) for name in names]


def _print_summary(done: Sequence[journey.Machine], seconds: float) -> None:
    say()
    for one in done:
        say(f"{one.name} took {one.seconds:.1f} s: {', '.join(one.path)}")
    say(f"All of it took {seconds:.1f} s.\n")


def _print_examples(service: backstage.Service, kept: bool) -> None:
    nodes = f"{service.url}/v1/nodes"
    put = "curl -X PUT -H 'Content-Type: application/json'"
    if kept:
        say(f"The service runs until Ctrl-C, and logs to {service.log}. From another terminal:")
    else:
        say("Next, let `make demo ARGS=--keep` leave it running, and from another terminal:")
    say(f"  curl {nodes}/demo-1")
    say(f"""  {put} -d '{{"target": "power on"}}' {nodes}/demo-2/states/power""")
    say(f"""  {put} -d '{{"target": "active"}}' {nodes}/demo-3/states/provision""")
    say(f"Or open the window in a browser: {service.url}/ui/")


if __name__ == "__main__":
    sys.exit(main())
