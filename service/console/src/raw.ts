// Payloads as they stand in an answer, byte for byte: what a browser reads of them loses digits and the order of members. Pure.

/** Returns the members of an object in JSON text, or the elements of a list under their numbers, each as it stands there. */
export function rawMembers(json: string): Map<string, string> {
  const members = new Map<string, string>();
  let at = blank(json, 0);
  const isList = json[at] === '[';
  at = blank(json, at + 1);
  for (let index = 0; at < json.length && json[at] !== '}' && json[at] !== ']'; index++) {
    let name = String(index);
    if (!isList) {
      const end = endOf(json, at);
      name = JSON.parse(json.slice(at, end)) as string;
      // Behind the colon.
      at = blank(json, blank(json, end) + 1);
    }
    const end = endOf(json, at);
    members.set(name, json.slice(at, end));
    at = blank(json, end);
    if (json[at] === ',') at = blank(json, at + 1);
  }
  return members;
}

function blank(json: string, at: number): number {
  while (/\s/.test(json[at] ?? '')) at++;
  return at;
}

/** Returns where the value ends that begins there. */
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
      // A number or a word ends where what is around it does.
      if (depth === 0) return at;
      depth--;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && /[\s,]/.test(c)) {
      return at;
    }
  }
  return at;
}
