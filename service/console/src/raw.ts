// JSON as it was recorded, byte for byte. JSON.parse loses digits of numbers, their form (`1.0`, `-0`, `1e400`),
// duplicate members and the order of members. Therefore the console shows and copies the original text.

/**
 * Number of nested levels whose objects keep their text. Our choice: the failure of an open activity is the deepest
 * object whose text is used.
 */
const KEPT_LEVELS = 3;
/** Maximum number of levels that are indented. Our choice: a deep document would otherwise consist mostly of spaces. */
const INDENTED_LEVELS_MAX = 100;

const texts = new WeakMap<object, string>();

/** Parses JSON. Its outer objects and lists keep their text for `rawOf` and `textOf`. */
export function parse<T>(text: string): T {
  const value = JSON.parse(text) as T;
  keep(value, text.trim(), KEPT_LEVELS);
  return value;
}

function keep(value: unknown, text: string, levels: number): void {
  if (value === null || typeof value !== 'object') return;
  texts.set(value, text);
  const inner = levels === 0 ? [] : Object.entries(value).filter(([, member]) => typeof member === 'object');
  if (inner.length === 0) return;
  const members = rawMembers(text);
  for (const [name, member] of inner) {
    const raw = members.get(name);
    if (raw !== undefined) keep(member, raw, levels - 1);
  }
}

/**
 * Returns the original text of a value that `parse` has returned. For other values, returns the JSON that the browser
 * writes.
 */
export function textOf(value: unknown): string {
  const text = value !== null && typeof value === 'object' ? texts.get(value) : undefined;
  return text ?? JSON.stringify(value) ?? 'null';
}

/** Returns the original text of a member of an object that `parse` has returned. */
export function rawOf(parent: object, name: string): string {
  const text = texts.get(parent);
  const raw = text === undefined ? undefined : rawMembers(text).get(name);
  return raw ?? textOf((parent as Record<string, unknown>)[name]);
}

/** Formats JSON with line breaks and an indentation of two spaces. Numbers, texts and members are not changed. */
export function pretty(json: string): string {
  const parts: string[] = [];
  const line = (depth: number): string => `\n${'  '.repeat(Math.min(depth, INDENTED_LEVELS_MAX))}`;
  let depth = 0;
  for (let at = blank(json, 0); at < json.length; at = blank(json, at)) {
    const c = json[at] ?? '';
    if (c === '{' || c === '[') {
      const inner = blank(json, at + 1);
      if (json[inner] === '}' || json[inner] === ']') {
        parts.push(c, json[inner] ?? '');
        at = inner + 1;
      } else {
        parts.push(c, line(++depth));
        at++;
      }
    } else if (c === '}' || c === ']') {
      parts.push(line(--depth), c);
      at++;
    } else if (c === ',') {
      parts.push(c, line(depth));
      at++;
    } else if (c === ':') {
      parts.push(': ');
      at++;
    } else {
      const end = tokenEnd(json, at);
      parts.push(json.slice(at, end));
      at = end;
    }
  }
  return parts.join('');
}

/** Returns the end of the text, number or word that begins at `at`. */
function tokenEnd(json: string, at: number): number {
  if (json[at] === '"') return endOf(json, at);
  let end = at + 1;
  while (end < json.length && !/[\s,:{}[\]]/.test(json[end] ?? '')) end++;
  return end;
}

/**
 * Returns the members of an object by name, or the elements of a list by index, as JSON text. Of duplicate members, the
 * last one is returned.
 */
export function rawMembers(json: string): Map<string, string> {
  return new Map(rawList(json));
}

/** Returns the members of an object or the elements of a list in order, including duplicate members. */
export function rawList(json: string): [string, string][] {
  const members: [string, string][] = [];
  let at = blank(json, 0);
  const isList = json[at] === '[';
  at = blank(json, at + 1);
  for (let index = 0; at < json.length && json[at] !== '}' && json[at] !== ']'; index++) {
    let name = String(index);
    if (!isList) {
      const end = endOf(json, at);
      name = JSON.parse(json.slice(at, end)) as string;
      // Skips the colon.
      at = blank(json, blank(json, end) + 1);
    }
    const end = endOf(json, at);
    members.push([name, json.slice(at, end)]);
    at = blank(json, end);
    if (json[at] === ',') at = blank(json, at + 1);
  }
  return members;
}

function blank(json: string, at: number): number {
  while (/\s/.test(json[at] ?? '')) at++;
  return at;
}

/** Returns the end of the value that begins at `at`. */
function endOf(json: string, at: number): number {
  let depth = 0;
  for (; at < json.length; at++) {
    const c = json[at] ?? '';
    if (c === '"') {
      for (at++; at < json.length && json[at] !== '"'; at++) if (json[at] === '\\') at++;
      if (depth === 0) return at + 1;
    } else if (c === '{' || c === '[') {
      depth++;
    } else if (c === '}' || c === ']') {
      // This bracket belongs to the object or list around the value, so the value ends before it.
      if (depth === 0) return at;
      depth--;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && /[\s,]/.test(c)) {
      return at;
    }
  }
  return at;
}
