// Paths of the REST API. Pure functions.

export const domainPath = (domain: string): string => `/v1/domains/${encodeURIComponent(domain)}`;
export const workflowPath = (domain: string, id: string): string =>
  `${domainPath(domain)}/workflows/${id === 'count' ? '%63ount' : encodeURIComponent(id)}`;
