/** Who: a person who asked, and the process that acted. */

export interface Actors {
  person: string | null;
  process: string | null;
}

const PART = /^conductor:/;
/** Requesters that are programs. */
const PROGRAMS = ["restore of the database"];

/** @param of an event or a run: a requester may be a person, or a part of a conductor */
export function actors({ requester, conductor }: Record<string, any>): Actors {
  const host = conductor ?? null;
  if (!requester) return { person: null, process: host };
  if (PROGRAMS.includes(requester)) return { person: null, process: requester };
  if (!PART.test(requester)) return { person: requester, process: host };
  const part = requester.replace(PART, "");
  return { person: null, process: host ? `${part} (${host})` : part };
}
