// Failures of a domain, grouped by workflow type and reason, with a batch for each group.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { get } from '../api';
import { filterOfFailure, proposedForFailure } from '../failures';
import { queryOfFilter } from '../filter';
import type { Schemas } from '../fold';
import { domainPath } from '../paths';
import { pathOf } from '../route';
import { mayDo } from '../session';
import { Badge, Name, Time } from '../ui';
import { batching } from './batch';

/** Number of groups that are shown before the user asks for more. Our choice. */
const SHOWN = 5;
/**
 * Minimum interval between reads, in milliseconds. The service examines up to 11,000 runs for each, so they are not
 * read at every change. Our choice.
 */
const READ_MS = 30_000;

/** `times` increases when the page reads its data. */
export function FailuresOf({ domain, times }: { domain: string; times: number }): JSX.Element | null {
  const [value, setValue] = useState<Schemas['Failures']>();
  const [isWhole, setWhole] = useState(false);
  const readAt = useRef(-Infinity);
  const read = (): void => {
    readAt.current = performance.now();
    // A user without permission, or an earlier version of the service, has no such list.
    get<Schemas['Failures']>(`${domainPath(domain)}/failures`).then(setValue, () => undefined);
  };
  useEffect(() => {
    const wait = setTimeout(read, Math.max(0, readAt.current + READ_MS - performance.now()));
    return () => clearTimeout(wait);
  }, [domain, times]);
  const groups = value?.failures ?? [];
  if (groups.length === 0) return null;
  const shown = isWhole ? groups : groups.slice(0, SHOWN);
  return (
    <div class="failures">
      <h3>failures</h3>
      <table class="grid stacked">
        <thead>
          <tr>
            <th>status</th>
            <th>type</th>
            <th>reason</th>
            <th class="right">runs</th>
            <th>first</th>
            <th>last</th>
            <th>
              <span class="unseen">action</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((group) => {
            const filter = filterOfFailure(group);
            const { label, operation, filled } = proposedForFailure(group);
            return (
              <tr key={`${group.status} ${group.workflowType} ${group.reason ?? ''}`} data-row tabIndex={-1}>
                <td>
                  <Badge status={group.status} />
                </td>
                <td>
                  <Name>{group.workflowType}</Name>
                </td>
                <td class="strong">
                  <a class="list-name" href={`${pathOf({ page: 'runs', domain })}?${queryOfFilter(filter)}`}>
                    {group.reason ? <Name>{group.reason}</Name> : 'no reason'}
                  </a>
                </td>
                <td class="right" data-label="runs">
                  {group.runs.toLocaleString('en')}
                </td>
                <td data-label="first">
                  <Time at={group.firstAt} />
                </td>
                <td data-label="last">
                  <Time at={group.lastAt} />
                </td>
                <td class="right">
                  {mayDo('batch', domain) ? (
                    <button
                      type="button"
                      class="act"
                      onClick={() => {
                        batching.value = { domain, filter, operation, filled, done: read };
                      }}
                    >
                      {label}
                    </button>
                  ) : null}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <p class="quieter">
        {groups.length > shown.length ? (
          <button type="button" class="link" onClick={() => setWhole(true)}>
            Show all {groups.length}
          </button>
        ) : null}
        {value?.truncated ? ' Not all runs were examined, so there may be more.' : ''}
      </p>
    </div>
  );
}
