/** The words of the window, each explained in one or two sentences. */
import { Facts } from "../parts/read";
import { href, path } from "../state/route";

const place = (label: string, ...parts: string[]) => <a href={href(path(...parts))}>{label}</a>;

/** Terms and their meaning by subject. */
const WORDS: [string, [string, any][]][] = [
  [
    "Machines",
    [
      ["node", "A machine that this service owns, with its settings, its state and its history."],
      [
        "BMC",
        "The small computer in a machine that switches it on and off and reports its health. The service reaches it by Redfish or IPMI.",
      ],
      ["driver", "How the service talks to a kind of machine: redfish, ipmi and others."],
      ["port", "A network card that the machine may boot from, known by its MAC address."],
      ["resource class", "A name for machines that are alike; an instance asks for one of a class."],
      ["trait", "A word for what a machine can do, such as CUSTOM_GPU."],
      ["owner, lessee", "The project that a machine belongs to, and the project that may use it."],
      ["inventory", "What an inspection has found: processor, memory, disks, network cards."],
      ["health", "What the BMC says of the whole machine: OK, Warning or Critical."],
      ["ramdisk", "A small system that a machine boots from the network, in which an agent does the work."],
      [
        "conductor",
        <>A process of the service that works on machines: {place("conductors", "conductors")}.</>,
      ],
    ],
  ],
  [
    "States",
    [
      ["enroll", "The machine is entered, but its BMC was not checked yet. Manage checks it."],
      ["manageable", "The BMC answers. The machine can be inspected and cleaned; no deployment chooses it."],
      ["available", "The machine is clean and waits for an instance."],
      ["active", "An instance uses the machine."],
      ["… wait", "The machine, or the agent on it, has to report."],
      ["… hold", "A run has stopped between two steps, as it was asked to. Go on continues it."],
      ["… failed", "A run has failed. The page says why, and Retry goes on where it failed."],
      [
        "data",
        "clean: the disks were erased since the last instance. dirty: they were not. unknown: nothing proves either.",
      ],
    ],
  ],
  [
    "Work",
    [
      ["verb", "Something to do with a node, which leads it to another state: manage, clean, deploy."],
      ["provide", "Clean a machine, then make it available."],
      ["clean", "Erase disks and set a machine up, step by step."],
      ["undeploy", "Take the instance away, then clean."],
      ["adopt", "Take over a machine that is in use already, without cleaning it."],
      ["rescue", "Boot a ramdisk with a password, to repair the instance."],
      [
        "run",
        <>One verb that was carried out on one node, with its steps and its log: {place("runs", "runs")}.</>,
      ],
      [
        "step",
        <>One thing that a run does, such as erase_devices: {place("usual times", "stats", "steps")}.</>,
      ],
      ["usual", "The time that half of all such steps took; the 90 % time is that of nine out of ten."],
      ["overdue", "Past its deadline, or far beyond its usual time."],
      ["retry", "A run that begins where the last one failed; steps that are done stay done."],
      ["waive", "Leave a step out of a retry, with a reason."],
      ["abort", "End a run at once; Stop ends it between two steps."],
      [
        "batch",
        <>
          One verb for many nodes, in waves, that pauses after too many failures:{" "}
          {place("batches", "batches")}.
        </>,
      ],
      ["wave, canary", "The nodes of a batch that go together; the canary is the one that goes first."],
      ["runbook", <>A list of steps with a name, for clean and service: {place("runbooks", "runbooks")}.</>],
    ],
  ],
  [
    "Care",
    [
      [
        "hold",
        "Keeps something from being done to a node, with a reason. legal: its data stay. freeze: nothing changes. observe: it is only looked at. hardware: it gets no new user.",
      ],
      [
        "maintenance",
        "A person, or the service after a fault, works on the machine; the service leaves it alone.",
      ],
      ["retired", "The machine gets no further instance."],
      ["protected", "The instance cannot be deleted or rebuilt."],
      ["fault", "What the service has found wrong: power failure, clean failure, rescue abort failure."],
      ["lock", "A conductor works on the node; changes wait for it."],
      [
        "erasure record",
        <>
          Evidence of what was erased, when and how, signed by the service: {place("erasures", "erasures")}.
        </>,
      ],
      [
        "doctor",
        <>Checks of the service and of a node, each with what to do: {place("doctor", "doctor")}.</>,
      ],
      ["event", <>A change that has happened, as clients follow it: {place("events", "events")}.</>],
      ["webhook", <>An address that the service sends events to: {place("webhooks", "webhooks")}.</>],
    ],
  ],
];

export const Words = () => (
  <>
    <h1>Words</h1>
    {WORDS.map(([subject, words]) => (
      <>
        <h2>{subject}</h2>
        <Facts of={words} />
      </>
    ))}
  </>
);
