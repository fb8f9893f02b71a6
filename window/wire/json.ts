/** A document of the API whose shape no type describes yet: see `documents.ts` for the others. */
export type Json = Record<string, any>;

/** @param value "" removes the key */
export function withValue(all: Json, name: string, value: string) {
  const { [name]: _, ...rest } = all;
  return value ? { ...rest, [name]: value } : rest;
}
