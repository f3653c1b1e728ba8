// A pipeline as text, checked while it is written.
import { get, paths, post } from '../api.js';
import { html, useEffect, useMemo, useRef, useState } from '../html.js';
import { GraphPane } from '../graph-pane.js';
import { setQuery } from '../router.js';
import { cli, shell } from '../store.js';
import { Command, Empty, Failure } from '../ui.js';
import { CodeField, Verdict, select, useCheck } from './code.js';
import { Diagnostics, StartForm } from './start.js';

const DRAFT = 'orchestra.draft';
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

/** The screen of the editor. */
export function Editor({ query }) {
  const [source, setSource] = useState(stored);
  const [failure, setFailure] = useState(null);
  const [replaced, setReplaced] = useState(null);
  const latest = useRef(source);
  latest.current = source;
  const text = useRef(null);
  const check = useCheck(source);
  /** Replaces the text, and offers to bring the present one back. */
  const replace = (value) => {
    const before = latest.current;
    if (before !== value && before !== EXAMPLE && before.trim()) setReplaced(before);
    change(value);
  };
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
      replace(found.source);
      setQuery({ from: null });
    }, setFailure);
  }, [query.from]);
  const marked = useMemo(() => new Set(check.diagnostics.map((one) => one.line)), [check.diagnostics]);
  const errors = check.diagnostics.filter((one) => one.severity === 'error').length;
  const isOff = shell.about.submit === 'off' || shell.about.read_only;
  return html`<div class="run">
    <header class="run-head"><div class="run-title"><h1>Editor</h1><${Verdict} check=${check} />
      <div class="buttons"><button class="quiet" onClick=${() => replace(EXAMPLE)}>Begin with the example</button></div></div>
      ${replaced !== null && html`<p class="banner tone-info" role="status">The text that was here was replaced. <button class="link" onClick=${() => { change(replaced); setReplaced(null); }}>Bring it back</button> <button class="link" onClick=${() => setReplaced(null)}>Dismiss</button></p>`}
      ${failure && html`<${Failure} error=${failure} />`}</header>
    <div class="split editor">
      <div class="split-left edit">
        <${CodeField} field=${text} source=${source} change=${change} marked=${marked} label="Pipeline in DOT" />
      </div>
      <div class="split-right">
        <div class="half">${check.scene ? html`<${GraphPane} scene=${check.scene} label="Preview" legend=${check.isStale ? html`<span class="warn-text">of the last text that could be read</span>` : null} />` : html`<${Empty} title="No graph yet">It appears as soon as the text can be read.<//>`}</div>
        <div class="panel scroll" role="region" aria-label="Diagnostics and start" tabindex="0">
          ${check.error && html`<${Failure} title="The text was not checked" error=${check.error} />`}
          ${check.diagnostics.length > 0 && html`<${Diagnostics} list=${check.diagnostics} onJump=${(one) => select(text.current, one)} />`}
          ${isOff ? html`<p class="muted">This server runs no pipelines that are sent as text. Save it as a file and run it in a terminal.</p><${Command} text=${cli('run', 'FILE.dot')} />`
            : html`<${StartForm} start=${({ params, simulate, max_cost, max_time }) => post('/pipelines', { source, params, simulate, max_cost, max_time })} disabled=${errors > 0} onlySimulate=${shell.about.submit === 'simulate'} command=${cli('run', 'FILE.dot')} />`}
        </div>
      </div>
    </div>
  </div>`;
}
