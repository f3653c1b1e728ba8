// The time axis of the timeline, on which idle time is squeezed.
import { millis } from '../format.js';

/** A gap is drawn no wider than this share of the active time. */
const SQUEEZE = 0.06;

/** @type {WeakMap<object, [number|null, number|null]>} */
const parsed = new WeakMap();

/** Returns the times between which an attempt ran. A row that changes is a new object. */
export function spanOf(row, end) {
  let span = parsed.get(row);
  if (!span) {
    span = [millis(row.started) ?? millis(row.ended), millis(row.ended)];
    parsed.set(row, span);
  }
  return [span[0] ?? end, span[1] ?? end];
}

/**
 * Returns a function from times to places between 0 and 1, and the gaps that were squeezed: the times in which no
 * attempt ran, except for those that wait.
 * @param {any[]} rows
 * @param {number} end the end of attempts that have none
 * @param {(row: any) => boolean} waits
 */
export function scaleOf(rows, end, waits = () => false) {
  let first = Infinity;
  let last = -Infinity;
  const spans = [];
  for (const row of rows) {
    const span = spanOf(row, end);
    first = Math.min(first, span[0]);
    last = Math.max(last, span[1]);
    if (!waits(row)) spans.push(span);
  }
  if (spans.some((span, at) => at > 0 && span[0] < spans[at - 1][0])) spans.sort((a, b) => a[0] - b[0]);
  const busy = [];
  for (const [from, to] of spans) {
    const before = busy[busy.length - 1];
    if (before && from <= before[1]) before[1] = Math.max(before[1], to);
    else busy.push([from, Math.max(from, to)]);
  }
  const most = busy.reduce((sum, [from, to]) => sum + to - from, 0) * SQUEEZE || 1;
  // Times with their places; between two of them, places grow evenly.
  const stops = [[Math.min(first, last), 0]];
  const gaps = [];
  const reach = (time, isBusy) => {
    const [before, at] = stops[stops.length - 1];
    const length = Math.max(0, time - before);
    if (!isBusy && length > most) gaps.push({ at: at + most / 2, gap: length });
    stops.push([time, at + (isBusy ? length : Math.min(length, most))]);
  };
  for (const [from, to] of busy) {
    reach(from, false);
    reach(to, true);
  }
  if (last > stops[stops.length - 1][0]) reach(last, false);
  const total = stops[stops.length - 1][1] || 1;
  const place = (time) => {
    let low = 0;
    let high = stops.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (stops[middle][0] <= time) low = middle;
      else high = middle - 1;
    }
    const [from, at] = stops[low];
    const next = stops[low + 1];
    const more = next && next[0] > from ? ((Math.max(0, time - from)) / (next[0] - from)) * (next[1] - at) : 0;
    return Math.max(0, Math.min(1, (at + more) / total));
  };
  return { place, gaps: gaps.map(({ at, gap }) => ({ at: at / total, gap })) };
}
