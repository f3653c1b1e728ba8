// Parts that several views use.
import { html, useEffect, useId, useLayoutEffect, useReducer, useRef, useState } from './html.js';
import { ago, date, millis } from './format.js';
import { go, setQuery } from './router.js';
import { shell } from './store.js';

const ICONS = {
  copy: 'M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z',
  search: 'M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.3 10.3l3.5 3.5',
  plus: 'M8 3v10M3 8h10',
  minus: 'M3 8h10',
  fit: 'M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10',
  runs: 'M2.5 4h11M2.5 8h11M2.5 12h7',
  gates: 'M3 13.5v-11M13 13.5v-11M3 5h10M3 9h10',
  definitions: 'M3 4a1.5 1.5 0 1 0 3 0 1.5 1.5 0 0 0-3 0zM10 12a1.5 1.5 0 1 0 3 0 1.5 1.5 0 0 0-3 0zM4.5 5.5v3.5a3 3 0 0 0 3 3H10',
  workflows: 'M2.5 3h11v10h-11zM2.5 6.3h11M2.5 9.7h11M6 6.3V13',
  editor: 'M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5',
  close: 'M4 4l8 8M12 4l-8 8',
  left: 'M10 3 5 8l5 5',
  right: 'M6 3l5 5-5 5',
  theme: 'M8 2.5a5.5 5.5 0 1 0 5.5 5.5A4.2 4.2 0 0 1 8 2.5z',
  keys: 'M1.5 4.5h13v7h-13zM4 7h.1M6.7 7h.1M9.3 7h.1M12 7h.1M5 9.3h6',
  swap: 'M2.5 5.5h10M9.5 2.5l3 3-3 3M13.5 10.5h-10M6.5 7.5l-3 3 3 3',
  rise: 'M4 10l4-4 4 4',
  sink: 'M4 6l4 4 4-4',
  down: 'M8 2.5v8M4.5 7.5 8 11l3.5-3.5M3 13.5h10',
  play: 'M4.5 3v10l8-5z',
  out: 'M6 2.5H2.5v11H6M6.5 8h7M10.5 5l3 3-3 3',
  outline: 'M2.5 3.5h6M5.5 8h8M5.5 12.5h8M3 3.5v9M3 8h2.5M3 12.5h2.5',
};

/** An icon without meaning of its own. */
export const Icon = ({ name }) =>
  html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${ICONS[name]} /></svg>`;

/** Copies text; falls back to a selection where the clipboard is not available. @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    shell.toast('Copied');
  } catch {
    shell.toast('The browser refused to copy. Select the text instead.', 'error');
  }
}

/** The command that does the same in a terminal. */
export function Command({ text, label = 'In a terminal' }) {
  if (!text) return null;
  return html`<div class="command">
    <span class="command-label">${label}</span>
    <code tabindex="0" role="textbox" aria-readonly="true" aria-label=${`Command: ${text}`}>${text}</code>
    <button type="button" class="quiet square" onClick=${() => copy(text)} aria-label="Copy the command" title="Copy the command"><${Icon} name="copy" /></button>
  </div>`;
}

/** A state without data: what it means and what to do next. */
export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2><div>${children}</div></div>`;

/** An error with its help. */
export const Failure = ({ error, retry, title, level = 'h2' }) => html`<div class="failure" role="alert">
  <${level}>${title || (error.status === 404 ? 'Not found' : 'This could not be loaded')}<//>
  <p>${error.message}</p>
  ${error.help && html`<p class="muted">${error.help}</p>`}
  ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
</div>`;

/** Lines in place of data that is on its way. */
export const Loading = ({ lines = 6, label = 'Loading' }) => html`<div class="loading" role="status" aria-label=${label}>
  ${Array.from({ length: lines }, (_, line) => html`<div class="bone" key=${line} style=${{ width: `${92 - ((line * 23) % 48)}%` }}></div>`)}
</div>`;

/** Renders again every second. */
export function useTick(ms = 1000, active = true) {
  const [, tick] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    if (!active) return undefined;
    const timer = setInterval(() => tick(0), ms);
    return () => clearInterval(timer);
  }, [ms, active]);
}

/** How long ago a time is; its title is the time. */
export function Ago({ time }) {
  if (millis(time) === null) return html`<span class="muted">–</span>`;
  return html`<time datetime=${time} title=${date(time)}>${ago(time)}</time>`;
}

/**
 * Loads something and keeps it.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {unknown[]} keys
 * @returns {{data: T|null, error: any, loading: boolean, again: () => void, set: (data: T) => void}}
 */
export function useLoad(load, keys) {
  const [state, setState] = useState({ data: null, error: null, loading: true });
  const [turn, again] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    const controller = new AbortController();
    setState((before) => ({ ...before, error: null, loading: true }));
    load(controller.signal).then(
      (data) => controller.signal.aborted || setState({ data, error: null, loading: false }),
      (error) => controller.signal.aborted || setState((before) => ({ ...before, error, loading: false })),
    );
    return () => controller.abort();
  }, [...keys, turn]);
  return { ...state, again: () => again(0), set: (data) => setState({ data, error: null, loading: false }) };
}

/**
 * Tabs whose selection is part of the address.
 * @param {{tabs: {id: string, label: string, count?: number, href: string}[], selected: string, label: string}} props
 */
