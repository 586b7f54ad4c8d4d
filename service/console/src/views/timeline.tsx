// The view of the timeline: bars on a time axis that shortens idle periods, drawn as SVG. A click selects the event of
// a bar.
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type Bar, barsOf, scaleOf } from '../bars';
import { timeOf } from '../fold';
import { now } from '../state';
import { clockTime, duration } from '../time';
import { visible } from '../words';
import type { Shown } from './shown';

const ROW = 26;
const AXIS = 30;
/** Approximate width of a character on the axis, in pixels. */
const CHARACTER = 6.8;
/** Maximum number of bars. If there are more, the newest are drawn. Our choice. */
const BARS_MAX = 400;

export function Timeline(shown: Shown): JSX.Element {
  const { state, isPast } = shown;
  const row = shown.run.row.value;
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  const [folding, setFolding] = useState(true);
  const [zoom, setZoom] = useState(1);
  useEffect(() => {
    const { current } = box;
    if (!current) return undefined;
    const watch = new ResizeObserver(() => setWidth(current.clientWidth));
    watch.observe(current);
    setWidth(current.clientWidth);
    return () => watch.disconnect();
  }, []);
  const until = isPast ? state.at : state.closed ? timeOf(state.closed) : Math.floor(now.value / 5000) * 5000;
  const { bars, left, scale, ticks } = useMemo(() => {
    const all = barsOf(row, state, Math.max(until, state.at));
    const bars = all.length > BARS_MAX ? all.slice(0, 1).concat(all.slice(1 - BARS_MAX)) : all;
    const instants = [
      state.at,
      until,
      ...row.events.filter((event) => event.id <= state.asOf).map(timeOf),
      ...bars.flatMap((bar) => bar.parts.flatMap((part) => [part.from, part.to])),
    ];
    return {
      bars,
      left: all.length - bars.length,
      scale: scaleOf(instants, folding),
      ticks: [...new Set(instants)].sort((a, b) => a - b),
    };
  }, [row, state.asOf, until, folding]);
  const labels = width < 560 ? 92 : 170;
  const inner = Math.max(200, (width - labels - 16) * zoom);
  const x = (at: number): number => labels + scale.place(at) * inner;
  const marks: { at: number; text: string; isEnd: boolean }[] = [];
  let free = 0;
  for (const at of ticks) {
    const text = at === ticks[0] ? clockTime(at, now.value) : `+${duration(at - (ticks[0] ?? at))}`;
    const wide = text.length * CHARACTER;
    const isEnd = x(at) + wide > labels + inner + 16;
    const from = isEnd ? x(at) - wide : x(at);
    if (from >= free) {
      marks.push({ at, text, isEnd });
      free = from + wide + 14;
    }
  }
  /**
   * Returns the drawn parts of a bar. Of parts that would overlap, the first, failed ones, and the selected one are
   * drawn.
   */
  const partsOf = (bar: Bar, y: number): JSX.Element[] => {
    const drawn: JSX.Element[] = [];
    let free = -Infinity;
    for (const part of bar.parts) {
      const from = x(part.from);
      const to = Math.max(from + 2, x(part.to));
      const isSelected = part.eventId !== undefined && part.eventId === shown.selected;
      if (to < free && !isSelected && !part.isBad) continue;
      free = Math.max(free, from + 3);
      const more = {
        class: `part ${part.kind}${part.isBad ? ' bad' : ''}${isSelected ? ' at' : ''}`,
        onClick: (event: Event): void => {
          if (part.eventId !== undefined) {
            event.stopPropagation();
            shown.select(part.eventId);
          }
        },
      };
      drawn.push(
        bar.lane === 'signal' ? (
          <path key={part.eventId} d={`M${from} ${y + 7}l6 6l-6 6l-6 -6z`} {...more} />
        ) : (
          <rect
            key={`${part.eventId ?? ''}${part.kind}${part.from}`}
            rx={part.kind === 'running' ? 3 : 1}
            x={from}
            width={to - from}
            y={y + (part.kind === 'running' ? 6 : 11)}
            height={part.kind === 'running' ? ROW - 12 : 4}
            {...more}
          />
        ),
      );
    }
    return drawn;
  };
  const first = ticks[0] ?? 0;
  const height = AXIS + bars.length * ROW + (scale.folds.length > 0 ? 18 : 8);
  const selected = row.at(shown.selected);
  return (
    <div class="timeline">
      <div class="tools">
        <button type="button" class="quiet" aria-pressed={folding} onClick={() => setFolding(!folding)}>
          {folding ? 'show idle time' : 'fold idle time'}
        </button>
        <button
          type="button"
          class="quiet"
          onClick={() => setZoom(Math.max(1, zoom / 1.6))}
          aria-label="Zoom out"
          disabled={zoom <= 1}
        >
          −
        </button>
        <button type="button" class="quiet" onClick={() => setZoom(Math.min(60, zoom * 1.6))} aria-label="Zoom in">
          +
        </button>
        <span class="legend">
          <i class="l-waiting" /> waiting <i class="l-running" /> running <i class="l-pending" /> until its deadline
        </span>
        {left > 0 ? <span class="quieter">{left} earlier bars are not shown</span> : null}
      </div>
      <div class="chart" ref={box} tabIndex={0} role="group" aria-label="Timeline">
        <svg
          width={labels + inner + 16}
          height={height}
          role="img"
          aria-label={`${bars.length} bars from ${clockTime(first, now.value)}`}
        >
          {scale.folds.map((fold) => (
            <g key={fold.from} class="fold-mark">
              <title>{duration(fold.to - fold.from)} idle</title>
              <rect
                x={labels + fold.at * inner}
                y={AXIS - 8}
                width={Math.max(2, fold.width * inner)}
                height={height - AXIS + 8}
              />
              {fold.width * inner > 44 ? (
                <text x={labels + (fold.at + fold.width / 2) * inner} y={height - 3} text-anchor="middle">
                  {duration(fold.to - fold.from)}
                </text>
              ) : null}
            </g>
          ))}
          {marks.map(({ at, text, isEnd }) => (
            <g key={at} class="tick">
              <line x1={x(at)} x2={x(at)} y1={AXIS - 8} y2={height} />
              <text x={x(at)} y={AXIS - 14} text-anchor={isEnd ? 'end' : 'start'}>
                {text}
              </text>
            </g>
          ))}
          {bars.map((bar, index) => {
            const y = AXIS + index * ROW;
            return (
              <g
                key={`${bar.lane}${bar.eventId}`}
                class={`bar b-${bar.lane} out-${bar.outcome}${bar.eventId === shown.selected ? ' at' : ''}`}
                onClick={() => shown.select(bar.eventId)}
              >
                <title>{visible(`${bar.label} · ${bar.note}`)}</title>
                <rect class="ground" x={0} y={y} width={labels + inner + 16} height={ROW} />
                {partsOf(bar, y)}
                <rect class="label-ground" x={0} y={y} width={labels - 6} height={ROW} />
                <text x={8} y={y + 17} class="label">
                  {cut(visible(bar.label), labels < 100 ? 11 : 22)}
                </text>
              </g>
            );
          })}
          {selected ? (
            <line class="cursor" x1={x(timeOf(selected))} x2={x(timeOf(selected))} y1={AXIS - 8} y2={height} />
          ) : null}
        </svg>
      </div>
    </div>
  );
}

const cut = (text: string, length: number): string => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
