// The list of runs.
import { get, paths } from '../api.js';
import { html, useEffect, useMemo, useRef, useState } from '../html.js';
import { cost, count, duration, millis, number } from '../format.js';
import { useKeys } from '../keys.js';
import * as live from '../live.js';
import { go, href, setQuery } from '../router.js';
import { cli, shell } from '../store.js';
import { State } from '../states.js';
import { Ago, Command, Empty, Failure, Icon, Loading, useTick } from '../ui.js';

export const STATUSES = ['accepted', 'running', 'paused', 'success', 'fail', 'cancelled', 'interrupted'];
const LIMIT = 50;
const OPEN = new Set(['accepted', 'running']);

/** Returns the number of open questions of a run. */
const openQuestions = (run) => run.questions ?? run.unanswered_questions ?? 0;

/** Returns how long a run took, or has taken until now. */
export function elapsed(run) {
  const start = millis(run.started);
  if (start === null) return null;
  const end = millis(run.ended) ?? (OPEN.has(run.status) ? Date.now() : millis(run.updated));
  return end === null ? null : Math.max(0, end - start);
}

function useRuns(status, name) {
  const [state, setState] = useState({ runs: null, next: null, error: null, more: false });
  const filter = useRef(null);
  filter.current = { status, name };
  const query = (cursor) => {
    const parts = { limit: String(LIMIT) };
    if (status) parts.status = status;
    if (name) parts.name = name;
    if (cursor) parts.cursor = cursor;
    return paths.runs(parts);
  };
  const load = () => get(query()).then(
    ({ runs, next }) => filter.current.status === status && filter.current.name === name && setState({ runs, next, error: null, more: false }),
    (error) => setState((before) => ({ ...before, error })),
  );
  useEffect(() => {
    setState((before) => ({ ...before, error: null }));
    const timer = setTimeout(load, name ? 180 : 0);
    return () => clearTimeout(timer);
  }, [status, name]);
  useEffect(() => {
    const stop = live.watch('runs');
    const fits = (run) => {
      const wanted = filter.current;
      return (!wanted.status || wanted.status.split(',').includes(run.status)) && (!wanted.name || run.name === wanted.name);
    };
    const offs = [
      live.on('open', () => load()),
      live.on('runs', ({ runs: changed }) => setState((before) => {
        if (!before.runs) return before;
        const rows = new Map(before.runs.map((run) => [run.run, run]));
        const added = [];
        for (const run of changed) {
          if (!fits(run)) rows.delete(run.run);
          else if (rows.has(run.run)) rows.set(run.run, run);
          else added.push(run);
        }
        const oldest = before.next ? before.runs[before.runs.length - 1]?.started : null;
        const latest = added.filter((run) => !oldest || (run.started || '') >= oldest);
        const all = [...latest, ...rows.values()];
        if (latest.length) all.sort((a, b) => (b.started || '').localeCompare(a.started || '') || b.run.localeCompare(a.run));
        return { ...before, runs: all };
      })),
    ];
    return () => {
      stop();
      offs.forEach((off) => off());
    };
  }, []);
  const more = () => {
    if (!state.next || state.more) return;
    setState((before) => ({ ...before, more: true }));
    get(query(state.next)).then(
      ({ runs, next }) => setState((before) => {
        const known = new Set(before.runs.map((run) => run.run));
        return { ...before, runs: [...before.runs, ...runs.filter((run) => !known.has(run.run))], next, more: false };
      }),
      (error) => setState((before) => ({ ...before, error, more: false })),
    );
  };
  return { ...state, load, loadMore: more };
}

function Row({ run, selected, onFocus }) {
  const questions = openQuestions(run);
  const where = run.failed_at || (run.status !== 'success' && run.node);
  return html`<tr class=${selected ? 'selected' : ''} onClick=${(event) => { if (!event.target.closest('a')) go(href(['runs', run.run])); }}>
    <td class="c-state"><${State} state=${run.status} /></td>
    <th scope="row" class="c-name"><a href=${href(['runs', run.run])} data-run=${run.run} onFocus=${onFocus} tabindex=${selected ? 0 : -1}>${run.name || run.run}</a>
      ${run.simulated && html`<span class="tag">simulated</span>`}
      ${run.replayed_from && html`<span class="tag" title=${`from ${run.replayed_from.checkpoint} of ${run.replayed_from.run}`}>replay</span>`}
      ${questions > 0 && html`<span class="tag hot">${count(questions, 'question')}</span>`}
      <span class="sub" title=${run.goal}>${where ? html`<code>${where}</code> ` : ''}${(run.status !== 'success' && run.reason) || run.goal}</span></th>
    <td class="c-time"><${Ago} time=${run.started} /></td>
    <td class="num c-duration">${duration(elapsed(run))}</td>
    <td class="num c-stages">${number(run.stages)}${run.failures ? html`<span class="bad-text" title=${count(run.failures, 'failure')}> · ${number(run.failures)}✕</span>` : ''}</td>
    <td class="num c-cost">${cost(run.cost_micros)}</td>
  </tr>`;
}

