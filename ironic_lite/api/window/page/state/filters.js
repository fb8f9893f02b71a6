/** Filters of the list of nodes that the browser applies to the rows that it has. */

/** @typedef {Record<string, any>} Node */

const truth = /** @param {string} text */ (text) => /^(true|1|yes|on|t|y)$/i.test(text);
const text = /** @param {string} name */ (name) =>
  /** @param {Node} node @param {string} value */ (node, value) => String(node[name] ?? "") === value;
const flag = /** @param {string} name */ (name) =>
  /** @param {Node} node @param {string} value */ (node, value) => !!node[name] === truth(value);

/** Equality filters by the argument of the API. @type {Record<string, (n: Node, v: string) => boolean>} */
export const EQUALITY = {
  provision_state: (node, value) => value.split(",").includes(node.provision_state),
  resource_class: text("resource_class"),
  driver: text("driver"),
  conductor_group: (node, value) =>
    String(node.conductor_group ?? "").toLowerCase() === value.toLowerCase(),
  conductor: text("conductor"),
  owner: text("owner"),
  lessee: text("lessee"),
  fault: text("fault"),
  instance_uuid: text("instance_uuid"),
  shard: (node, value) => value.split(",").includes(node.shard),
  data_state: text("data_state"),
  maintenance: flag("maintenance"),
  retired: flag("retired"),
  associated: (node, value) => !!node.instance_uuid === truth(value),
  uuid: (node, value) => value.split(",").includes(node.uuid),
};

const SEARCHED = ["name", "uuid", "provision_state", "resource_class", "conductor", "instance_name"];

/**
 * @param {URLSearchParams} query filters of the API
 * @param {string} words searched in names, states and the like; all of them must be found
 * @returns {(node: Node) => boolean}
 */
export function predicate(query, words) {
  const tests = [...query].flatMap(([name, value]) => {
    const test = EQUALITY[name];
    return test ? [/** @param {Node} node */ (node) => test(node, value)] : [];
  });
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return (node) => tests.every((test) => test(node)) && wanted.every((word) => has(node, word));
}

/** @param {Node} node @param {string} word */
function has(node, word) {
  return SEARCHED.some((name) => String(node[name] ?? "").toLowerCase().includes(word));
}

/** @param {URLSearchParams} query @returns {string[]} names that only the API can filter by */
export function remote(query) {
  return [...query.keys()].filter((name) => !(name in EQUALITY));
}