export function Tabs({ tabs, selected, label }) {
  const list = useRef(null);
  const move = (event) => {
    const at = tabs.findIndex((tab) => tab.id === selected);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = event.key === 'Home' ? 0 : event.key === 'End' ? tabs.length - 1 : step && (at + step + tabs.length) % tabs.length;
    if (next === undefined) return;
    event.preventDefault();
    go(tabs[next].href, { replace: true });
    list.current.children[next].focus();
  };
  useEffect(() => {
    list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [selected]);
  return html`<div class="tabs" role="tablist" aria-label=${label} ref=${list} onKeyDown=${move}>
    ${tabs.map((tab) => html`<a key=${tab.id} role="tab" id=${`tab-${tab.id}`} href=${tab.href} aria-selected=${String(tab.id === selected)}
      aria-controls="panel" tabindex=${tab.id === selected ? 0 : -1}>
      ${tab.label}${tab.count ? html`<span class="count">${tab.count}</span>` : null}</a>`)}
  </div>`;
}

/**
 * A long list of rows with one height, of which only the visible ones exist.
 * @param {{rows: any[], height: number, row: (row: any, index: number) => any, keyOf?: (row: any) => any,
 *   selected?: number, onSelect?: (index: number) => void, label: string, follow?: boolean, head?: any}} props
 */
export function VirtualList({ rows, height, row, keyOf, selected = -1, onSelect, label, follow = false, head = null }) {
  const box = useRef(null);
  const id = useId();
  const [view, setView] = useState({ top: 0, size: 600 });
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    const element = box.current;
    const measure = () => setView({ top: element.scrollTop, size: element.clientHeight || 600 });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (follow && isAtEnd.current) box.current.scrollTop = rows.length * height;
  }, [rows.length, follow]);
  const show = (index) => {
    const element = box.current;
    const top = index * height;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height > element.scrollTop + element.clientHeight) element.scrollTop = top + height - element.clientHeight + 1;
  };
  useLayoutEffect(() => {
    if (selected >= 0) show(selected);
  }, [selected]);
  const scrolled = () => {
    const element = box.current;
    if (!element) return;
    isAtEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - height;
    setView({ top: element.scrollTop, size: element.clientHeight });
  };
  const key = (event) => {
    const page = Math.max(1, Math.floor(view.size / height) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity, j: 1, k: -1 };
    const step = steps[event.key];
    if (step === undefined || !rows.length || !onSelect || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const from = selected < 0 ? (step > 0 ? -1 : rows.length) : selected;
    const next = Math.max(0, Math.min(rows.length - 1, from + step));
    show(next);
    onSelect(next);
  };
  const first = Math.max(0, Math.floor(view.top / height) - 8);
  const last = Math.min(rows.length, Math.ceil((view.top + view.size) / height) + 8);
  const shown = rows.slice(first, last);
  const active = selected >= first && selected < last ? `${id}-${selected}` : undefined;
  return html`<div class="virtual" ref=${box} onScroll=${scrolled} onKeyDown=${key} tabindex="0"
      role=${onSelect ? 'listbox' : 'list'} aria-label=${label} aria-activedescendant=${active}>
    ${head}
    <div class="virtual-space" role="presentation" style=${{ height: `${rows.length * height}px` }}>
      <div role="presentation" class="virtual-rows" style=${{ transform: `translateY(${first * height}px)` }}>
        ${shown.map((entry, at) => html`<div class="vrow" key=${keyOf ? keyOf(entry) : first + at} id=${`${id}-${first + at}`}
          role=${onSelect ? 'option' : 'listitem'} aria-selected=${onSelect ? String(first + at === selected) : undefined}
          aria-setsize=${rows.length} aria-posinset=${first + at + 1}
          style=${{ height: `${height}px` }} onClick=${onSelect && (() => onSelect(first + at))}>${row(entry, first + at)}</div>`)}
      </div>
    </div>
  </div>`;
}

/** A modal dialog. */
export function Dialog({ title, children, close, wide }) {
  const box = useRef(null);
  const id = useId();
  useEffect(() => {
    const element = box.current;
    element.showModal();
    return () => element.close();
  }, []);
  return html`<dialog ref=${box} class=${wide ? 'wide' : ''} aria-labelledby=${id} onCancel=${(event) => (event.preventDefault(), close())}
      onClick=${(event) => event.target === box.current && close()}>
    <div class="dialog">
      <header><h2 id=${id}>${title}</h2><button class="quiet square" onClick=${close} aria-label="Close"><${Icon} name="close" /></button></header>
      ${children}
    </div>
  </dialog>`;
}

/** A select with a label. `options` are pairs of value and text. */
export const Select = ({ label, value, options, onChange }) => html`<label class="field inline">
  <span class="sr">${label}</span>
  <select value=${value} aria-label=${label} onChange=${(event) => onChange(event.target.value)}>
    ${options.map(([option, text]) => html`<option key=${option} value=${option} selected=${option === value}>${text}</option>`)}
  </select></label>`;

/** A search field whose text is a parameter of the address. */
export const Search = ({ value, name, label }) => html`<label class="search">
  <${Icon} name="search" /><span class="sr">${label}</span>
  <input type="search" placeholder=${label} value=${value || ''} onInput=${(event) => setQuery({ [name]: event.target.value || null })} />
</label>`;

/** A term and its value in a list of facts. */
export const Fact = ({ name, children, wide }) => html`<div class=${wide ? 'fact wide' : 'fact'}><dt>${name}</dt><dd>${children}</dd></div>`;

/** A share as a bar. */
export const Bar = ({ share, tone = 'info' }) => html`<span class=${`bar tone-${tone}`} aria-hidden="true"><span style=${{ width: `${Math.max(0, Math.min(1, share || 0)) * 100}%` }}></span></span>`;
