// Lists of runs that a reader has kept, each a name and the query of a URL. What is kept is read with care: it may be anything. Pure.

export interface Kept {
  name: string;
  domain: string;
  /** As it stands in the URL. */
  query: string;
}

/** Reads what was kept; what is no view is left out. */
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

/** Keeps a view. One of the same name and domain is another one from then on. */
export function keepView(views: readonly Kept[], view: Kept): Kept[] {
  return [...dropView(views, view), view].sort((a, b) => a.name.localeCompare(b.name));
}

export function dropView(views: readonly Kept[], { name, domain }: Kept): Kept[] {
  return views.filter((one) => one.name !== name || one.domain !== domain);
}
