// Filter of a list of runs. It is written as text in the search field, and as a query in the URL and in requests.

export const STANDINGS = ['paused', 'blocked', 'stuck', 'failing', 'retrying', 'repeating'] as const;
export const OUTCOMES = ['success', 'failed', 'canceled', 'timed-out', 'terminated', 'continued-as-new'] as const;
export const STATUSES = ['open', ...STANDINGS, 'closed', ...OUTCOMES] as const;
export const ORDERS = ['-startedAt', 'startedAt', '-closedAt', 'closedAt'] as const;

/** Fields of a filter: their names in the API, and their words in the search field. */
export const FIELDS = {
  status: 'status',
  type: 'type',
  workflowId: 'id',
  workflowIdPrefix: 'id-prefix',
  tag: 'tag',
  reason: 'reason',
  startedFrom: 'from',
  startedBefore: 'before',
  closedFrom: 'closed-from',
  closedBefore: 'closed-before',
  order: 'order',
} as const;
export type Field = keyof typeof FIELDS;
export type Filter = Partial<Record<Field, string>>;

const names = Object.keys(FIELDS) as Field[];
const byWord = new Map<string, Field>(names.map((name) => [FIELDS[name], name]));

/** Returns the filter in a URL's query. Other parameters are ignored. */
export function filterOfQuery(query: URLSearchParams): Filter {
  const filter: Filter = {};
  for (const name of names) {
    const value = query.get(name);
    if (value) filter[name] = value;
  }
  return filter;
}

/** Returns the query of a filter. The order of the fields is fixed, so that equal filters have equal URLs. */
export function queryOfFilter(filter: Filter): URLSearchParams {
  const query = new URLSearchParams();
  for (const name of names) {
    const value = filter[name];
    if (value) query.set(name, value);
  }
  return query;
}

/** Returns a filter as a user types it: `status:open tag:"customer:ann b"`. */
export function textOfFilter(filter: Filter): string {
  return names
    .filter((name) => filter[name])
    .map((name) => `${FIELDS[name]}:${quoted(filter[name] ?? '')}`)
    .join(' ');
}

const quoted = (value: string): string =>
  /[\s"\\]/.test(value) || value === '' ? `"${value.replace(/[\\"]/g, '\\$&')}"` : value;

export interface Parsed {
  filter: Filter;
  /** Error messages. Empty if the whole text was understood. */
  problems: string[];
}

/**
 * Parses the text of a filter. A word without a field is a prefix of the workflow id. Anything that is not understood
 * is reported and ignored.
 */
export function parseFilter(text: string): Parsed {
  const filter: Filter = {};
  const problems: string[] = [];
  const words = text.matchAll(/(?:([a-z][a-z-]*):)?(?:"((?:[^"\\]|\\.)*)("?)|(\S+))/gi);
  for (const [whole, field, inQuotes, quote, bare] of words) {
    if (inQuotes !== undefined && !quote) problems.push(`\`${whole}\` has no closing quote.`);
    const value = inQuotes !== undefined ? inQuotes.replace(/\\(.)/g, '$1') : (bare ?? '');
    const name = field === undefined ? 'workflowIdPrefix' : byWord.get(field.toLowerCase());
    if (name === undefined) {
      problems.push(`Unknown field \`${field}\`. Fields are ${[...byWord.keys()].join(', ')}.`);
    } else if (filter[name] !== undefined && filter[name] !== value) {
      problems.push(`\`${FIELDS[name]}\` is given twice; a filter has one value for it.`);
    } else {
      const problem = wrongValue(name, value);
      if (problem) problems.push(problem);
      else filter[name] = value;
    }
  }
  return { filter, problems };
}

function wrongValue(name: Field, value: string): string | undefined {
  if (name === 'status' && !(STATUSES as readonly string[]).includes(value)) {
    return `Unknown status \`${value}\`. Statuses are ${STATUSES.join(', ')}.`;
  }
  if (name === 'order' && !(ORDERS as readonly string[]).includes(value)) {
    return `Unknown order \`${value}\`. Orders are ${ORDERS.join(', ')}.`;
  }
  if (/^(started|closed)/.test(name) && Number.isNaN(Date.parse(value))) {
    return `Invalid time \`${value}\`. Write for example 2026-11-22T10:00:00Z.`;
  }
  return undefined;
}
