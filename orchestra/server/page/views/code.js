// A text in DOT that is checked while it is written.
import { post } from '../api.js';
import { html, useEffect, useRef, useState } from '../html.js';
import { count } from '../format.js';
import { State } from '../states.js';

const DELAY_MS = 250;
const LINE_PX = 20;

/** Checks a text some time after the last key. */
export function useCheck(source) {
  const [state, setState] = useState({ diagnostics: [], scene: null, error: null, checking: true });
  useEffect(() => {
    let isOver = false;
    setState((before) => ({ ...before, checking: true }));
    const timer = setTimeout(() => post('/api/v1/check', { source }).then(
      (reply) => isOver || setState((before) => ({ diagnostics: reply.diagnostics, scene: reply.scene || before.scene, isStale: !reply.scene, error: null, checking: false })),
      (error) => isOver || setState((before) => ({ ...before, error, checking: false })),
    ), DELAY_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [source]);
  return state;
}

/** The result of a check in a word. */
export function Verdict({ check }) {
  const errors = check.diagnostics.filter((one) => one.severity === 'error').length;
  const rest = check.diagnostics.length - errors;
  const verdict = check.checking ? html`<span class="muted">Checking…</span>` : check.error ? html`<${State} state="warning" word="not checked" />`
    : errors ? html`<${State} state="error" word=${count(errors, 'error')} />` : html`<${State} state="done" word=${rest ? `valid, ${count(rest, 'warning')}` : 'valid'} />`;
  return html`<span role="status">${verdict}</span>`;
}

/** Selects in a text field what a diagnostic is about. @param {HTMLTextAreaElement} field */
export function select(field, one) {
  const rows = field.value.split('\n');
  // Columns count characters, which may be two units of the text.
  const units = (row, column) => [...(rows[row - 1] || '')].slice(0, column - 1).join('').length;
  const start = (row) => rows.slice(0, row - 1).reduce((sum, line) => sum + line.length + 1, 0);
  const from = start(one.line) + units(one.line, one.column);
  const to = Math.max(from + 1, start(one.end_line) + units(one.end_line, one.end_column));
  field.focus();
  field.setSelectionRange(from, to);
  field.scrollTop = Math.max(0, (one.line - 5) * LINE_PX);
}

/**
 * A text field with numbered lines.
 * @param {{field: {current: any}, source: string, change: (source: string) => void, marked: Set<number>, label: string}} props
 */
export function CodeField({ field, source, change, marked, label }) {
  const lines = useRef(null);
  const keyed = (event) => {
    if (event.key !== 'Enter' || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const { selectionStart, selectionEnd, value } = event.target;
    const indent = /^[ \t]*/.exec(value.slice(value.lastIndexOf('\n', selectionStart - 1) + 1, selectionStart))[0];
    if (!indent) return;
    event.preventDefault();
    event.target.setRangeText(`\n${indent}`, selectionStart, selectionEnd, 'end');
    change(event.target.value);
  };
  return html`<div class="lines" ref=${lines} aria-hidden="true">${source.split('\n').map((_, at) => html`<span key=${at} class=${marked.has(at + 1) ? 'marked' : ''}>${at + 1}</span>`)}</div>
    <textarea ref=${field} class="code" spellcheck="false" autocapitalize="off" autocomplete="off" wrap="off" aria-label=${label} value=${source}
      onInput=${(event) => change(event.target.value)} onKeyDown=${keyed} onScroll=${(event) => { lines.current.scrollTop = event.target.scrollTop; }}></textarea>`;
}
