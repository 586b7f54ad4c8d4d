// Which view a URL names, and the URL of a view. Every view is a URL that can be shared.

export const VIEWS = ['turns', 'timeline', 'future', 'events'] as const;
export type View = (typeof VIEWS)[number];

export type Route =
  | { page: 'start' }
  | { page: 'runs'; domain: string }
  | { page: 'run'; domain: string; workflowId: string; runId?: string; view: View }
  | { page: 'lists'; domain: string }
  | { page: 'schedules'; domain: string; scheduleId?: string }
  | { page: 'unknown'; path: string };

export const ROOT = '/console';

/** Returns the view of a path. Ids are percent-encoded, one segment each. */
export function routeOf(path: string): Route {
  const segments: string[] = [];
  for (const segment of path.replace(/^\/console\/?/, '').split('/')) {
    if (segment === '') continue;
    try {
      segments.push(decodeURIComponent(segment));
    } catch {
      return { page: 'unknown', path };
    }
  }
  const [domain, page, id, third, fourth] = segments;
  if (domain === undefined) return { page: 'start' };
  if (page === undefined) return { page: 'runs', domain };
  if (page === 'workflows' && id === undefined) return { page: 'runs', domain };
  if (page === 'workflows' && id !== undefined) {
    const view = VIEWS.find((name) => name === (fourth ?? 'turns'));
    if (view === undefined || segments.length > 5) return { page: 'unknown', path };
    return { page: 'run', domain, workflowId: id, ...(third ? { runId: third } : {}), view };
  }
  if (page === 'lists') return { page: 'lists', domain };
  if (page === 'schedules') return { page: 'schedules', domain, ...(id === undefined ? {} : { scheduleId: id }) };
  return { page: 'unknown', path };
}

/** Returns the path of a view. */
export function pathOf(route: Route): string {
  const join = (...segments: string[]): string => [ROOT, ...segments.map(encodeURIComponent)].join('/');
  switch (route.page) {
    case 'start':
      return `${ROOT}/`;
    case 'runs':
      return join(route.domain, 'workflows');
    case 'run':
      return route.runId === undefined
        ? join(route.domain, 'workflows', route.workflowId)
        : join(route.domain, 'workflows', route.workflowId, route.runId, route.view);
    case 'lists':
      return join(route.domain, 'lists');
    case 'schedules':
      return join(route.domain, 'schedules', ...(route.scheduleId === undefined ? [] : [route.scheduleId]));
    case 'unknown':
      return route.path;
  }
}
