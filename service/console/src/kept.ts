// Saved lists of runs. Each has a name and the query of a URL. Storage may contain any data, so it is validated. Pure
// functions.

export interface Kept {
  name: string;
  domain: string;
  /** Query as in the URL. */
  query: string;
}

/** Returns the stored views. Invalid entries are ignored. */
export function readViews(text: string | null): Kept[] {
  let found: unknown;
  try {
    found = JSON.parse(text ?? '[]');
  } catch {
    return [];
  }
  if (!Array.isArray(found)) return [];
  return found.filter((one: unknown): one is Kept => {
    const { name, domain, query } = (one ?? {}) as Partial<Kept>;
    return typeof name === 'string' && typeof domain === 'string' && typeof query === 'string';
  });
}

/** Adds a view. An existing view with the same name and domain is replaced. */
export function keepView(views: readonly Kept[], view: Kept): Kept[] {
  return [...dropView(views, view), view].sort((a, b) => a.name.localeCompare(b.name));
}

export function dropView(views: readonly Kept[], { name, domain }: Kept): Kept[] {
  return views.filter((one) => one.name !== name || one.domain !== domain);
}
