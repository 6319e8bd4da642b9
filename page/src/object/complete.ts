/** What may stand at a place of a spec, by the daemon's own description of its interface. */
import { askJson } from "../api/http";

export interface Schema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
}

export type Schemas = Record<string, Schema>;

export interface Suggestion {
  key: string;
  about: string;
}

let asked: Promise<Schemas> | null = null;

/** The types of the interface, read once. */
export function schemas(): Promise<Schemas> {
  asked ??= askJson<{ components: { schemas: Schemas } }>("/v1/openapi.json").then(
    (document) => document.components.schemas,
    (error: unknown) => {
      asked = null;
      throw error;
    },
  );
  return asked;
}

/** The schema of a kind's spec. */
export function specSchema(all: Schemas, kind: string): Schema | undefined {
  return all[`Desired${kind.slice(0, 1).toUpperCase()}${kind.slice(1)}`]?.properties?.spec;
}

/** All alternatives of a schema. References may lead in circles. */
function alternatives(all: Schemas, schema: Schema | undefined, depth = 0): Schema[] {
  if (!schema || depth > 8) return [];
  if (schema.$ref) return alternatives(all, all[schema.$ref.slice(schema.$ref.lastIndexOf("/") + 1)], depth + 1);
  const more = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])].flatMap((other) => alternatives(all, other, depth + 1));
  return [schema, ...more];
}

/** The keys that may stand below a path and are not there yet, those that begin with a word first. */
export function suggest(all: Schemas, root: Schema | undefined, path: string[], word: string, present: string[]): Suggestion[] {
  let here = alternatives(all, root);
  for (const key of path) {
    here = here.flatMap((schema) => {
      const next = schema.properties?.[key] ?? (typeof schema.additionalProperties === "object" ? schema.additionalProperties : undefined) ?? (/^\d+$/.test(key) ? schema.items : undefined);
      return alternatives(all, next);
    });
  }
  const found = new Map<string, string>();
  for (const schema of here) {
    for (const [key, of] of Object.entries(schema.properties ?? {})) {
      if (!present.includes(key) && !found.has(key)) found.set(key, alternatives(all, of).find((one) => one.description)?.description ?? "");
    }
  }
  const wanted = word.toLowerCase();
  return [...found]
    .filter(([key]) => key.toLowerCase().includes(wanted))
    .sort(([a], [b]) => Number(b.toLowerCase().startsWith(wanted)) - Number(a.toLowerCase().startsWith(wanted)) || (a < b ? -1 : 1))
    .map(([key, about]) => ({ key, about }));
}
