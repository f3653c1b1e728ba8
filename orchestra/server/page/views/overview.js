// All attempts of a run in one picture: a lane for the main path and one for each branch.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../html.js';
import { spanOf } from './timeline-scale.js';

/** Lanes beyond this number share the last one. */
const MAX_LANES = 12;
const TONES = ['ok', 'bad', 'warn', 'info', 'neutral'];

/** Returns a number that changes with the colour scheme. */
function useScheme() {
  const [scheme, set] = useState(0);
  useEffect(() => {
    const changed = () => set((n) => n + 1);
    const media = matchMedia('(prefers-color-scheme: dark)');
    media.addEventListener('change', changed);
    const observer = new MutationObserver(changed);
    observer.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => {
      media.removeEventListener('change', changed);
      observer.disconnect();
    };
  }, []);
  return scheme;
}

/**
 * @param {{rows: any[], scale: any, end: number, toneOf: (row: any) => string, waits: (row: any) => boolean,
 *   selected: number, onSelect: (index: number) => void}} props
 */
export function Overview({ rows, scale, end, toneOf, waits, selected, onSelect }) {
  const canvas = useRef(null);
  const scheme = useScheme();
  const [width, setWidth] = useState(0);
  const lanes = useMemo(() => {
    const names = new Map([['', 0]]);
    for (const { branch } of rows) if (branch && !names.has(branch)) names.set(branch, Math.min(names.size, MAX_LANES - 1));
    return names;
  }, [rows]);
  const count = Math.min(lanes.size, MAX_LANES);
  const lane = count > 6 ? 7 : 11;
  const height = count * lane + 10;
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(canvas.current);
    return () => observer.disconnect();
  }, []);
  // After the list: a click shows its effect first.
  useEffect(() => {
    const element = canvas.current;
    const context = element.getContext('2d');
    if (!width || !context) return;
    const ratio = devicePixelRatio || 1;
    element.width = width * ratio;
    element.height = height * ratio;
    context.scale(ratio, ratio);
    const style = getComputedStyle(element);
    const colours = Object.fromEntries(TONES.map((tone) => [tone, probe(element, tone)]));
    context.fillStyle = style.color;
    context.globalAlpha = 0.35;
    for (const gap of scale.gaps) context.fillRect(6 + gap.at * (width - 12), 0, 1, height);
    context.globalAlpha = 1;
    rows.forEach((row) => {
      const [from, to] = spanOf(row, end).map(scale.place);
      const x = 6 + from * (width - 12);
      const y = 5 + (lanes.get(row.branch || '') ?? 0) * lane;
      context.globalAlpha = waits(row) ? 0.45 : 1;
      context.fillStyle = colours[toneOf(row)];
      context.fillRect(x, y + 1, Math.max(1.5, (to - from) * (width - 12) - 0.5), lane - 3);
    });
  }, [rows, scale, width, height, scheme]);
  const pick = (event) => {
    const bounds = canvas.current.getBoundingClientRect();
    const x = (event.clientX - bounds.left - 6) / (bounds.width - 12);
    const wanted = Math.floor((event.clientY - bounds.top - 5) / lane);
    let best = null;
    rows.forEach((row, index) => {
      const [from, to] = spanOf(row, end).map(scale.place);
      const away = Math.max(0, from - x, x - to) + Math.abs((lanes.get(row.branch || '') ?? 0) - wanted) * 0.2;
      if (!best || away < best.away) best = { away, index };
    });
    if (best) onSelect(best.index);
  };
  const mark = rows[selected] && scale.place(spanOf(rows[selected], end)[0]);
  return html`<div class="overview" aria-hidden="true" style=${{ height: `${height}px` }}><canvas ref=${canvas} onClick=${pick}></canvas>
    ${mark !== undefined && html`<i style=${{ left: `calc(5px + (100% - 12px) * ${mark})` }}></i>`}</div>`;
}

/** Returns the colour of a tone in the present scheme. */
function probe(near, tone) {
  const element = document.createElement('i');
  element.className = `tone-${tone} probe`;
  near.parentElement.appendChild(element);
  const colour = getComputedStyle(element).color;
  element.remove();
  return colour;
}
