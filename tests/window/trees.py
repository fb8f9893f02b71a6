"""What assistive technology is told of each page: roles and names, without times."""

from __future__ import annotations

from playwright import sync_api

HEAD = """
- banner:
  - link "ironic-lite"
  - navigation "Pages":
    - link "Fleet"
    - link "Runs"
    - link "Batches"
    - link "Activity"
    - link "Erasures"
    - link "Steps"
    - link "Doctor"
    - group: More
  - button "Find…"
  - group: ">_ curl"
  - button "Help and shortcuts"
  - button /Theme/
  - link "Settings"
"""
NODE = """
- main:
  - heading "look-2" [level=1]
  - text: clean failed
  - group "Acts on this node":
    - button "Retry…"
    - group: Power
    - group: ···
  - term: Driver
  - definition: fake-hardware
  - term: Data
  - definition: unknown
  - paragraph:
    - text: /Cleaning failed at deploy.erase_devices/
    - strong: Read the log of the run, and fix the cause. Then use retry.
  - navigation "Parts of the node":
    - link "Overview"
    - link "Activity"
    - link "Hardware"
    - link "Settings"
    - link "Console"
  - region "Overview":
    - list "Steps":
      - listitem: /done deploy.erase_devices_metadata/
      - listitem:
        - text: /failed deploy.erase_devices/
    - link "Log"
    - list "States":
      - listitem: enroll
      - listitem: manageable
      - listitem: clean failed
      - listitem: available
    - group: JSON
"""
PAGES = {
    "failed node": NODE,
    "fleet": """
- main:
  - heading "Fleet" [level=1]
  - region "Needs attention":
    - heading "Needs attention" [level=2]
    - heading "Now" [level=3]
    - list "Now":
      - listitem:
        - link "look-2"
        - link /Open \\d+/
        - button /Retry \\d+…/
    - heading "Fleet" [level=3]
    - img /Nodes by state/
    - img /Failed runs/
  - searchbox "Filter by name, state, serial number, address and other values"
  - combobox "Data"
  - button "Map"
  - button "Enroll…"
  - group "States":
    - button /all \\d+/ [pressed]
    - button /clean failed \\d+/
    - button /available \\d+/
  - grid "Nodes":
    - row /Select all .* Name State Since Under way Power Class Conductor Data Batch/
    - rowgroup:
      - row /look-2 clean failed/:
        - gridcell:
          - checkbox "Select look-2"
        - gridcell "look-2":
          - link "look-2"
        - gridcell "clean failed"
  - note: /\\d+ of \\d+ · sorted by need/
""",
    "map": """
- main:
  - heading "Fleet" [level=1]
  - button "Map" [pressed]
  - region "Map of the fleet":
    - combobox "Group by"
    - combobox "Show"
    - group "Select by what the squares show":
      - button /available 1/
      - button /clean failed 1/
    - listbox "Nodes on the map":
      - option /look-1, .*, available/
    - list "Nodes on the map, counted":
      - listitem: /available/
      - listitem: /no class/
""",
    "states of a node": """
- region "Console":
  - region "Serial console":
    - term: Console
    - definition:
      - button "on…"
      - button "off…"
  - region "BMC":
    - term: Next boot
    - definition:
      - button "pxe…"
      - button "disk…"
    - term: Boot mode
    - definition:
      - button "bios…"
      - button "uefi…"
    - term: Secure boot
    - term: Interrupt
    - definition:
      - button "send NMI…"
    - term: Virtual media
    - definition:
      - combobox "Drive"
      - textbox "Address of an image"
      - button /Insert…/
      - button "Eject…"
    - term: Lamps
    - definition:
      - group "Lamp led@system"
    - group: /JSON/
""",
    "ports of a node": """
- region "Settings":
  - heading "Ports" [level=2]
  - region "Ports":
    - table:
      - rowgroup:
        - row "Address Name PXE Physical network Switch"
      - rowgroup:
        - row /52:54:00:00:00:01 yes/
""",
    "inventory of a node": """
- region "Hardware":
  - term: Processor
  - definition: 8 threads, x86_64
  - term: Memory
  - definition: 16 GiB
  - heading "1 disk" [level=2]
  - region "Disks":
    - table:
      - rowgroup:
        - row "Disk Size Kind Model Serial number"
      - rowgroup:
        - row /107 GB S3EV-1/
  - heading "2 network cards" [level=2]
  - region "Network cards":
    - table:
      - rowgroup:
        - row "Card MAC Link Switch and port Address PXE"
      - rowgroup:
        - row "eth0 52:54:00:00:00:01 yes"
        - row "52:54:00:00:00:02 yes"
  - group: JSON of /v1/nodes/look-1/inventory
""",
    "fields of a node": """
- region "Settings":
  - term: Driver
  - definition: fake-hardware
  - form "Settings of look-1":
    - textbox "Resource class"
    - textbox "Owner"
    - group: Life
    - 'button "Copy as curl: PATCH /v1/nodes/look-1"'
    - button "Review 0 changes" [disabled]
  - heading "Traits" [level=2]
  - heading "Ports" [level=2]
  - group: Change fields
  - group: JSON
""",
    "history of a node": """
- region "Activity":
  - navigation "Lists of the activity":
    - link "All"
    - link "Log"
    - link "Holds"
    - link "Erasures"
  - combobox "Time"
  - combobox "Kind"
  - combobox "By"
  - combobox "Process"
  - button "Pause"
  - heading /\\d+/ [level=2]
  - list:
    - listitem:
      - time: /\\d+/
      - group:
        - strong: Provide
      - link /run of look-1/
      - link /log of look-1/
""",
    "holds of a node": """
- region "Activity":
  - region "Holds":
    - table:
      - rowgroup:
        - row "Kind Reason Blocks Since Until By Lifted"
      - rowgroup:
        - row /hardware/:
          - cell "hardware"
          - cell "deploy, rebuild and allocations"
          - cell "Lift…":
            - button "Lift…"
""",
    "erasures of a node": """
- region "Activity":
  - region "Erasures":
    - table:
      - rowgroup:
        - row "At Node Result Signature of the record Level Disks Record"
      - rowgroup:
        - row /look-1 complete signed; not checked here clear S3EV-1/:
          - cell:
            - link "show the record of look-1"
""",
    "log of a run": """
- region "Activity":
  - searchbox "Search the log"
  - button "run"
  - log "Log of the run":
    - text: /Automated cleaning failed at the step deploy.erase_devices/
""",
    "runs": """
- main:
  - heading "Runs" [level=1]
  - combobox "Result"
  - combobox "Latest of each node"
  - combobox "Overdue"
  - textbox "Verb"
  - textbox "Node"
  - textbox "Error code"
  - region "Runs":
    - table:
      - rowgroup:
        - row "Node Verb Result Begun Took By Process Error Copy"
      - rowgroup:
        - row /look-2 Provide failed/:
          - cell "look-2":
            - link "look-2"
""",
    "run": """
- main:
  - heading "Run" [level=1]
  - paragraph:
    - text: failed
    - strong: Provide
  - list "Steps":
    - listitem: /done deploy.erase_devices_metadata/
    - listitem:
      - text: /failed deploy.erase_devices/
""",
    "batches": """
- main:
  - heading "Batches" [level=1]
  - region "Batches":
    - table:
      - rowgroup:
        - row "Batch Request State Wave Nodes By Made Ended Copy"
      - rowgroup:
        - row /Power on done 2 of 2 2 done/
""",
    "batch": """
- main:
  - heading [level=1]
  - listbox "Nodes by wave":
    - option /look-1, wave 1, done/
  - list "Nodes by wave, counted":
    - listitem: "wave 1: 1 done"
    - listitem: "wave 2: 1 done"
  - paragraph: /slowest/
  - group "Results":
    - link "all"
    - link "done 2"
  - region "Nodes of the batch":
    - table:
      - rowgroup:
        - row "Node Wave Result Error Begun Ended Run"
      - rowgroup:
        - row /look-1 1 done/
""",
    "events": """
- main:
  - heading "Activity" [level=1]
  - combobox "Time"
  - combobox "Kind"
  - combobox "By"
  - combobox "Process"
  - textbox "Node"
  - button "Pause"
  - heading /\\d+/ [level=2]
  - list:
    - listitem:
      - time: /\\d+/
""",
    "evidence": """
- main:
  - heading "Erasures" [level=1]
  - searchbox "Part of a name or serial number"
  - link "retired and dirty nodes"
  - region "Erasures":
    - table:
      - rowgroup:
        - row "At Node Result Signature of the record Level Disks Record"
""",
    "erasure record": """
- main:
  - heading "Erasure record" [level=1]
  - status: /signature checked in this browser/
  - paragraph: /1 disk of look-1 erased/
  - paragraph: /evidence of what the ramdisk did. It is not a certificate/
  - term: Machine
  - definition:
    - link "look-1"
  - term: Run
  - definition:
    - link "Provide"
  - region "Disks"
  - heading "Check it" [level=2]
  - button /Download erasure-.*zip/
  - button "Print"
  - group: All fields
""",
    "steps": """
- main:
  - heading "Steps" [level=1]
  - region "Steps":
    - table:
      - rowgroup:
        - row "Step Kind Driver Class Count Failed Usual 90 % Longest Error codes"
""",
    "doctor": """
- main:
  - heading "Doctor" [level=1]
  - textbox "Also examine the node"
  - paragraph: /ok|warning|failed/
  - list:
    - listitem:
      - text: /ok|warning|failed/
      - strong
  - heading "Conductors" [level=2]
  - region "Conductors":
    - table:
      - rowgroup:
        - row "Host Group Alive Last heartbeat"
""",
    "conductors": """
- main:
  - heading "Conductors" [level=1]
  - region "Conductors":
    - table:
      - rowgroup:
        - row "Host Group Alive Last heartbeat Drivers Copy"
      - rowgroup:
        - row /none yes .* fake-hardware/
""",
    "conductor": """
- main:
  - heading [level=1]
  - term: Alive
  - definition: "yes"
  - term: Drivers
  - definition: /fake-hardware/
  - term: Nodes
  - definition:
    - link "nodes of this conductor"
""",
    "webhooks": """
- main:
  - heading "Webhooks" [level=1]
  - button "Add webhook…"
  - region "Webhooks":
    - table:
      - rowgroup:
        - row "URL State Kinds Nodes Last status By Made Copy"
      - rowgroup:
        - row /paused all all/
""",
    "webhook": """
- main:
  - heading /hooks.example.org/ [level=1]
  - group "Acts on this webhook":
    - button "Resume…"
    - button "Delete…"
  - term: State
  - definition: paused
  - heading "Failed deliveries" [level=2]
""",
    "words": """
- main:
  - heading "Words" [level=1]
  - heading "Machines" [level=2]
  - term: node
  - term: conductor
  - definition:
    - link "conductors"
  - heading "States" [level=2]
  - heading "Work" [level=2]
  - heading "Care" [level=2]
  - term: hold
""",
    "settings": """
- main:
  - heading "Settings" [level=1]
  - checkbox "Show times in UTC"
  - checkbox "Shortcuts of one character" [checked]
  - checkbox /Plain tables of 500 rows/
  - heading "Saved views" [level=2]
  - heading "Who am I" [level=2]
  - term: auth
  - definition:
    - code: noauth
""",
}


def wrong(shown: sync_api.Locator, tree: str) -> str:
    """Return how the tree of an element differs from the wanted one."""
    try:
        sync_api.expect(shown).to_match_aria_snapshot(tree, timeout=20_000)
    except AssertionError as error:
        return str(error)
    return ""
