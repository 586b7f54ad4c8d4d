// Parser for a position in a history, as a user types it: `120` or `#120`, `turn 7`, `14:02:10`, `2026-11-24 14:02`,
// `+3m20s`. Pure functions.

export type Jump = { event: number } | { turn: number } | { at: number };

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const DAY_MS = 86_400_000;

/**
 * Parses a position. Returns `undefined` if the text is none. A time of day is the first such time after the start, in
 * the user's time zone.
 */
export function readJump(text: string, startedAt: number): Jump | undefined {
  const typed = text.trim();
  const event = typed.match(/^#?(\d[\d,]*)$/)?.[1];
  if (event) return { event: Number(event.replaceAll(',', '')) };
  const turn = typed.match(/^t(?:urn)?\s*(\d+)$/i)?.[1];
  if (turn) return { turn: Number(turn) };
  if (/^\+(\s*[\d.]+\s*(ms|s|m|h|d))+$/.test(typed)) {
    const parts = [...typed.matchAll(/([\d.]+)\s*(ms|s|m|h|d)/g)];
    return { at: startedAt + parts.reduce((sum, [, n, unit]) => sum + Number(n) * (UNITS[unit ?? ''] ?? 0), 0) };
  }
  const day = typed.match(/^(\d{1,2}):(\d{2})(?::(\d{2})(\.\d{1,3})?)?$/);
  if (day) {
    const [, hours, minutes, seconds, rest] = day;
    const at = new Date(startedAt);
    at.setHours(Number(hours), Number(minutes), Number(seconds ?? 0), Number(rest ?? 0) * 1000);
    // A time of day that has passed when the run starts is on the next day. A time without fractions covers its whole
    // second or minute, in which the run may have started.
    const resolution = seconds === undefined ? 60_000 : 1000;
    return { at: at.getTime() + resolution <= startedAt ? at.getTime() + DAY_MS : at.getTime() };
  }
  const at = /^\d{4}-\d{2}-\d{2}/.test(typed) ? Date.parse(typed.replace(/^(\S+) (\S+)$/, '$1T$2')) : NaN;
  return Number.isNaN(at) ? undefined : { at };
}