/** The screen of all runs. */
export function Runs({ query }) {
  const status = query.status || '';
  const name = query.name || '';
  const { runs, next, error, more, load, loadMore } = useRuns(status, name);
  const [at, setAt] = useState(0);
  const end = useRef(null);
  useTick(5000, !!runs?.some((run) => OPEN.has(run.status)));
  useEffect(() => {
    if (!next || !end.current) return undefined;
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && loadMore(), { rootMargin: '400px' });
    observer.observe(end.current);
    return () => observer.disconnect();
  }, [next, more]);
  const names = useMemo(() => [...new Set((runs || []).map((run) => run.name))].sort(), [runs]);
  const focus = (index) => {
    const run = runs?.[Math.max(0, Math.min(runs.length - 1, index))];
    if (!run) return;
    setAt(Math.max(0, Math.min(runs.length - 1, index)));
    document.querySelector(`a[data-run="${CSS.escape(run.run)}"]`)?.focus();
  };
  const inTable = (step) => (event) => {
    const isIn = document.activeElement?.dataset?.run;
    if (event.key.startsWith('Arrow') && !isIn && document.activeElement !== document.body) return false;
    focus(isIn ? at + step : step > 0 ? 0 : at);
    return true;
  };
  useKeys('Runs', [
    ['j', 'Next run', inTable(1)], ['k', 'Previous run', inTable(-1)],
    ['ArrowDown', '', inTable(1)], ['ArrowUp', '', inTable(-1)],
    ['r', 'Load again', load],
  ]);
  const chosen = new Set(status.split(',').filter(Boolean));
  const toggle = (word) => {
    const set = new Set(chosen);
    if (set.has(word)) set.delete(word);
    else set.add(word);
    setQuery({ status: STATUSES.filter((known) => set.has(known)).join(',') || null });
    setAt(0);
  };
  return html`<div class="page">
    <header class="page-head"><div><h1>Runs</h1><p class="muted">${shell.about.runs_dir}</p></div></header>
    <div class="filters">
      <label class="search"><${Icon} name="search" /><span class="sr">Pipeline name</span>
        <input type="search" list="names" placeholder="Pipeline name" value=${name} onInput=${(event) => setQuery({ name: event.target.value.trim() || null })} />
        <datalist id="names">${names.map((text) => html`<option key=${text} value=${text}></option>`)}</datalist></label>
      <div class="chips" role="group" aria-label="Status">
        ${STATUSES.map((word) => html`<button key=${word} class="chip" aria-pressed=${String(chosen.has(word))} onClick=${() => toggle(word)}><${State} state=${word} /></button>`)}
        ${(status || name) && html`<button class="quiet" onClick=${() => setQuery({ status: null, name: null })}>Clear</button>`}
      </div>
    </div>
    ${error && !runs && html`<${Failure} error=${error} retry=${load} />`}
    ${!runs && !error && html`<${Loading} lines=${10} label="Loading runs" />`}
    ${runs && !runs.length && (status || name
      ? html`<${Empty} title="No run matches">The name must be the whole name of a pipeline. <button class="link" onClick=${() => setQuery({ status: null, name: null })}>Show all runs</button>.<//>`
      : html`<${Empty} title="No runs yet">Start one from a <a href="#/definitions">definition</a>, write a pipeline in the <a href="#/editor">editor</a>, or run <code>orchestra run FILE.dot</code> in this folder; it appears here at once.<//>`)}
    ${runs && runs.length > 0 && html`<table class="table runs">
      <thead><tr><th scope="col">Status</th><th scope="col">Pipeline</th><th scope="col">Started</th><th scope="col" class="num">Duration</th><th scope="col" class="num">Stages</th><th scope="col" class="num">Cost</th></tr></thead>
      <tbody>${runs.map((run, index) => html`<${Row} key=${run.run} run=${run} selected=${index === at} onFocus=${() => setAt(index)} />`)}</tbody>
    </table>`}
    ${next && html`<p class="more" ref=${end}><button onClick=${loadMore} disabled=${more}>${more ? 'Loading…' : 'Show older runs'}</button></p>`}
    ${error && runs && html`<${Failure} error=${error} retry=${load} />`}
    <${Command} text=${cli('status', ...(runs?.length > LIMIT ? ['--limit', String(runs.length)] : []))} />
  </div>`;
}
