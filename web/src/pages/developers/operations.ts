/** The operations of an OpenAPI document, as the list of the page shows them. Pure: what is not as expected is left out. */

export interface Parameter {
  name: string;
  where: string;
  kind: string;
  isRequired: boolean;
  meaning: string;
}

export interface Operation {
  id: string;
  method: string;
  path: string;
  summary: string;
  description: string;
  parameters: Parameter[];
  body: { types: string[]; fields: Parameter[] } | null;
  answers: { status: string; meaning: string }[];
  /** Whether a key is needed. */
  key: "needed" | "optional" | "none";
}

export interface Group {
  tag: string;
  description: string;
  operations: Operation[];
}

type Node = Record<string, unknown>;
const METHODS = ["get", "post", "put", "patch", "delete"];

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && !Array.isArray(value);
const node = (value: unknown): Node => (isNode(value) ? value : {});
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const text = (value: unknown): string => (typeof value === "string" ? value : "");

/** What a reference stands for. */
function resolved(document: Node, value: unknown, depth = 0): Node {
  const found = node(value);
  const reference = text(found["$ref"]);
  if (!reference.startsWith("#/") || depth > 8) return found;
  let at: unknown = document;
  for (const piece of reference.slice(2).split("/")) at = node(at)[piece];
  return resolved(document, at, depth + 1);
}

/** A schema in a word or two: `string`, `integer or null`, `brief | detailed`. */
export function kindOf(document: unknown, schema: unknown, depth = 0): string {
  const given = node(schema);
  const found = resolved(node(document), given);
  const choices = list(found["enum"]).filter((value) => value !== null);
  if (choices.length > 0) return choices.map(String).join(" | ");
  const variants = [...list(found["oneOf"]), ...list(found["anyOf"])];
  if (variants.length > 0 && depth < 3) {
    // An enumeration with a description for each value is a list of constants.
    const words = variants.map((variant) => kindOf(document, variant, depth + 1));
    return [...new Set(words)].join(" | ");
  }
  if (found["const"] !== undefined) return String(found["const"]);
  if (Array.isArray(found["type"])) return (found["type"] as unknown[]).map(String).join(" or ");
  const type = text(found["type"]);
  if (type === "array") return `${kindOf(document, found["items"], depth + 1)}[]`;
  if (type === "string" && text(found["format"]) === "binary") return "file";
  if (type) return type;
  return text(given["$ref"]).split("/").at(-1) || "any";
}

/** All operations by their tags, in the order of the document. */
export function operations(document: unknown): Group[] {
  const root = node(document);
  const groups = new Map<string, Group>();
  for (const tag of list(root["tags"])) {
    const name = text(node(tag)["name"]);
    if (name) groups.set(name, { tag: name, description: text(node(tag)["description"]), operations: [] });
  }
  for (const [path, item] of Object.entries(node(root["paths"]))) {
    for (const method of METHODS) {
      const found = node(item)[method];
      if (!isNode(found)) continue;
      const tag = text(list(found["tags"])[0]);
      let group = groups.get(tag);
      if (!group) groups.set(tag, (group = { tag, description: "", operations: [] }));
      group.operations.push(operation(root, path, method, node(item), found));
    }
  }
  return [...groups.values()].filter((group) => group.operations.length > 0);
}

function operation(root: Node, path: string, method: string, item: Node, found: Node): Operation {
  const parameters = [...list(item["parameters"]), ...list(found["parameters"])].map((parameter): Parameter => {
    const given = resolved(root, parameter);
    return {
      name: text(given["name"]),
      where: text(given["in"]),
      kind: kindOf(root, given["schema"]),
      isRequired: given["required"] === true,
      meaning: text(given["description"]),
    };
  });
  const security = found["security"] === undefined ? root["security"] : found["security"];
  const ways = list(security).map(node);
  return {
    id: text(found["operationId"]) || `${method} ${path}`,
    method: method.toUpperCase(),
    path,
    summary: text(found["summary"]),
    description: text(found["description"]),
    parameters,
    body: body(root, found["requestBody"]),
    answers: Object.entries(node(found["responses"])).map(([status, answer]) => ({ status, meaning: text(resolved(root, answer)["description"]) })),
    key: ways.length === 0 ? "none" : ways.some((way) => Object.keys(way).length === 0) ? "optional" : "needed",
  };
}

function body(root: Node, given: unknown): Operation["body"] {
  if (!isNode(given)) return null;
  const content = node(resolved(root, given)["content"]);
  const types = Object.keys(content);
  if (types.length === 0) return null;
  const schema = resolved(root, node(content[types[0] ?? ""])["schema"]);
  // Of a body that may be written in several ways, the first is shown; the reference has all.
  const variants = [...list(schema["oneOf"]), ...list(schema["anyOf"])].map((variant) => resolved(root, variant)).filter((variant) => isNode(variant["properties"]));
  const shown = isNode(schema["properties"]) ? schema : (variants[0] ?? {});
  const required = new Set(list(shown["required"]).map(String));
  const fields = Object.entries(node(shown["properties"])).map(
    ([name, property]): Parameter => ({
      name,
      where: "",
      kind: kindOf(root, property),
      isRequired: required.has(name),
      meaning: text(node(property)["description"]) || text(resolved(root, property)["description"]),
    }),
  );
  return { types, fields };
}

/** The operations in which all words of a query occur. */
export function filtered(groups: readonly Group[], query: string): Group[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [...groups];
  return groups
    .map((group) => ({
      ...group,
      operations: group.operations.filter((one) => {
        const all = `${one.method} ${one.path} ${one.summary} ${one.id} ${group.tag}`.toLowerCase();
        return words.every((word) => all.includes(word));
      }),
    }))
    .filter((group) => group.operations.length > 0);
}
