// The time axis of the timeline, on which idle time is squeezed.
import { millis } from '../format.js';

/** A gap is drawn no wider than this share of the active time. */
const SQUEEZE = 0.06;

/**
 * Returns a function from times to places between 0 and 1, and the gaps that were squeezed.
 * @param {any[]} rows
 * @param {number} end the end of attempts that have none
 */
export function scaleOf(rows, end) {
  const spans = rows.map((row) => [millis(row.started) ?? millis(row.ended), millis(row.ended) ?? end]).filter(([from]) => from !== null);
  spans.sort((a, b) => a[0] - b[0]);
  const busy = [];
  for (const [from, to] of spans) {
    const last = busy[busy.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else busy.push([from, Math.max(from, to)]);
  }
  const active = busy.reduce((sum, [from, to]) => sum + to - from, 0) || 1;
  const most = active * SQUEEZE;
  const parts = [];
  const gaps = [];
  let width = 0;
  busy.forEach(([from, to], at) => {
    if (at > 0) {
      const gap = from - busy[at - 1][1];
      if (gap > most) gaps.push({ at: width + most / 2, gap });
      width += Math.min(gap, most);
    }
    parts.push({ from, to, at: width });
    width += to - from;
  });
  const total = width || 1;
  const place = (time) => {
    if (!parts.length) return 0;
    let low = 0;
    let high = parts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (parts[middle].from <= time) low = middle;
      else high = middle - 1;
    }
    const part = parts[low];
    return Math.max(0, Math.min(1, (part.at + Math.min(Math.max(time - part.from, 0), part.to - part.from)) / total));
  };
  return { place, gaps: gaps.map(({ at, gap }) => ({ at: at / total, gap })) };
}
