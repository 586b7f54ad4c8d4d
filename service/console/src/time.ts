// Durations and instants: parsing values of the API, and formatting values for people. No function reads a clock.

const UNITS: Record<string, number> = { W: 604_800_000, D: 86_400_000, H: 3_600_000, M: 60_000, S: 1000 };

/**
 * Returns the milliseconds of an ISO 8601 duration as written by the service (`P1DT2H`), or `undefined` if it is
 * invalid.
 */
export function millisecondsOf(duration: string | null | undefined): number | undefined {
  const parts = duration?.match(/^P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?$/);
  if (!parts || duration === 'P') return undefined;
  return ['W', 'D', 'H', 'M', 'S'].reduce((sum, unit, at) => sum + Number(parts[at + 1] ?? 0) * (UNITS[unit] ?? 0), 0);
}

/** Formats a duration with at most two units: `340 ms`, `4.2 s`, `3 m 20 s`, `2 d 4 h`. Its spaces are non-breaking. */
export function duration(ms: number): string {
  return breaking(ms).replaceAll(' ', '\u00a0');
}

function breaking(ms: number): string {
  if (ms < 0) return `−${breaking(-ms)}`;
  if (ms < 1) return '0 ms';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toString()} s`;
  const two = (unit: number, name: string, lesser: number, lesserName: string): string => {
    const whole = Math.floor(ms / unit);
    const rest = Math.floor((ms - whole * unit) / lesser);
    return rest > 0 && whole < 30 ? `${whole} ${name} ${rest} ${lesserName}` : `${whole} ${name}`;
  };
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s`;
  if (ms < 3_600_000) return two(60_000, 'm', 1000, 's');
  if (ms < 86_400_000) return two(3_600_000, 'h', 60_000, 'm');
  return two(86_400_000, 'd', 3_600_000, 'h');
}

/** Formats the distance of an instant from now: `12 s ago`, `in 4 m 3 s`. */
export function relative(at: number, now: number): string {
  const ms = now - at;
  if (Math.abs(ms) < 1000) return 'now';
  const whole = Math.floor(Math.abs(ms) / 1000) * 1000;
  return ms > 0 ? `${duration(whole)}\u00a0ago` : `in\u00a0${duration(whole)}`;
}

/** Formats the time since an instant: `12 s`. */
export const lasting = (since: number, now: number): string =>
  duration(Math.max(0, Math.floor((now - since) / 1000) * 1000));

const pad = (n: number, digits = 2): string => String(n).padStart(digits, '0');

/** Formats an instant in the user's time zone: `14:02:11.340`. Includes the date if it is another day. */
export function clockTime(at: number, now: number): string {
  const date = new Date(at);
  const time = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return date.toDateString() === new Date(now).toDateString() ? time : `${dateOf(at)} ${time}`;
}

/** Formats an instant in the user's time zone, with milliseconds. */
export function exactTime(at: number): string {
  const date = new Date(at);
  return `${dateOf(at)} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${pad(date.getMilliseconds(), 3)}`;
}

function dateOf(at: number): string {
  const date = new Date(at);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}
