// The views and their URLs. Each view has a URL that can be shared.

export const VIEWS = ['turns', 'timeline', 'future', 'events'] as const;
export type View = (typeof VIEWS)[number];

export type Route =
  | { page: 'start' }
  | { page: 'runs'; domain: string }
  | { page: 'run'; domain: string; workflowId: string; runId?: string; view: View }
  | { page: 'lists'; domain: string }
  | { page: 'list'; domain: string; list: string }
  | { page: 'batches'; domain: string; batchId?: string }
  | { page: 'schedules'; domain: string; scheduleId?: string }
  | { page: 'types'; domain: string; kind: 'workflow' | 'activity' }
  | { page: 'domains' }
  | { page: 'service' }
  | { page: 'recorded'; view: View }
  | { page: 'asked'; domain: string; workflowId: string; runId: string; query: string }
  | { page: 'unknown'; path: string };

export const ROOT = '/console';

/** Returns the view of a path. Each id is one segment, percent-encoded. */
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
  const [domain, page, id, third, fourth, fifth] = segments;
  if (domain === undefined) return { page: 'start' };
  // A domain may have one of these names. The pages of a domain have a second segment, and these pages do not.
  if (domain === 'domains' && page === undefined) return { page: 'domains' };
  if (domain === 'service' && page === undefined) return { page: 'service' };
  const recorded = VIEWS.find((name) => name === page);
  if (domain === 'recorded' && recorded && segments.length === 2) return { page: 'recorded', view: recorded };
  if (page === undefined) return { page: 'runs', domain };
  if (page === 'workflows' && id === undefined) return { page: 'runs', domain };
  if (page === 'workflows' && id !== undefined) {
    if (fourth === 'query' && third && fifth !== undefined && segments.length === 6)
      return { page: 'asked', domain, workflowId: id, runId: third, query: fifth };
    const view = VIEWS.find((name) => name === (fourth ?? 'turns'));
    if (view === undefined || segments.length > 5) return { page: 'unknown', path };
    return { page: 'run', domain, workflowId: id, ...(third ? { runId: third } : {}), view };
  }
  // `lists` is an earlier address of the page.
  if ((page === 'task-lists' || page === 'lists') && segments.length === 2) return { page: 'lists', domain };
  if (page === 'task-lists' && id !== undefined && segments.length === 3) return { page: 'list', domain, list: id };
  if (page === 'batches' && segments.length <= 3)
    return { page: 'batches', domain, ...(id === undefined ? {} : { batchId: id }) };
  if (page === 'types' && (id === undefined || id === 'activity'))
    return { page: 'types', domain, kind: id ?? 'workflow' };
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
      return join(route.domain, 'task-lists');
    case 'list':
      return join(route.domain, 'task-lists', route.list);
    case 'batches':
      return join(route.domain, 'batches', ...(route.batchId === undefined ? [] : [route.batchId]));
    case 'schedules':
      return join(route.domain, 'schedules', ...(route.scheduleId === undefined ? [] : [route.scheduleId]));
    case 'types':
      return join(route.domain, 'types', ...(route.kind === 'activity' ? ['activity'] : []));
    case 'domains':
      return join('domains');
    case 'service':
      return join('service');
    case 'recorded':
      return join('recorded', route.view);
    case 'asked':
      return join(route.domain, 'workflows', route.workflowId, route.runId, 'query', route.query);
    case 'unknown':
      return route.path;
  }
}
