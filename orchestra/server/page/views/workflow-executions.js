// The runs of a workflow, and the form that starts one.
import { get, paths, post } from '../api.js';
import { html, useEffect, useRef, useState } from '../html.js';
import { cost, count, duration, number, versionOf } from '../format.js';
import * as live from '../live.js';
import { go, href, setQuery } from '../router.js';
import { State } from '../states.js';
import { cli, cliOf, shell } from '../store.js';
import { Ago, Command, Empty, Failure, Loading, useTick } from '../ui.js';
import { elapsed } from './runs.js';
import { StartForm } from './start.js';
import { Ask, VersionSelect } from './workflow-parts.js';

const LIMIT = '50';
const OPEN = new Set(['accepted', 'running']);

/** The runs of a workflow, the latest first, while they change. */
function useExecutions(workflow) {
  const [state, setState] = useState({ runs: null, next: null, error: null, loading: false });
  const fail = (error) => setState((before) => ({ ...before, error, loading: false }));
  const page = (cursor) => get(paths.runs({ workflow: workflow.id, limit: LIMIT, ...(cursor ? { cursor } : {}) }));
  const load = () => page().then(({ runs, next }) => setState({ runs, next, error: null, loading: false }), fail);
  const more = () => {
    setState((before) => ({ ...before, loading: true }));
    page(state.next).then(({ runs, next }) => setState((before) => {
      const known = new Set(before.runs.map((run) => run.run));
      return { ...before, runs: [...before.runs, ...runs.filter((run) => !known.has(run.run))], next, loading: false };
    }), fail);
  };
  useEffect(() => {
    load();
    const stop = live.watch('runs');
    const offs = [
      live.on('open', load),
      live.on('runs', ({ runs: changed }) => setState((before) => {
        if (!before.runs) return before;
        const rows = new Map(before.runs.map((run) => [run.run, run]));
        const added = changed.filter((run) => !rows.has(run.run) && versionOf(run.file)?.workflow === workflow.name);
        changed.forEach((run) => rows.has(run.run) && rows.set(run.run, run));
        return { ...before, runs: [...added.reverse(), ...rows.values()] };
      })),
    ];
    return () => {
      stop();
      offs.forEach((off) => off());
    };
  }, [workflow.id, workflow.name]);
  return { ...state, load, more };
}

function Retry({ run, workflow, close }) {
  const [newer, setNewer] = useState(false);
  const at = run.failed_at || run.node;
  const began = versionOf(run.file)?.version;
  const act = async () => {
    const { id } = await post(paths.retryStation(run.run), { accept_changes: newer });
    shell.toast('The execution goes on');
    go(href(['runs', id]));
  };
  return html`<${Ask} title="Retry the station" label="Retry" act=${act} close=${close} command=${cliOf({ id: run.run, commands: {} }, 'resume', '--retry', ...(newer ? ['--accept-changes'] : []))}>
    <p>The execution goes on at ${at ? html`<code>${at}</code>` : 'the station that failed'}, under its own id. Its history and its cost stay.</p>
    ${workflow.active && workflow.active !== began && html`<label class="check"><input type="checkbox" checked=${newer} onChange=${(event) => setNewer(event.target.checked)} /><span>Go on with version ${workflow.active}<small>The execution began with version ${began}.</small></span></label>`}
  <//>`;
}

function Row({ run, canRetry, retry }) {
  const address = href(['runs', run.run]);
  const version = versionOf(run.file);
  return html`<tr onClick=${(event) => { if (!event.target.closest('a, button')) go(address); }}>
    <td class="c-state"><${State} state=${run.status} /></td>
    <th scope="row" class="c-name"><a href=${address}>${run.run}</a>
      ${run.simulated && html`<span class="tag">simulated</span>`}${run.unanswered_questions > 0 && html`<span class="tag hot">${count(run.unanswered_questions, 'question')}</span>`}
      <span class="sub">${version ? `Version ${version.version}` : run.file}${run.failed_at ? html` · <code>${run.failed_at}</code>` : ''}${run.status !== 'success' && run.reason ? ` · ${run.reason}` : ''}</span></th>
    <td class="c-time"><${Ago} time=${run.started} /></td><td class="num c-duration">${duration(elapsed(run))}</td>
    <td class="num c-stages">${number(run.stages)}${run.failures ? html`<span class="bad-text" title=${count(run.failures, 'failure')}> · ${number(run.failures)}✕</span>` : ''}</td>
    <td class="num c-cost">${cost(run.cost_micros)}</td>
    <td class="c-act">${run.status === 'fail' && canRetry && html`<button onClick=${retry} aria-label=${`Retry station of ${run.run}`}>Retry station</button>`}</td></tr>`;
}

/** The tab of executions. */
export function Executions({ model, query }) {
  const { workflow, versions, canEdit } = model;
  const { runs, next, error, loading, load, more } = useExecutions(workflow);
  const [asked, setAsked] = useState(null);
  const form = useRef(null);
  const n = Number(query.v) || workflow.active || workflow.latest;
  useTick(5000, !!runs?.some((run) => OPEN.has(run.status)));
  useEffect(() => {
    if (!query.start || !form.current) return;
    form.current.scrollIntoView({ block: 'nearest' });
    form.current.querySelector('textarea').focus();
    setQuery({ start: null });
  }, [query.start]);
  const start = (body) => post(paths.workflow(workflow.id, 'execute'), { ...body, version: n });
  const list = error && !runs ? html`<${Failure} error=${error} retry=${load} />` : !runs ? html`<${Loading} label="Loading the runs" />`
    : !runs.length ? html`<${Empty} title="No run yet">${canEdit ? 'Start one with the form, or with the command of the form in a terminal; it appears here at once.' : 'Runs of this workflow appear here.'}<//>`
      : html`<table class="table runs"><thead><tr><th scope="col">Status</th><th scope="col">Run</th><th scope="col">Started</th><th scope="col" class="num">Duration</th><th scope="col" class="num">Stages</th><th scope="col" class="num">Cost</th><th scope="col"><span class="sr">Actions</span></th></tr></thead>
        <tbody>${runs.map((run) => html`<${Row} key=${run.run} run=${run} canRetry=${canEdit} retry=${() => setAsked(run)} />`)}</tbody></table>`;
  return html`<div class=${canEdit ? 'executions with-form' : 'executions'}>
    <div class="panel scroll" tabindex="0" role="group" aria-label="Runs">${list}
      ${next && html`<p class="more"><button onClick=${more} disabled=${loading}>${loading ? 'Loading…' : 'Show older runs'}</button></p>`}
      ${error && runs && html`<${Failure} error=${error} retry=${load} />`}
      ${!canEdit && html`<${Command} text=${cli('run', `stations:${workflow.name}`)} />`}</div>
    ${canEdit && html`<section class="panel scroll" ref=${form} tabindex="0" aria-label="Start a run">
      <div class="filters"><${VersionSelect} workflow=${workflow} versions=${versions} value=${n} onChange=${(v) => setQuery({ v: v === workflow.active ? null : v })} />
        ${n !== workflow.active && html`<span class="warn-text">not the active version</span>`}</div>
      <${StartForm} start=${start} command=${cli('run', `stations:${workflow.name}@${n}`)} /></section>`}
    ${asked && html`<${Retry} run=${asked} workflow=${workflow} close=${() => setAsked(null)} />`}
  </div>`;
}
