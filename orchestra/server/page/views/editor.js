// A pipeline as text, checked while it is written.
import { get, paths, post } from '../api.js';
import { html, useEffect, useMemo, useRef, useState } from '../html.js';
import { count } from '../format.js';
import { GraphPane } from '../graph-pane.js';
import { setQuery } from '../router.js';
import { cli, shell } from '../store.js';
import { State } from '../states.js';
import { Command, Empty, Failure } from '../ui.js';
import { Diagnostics, StartForm } from './start.js';

const DRAFT = 'orchestra.draft';
const DELAY_MS = 250;
const LINE_PX = 20;
const EXAMPLE = `digraph review {
    graph [goal="Decide whether a text is good enough"]
    start [shape=Mdiamond, label="Start"]
    exit [shape=Msquare, label="Exit"]

    ask [shape=hexagon, label="Is it good enough?"]
    again [shape=hexagon, label="Rewritten?"]

    start -> ask
    ask -> exit [label="[Y] Yes"]
    ask -> again [label="[N] No"]
    again -> ask [label="[D] Done"]
}
`;

function stored() {
  try {
    return sessionStorage.getItem(DRAFT) || EXAMPLE;
  } catch {
    return EXAMPLE;
  }
}

/** Checks a text some time after the last key. */
function useCheck(source) {
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

/** The screen of the editor. */
export function Editor({ query }) {
  const [source, setSource] = useState(stored);
  const [failure, setFailure] = useState(null);
  const text = useRef(null);
  const lines = useRef(null);
  const check = useCheck(source);
  const change = (value) => {
    setSource(value);
    try {
      sessionStorage.setItem(DRAFT, value);
    } catch {
      // It then lasts as long as the page.
    }
  };
  useEffect(() => {
    if (!query.from) return;
    setFailure(null);
    get(paths.definition(query.from)).then((found) => {
      change(found.source);
      setQuery({ from: null });
    }, setFailure);
  }, [query.from]);
  const jump = (one) => {
    const rows = source.split('\n');
    // Columns count characters, which may be two units of the text.
    const units = (row, column) => [...(rows[row - 1] || '')].slice(0, column - 1).join('').length;
    const start = (row) => rows.slice(0, row - 1).reduce((sum, line) => sum + line.length + 1, 0);
    const from = start(one.line) + units(one.line, one.column);
    const to = Math.max(from + 1, start(one.end_line) + units(one.end_line, one.end_column));
    text.current.focus();
    text.current.setSelectionRange(from, to);
    text.current.scrollTop = Math.max(0, (one.line - 5) * LINE_PX);
  };
  const keyed = (event) => {
    if (event.key !== 'Enter' || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const { selectionStart, selectionEnd, value } = event.target;
    const indent = /^[ \t]*/.exec(value.slice(value.lastIndexOf('\n', selectionStart - 1) + 1, selectionStart))[0];
    if (!indent) return;
    event.preventDefault();
    event.target.setRangeText(`\n${indent}`, selectionStart, selectionEnd, 'end');
    change(event.target.value);
  };
  const marked = useMemo(() => new Set(check.diagnostics.map((one) => one.line)), [check.diagnostics]);
  const errors = check.diagnostics.filter((one) => one.severity === 'error').length;
  const rest = check.diagnostics.length - errors;
  const total = source.split('\n').length;
  const verdict = check.checking ? html`<span class="muted">Checking…</span>` : check.error ? html`<${State} state="warning" word="not checked" />`
    : errors ? html`<${State} state="error" word=${count(errors, 'error')} />` : html`<${State} state="done" word=${rest ? `valid, ${count(rest, 'warning')}` : 'valid'} />`;
  const isOff = shell.about.submit === 'off' || shell.about.read_only;
  return html`<div class="run">
    <header class="run-head"><div class="run-title"><h1>Editor</h1><span role="status">${verdict}</span>
      <div class="buttons"><button class="quiet" onClick=${() => change(EXAMPLE)}>Begin with the example</button></div></div>
      ${failure && html`<${Failure} error=${failure} />`}</header>
    <div class="split editor">
      <div class="split-left edit">
        <div class="lines" ref=${lines} aria-hidden="true">${Array.from({ length: total }, (_, at) => html`<span key=${at} class=${marked.has(at + 1) ? 'marked' : ''}>${at + 1}</span>`)}</div>
        <textarea ref=${text} class="code" spellcheck="false" autocapitalize="off" autocomplete="off" wrap="off" aria-label="Pipeline in DOT" value=${source}
          onInput=${(event) => change(event.target.value)} onKeyDown=${keyed} onScroll=${(event) => { lines.current.scrollTop = event.target.scrollTop; }}></textarea>
      </div>
      <div class="split-right">
        <div class="half">${check.scene ? html`<${GraphPane} scene=${check.scene} label="Preview" legend=${check.isStale ? html`<span class="warn-text">of the last text that could be read</span>` : null} />` : html`<${Empty} title="No graph yet">It appears as soon as the text can be read.<//>`}</div>
        <div class="panel scroll" role="region" aria-label="Diagnostics and start" tabindex="0">
          ${check.error && html`<${Failure} title="The text was not checked" error=${check.error} />`}
          ${check.diagnostics.length > 0 && html`<${Diagnostics} list=${check.diagnostics} onJump=${jump} />`}
          ${isOff ? html`<p class="muted">This server runs no pipelines that are sent as text. Save it as a file and run it in a terminal.</p><${Command} text=${cli('run', 'FILE.dot')} />`
            : html`<${StartForm} start=${({ params, simulate, max_cost, max_time }) => post('/pipelines', { source, params, simulate, max_cost, max_time })} disabled=${errors > 0} onlySimulate=${shell.about.submit === 'simulate'} command=${cli('run', 'FILE.dot')} />`}
        </div>
      </div>
    </div>
  </div>`;
}
