// How the versions of a workflow ran: the heat of transitions, and the totals of stations.
import { get, paths } from '../api.js';
import { html, useMemo } from '../html.js';
import { cost, count, duration, number } from '../format.js';
import { edgeKey } from '../graph.js';
import { GraphPane } from '../graph-pane.js';
import { href, setQuery } from '../router.js';
import { State } from '../states.js';
import { cli } from '../store.js';
import { Bar, Command, Empty, Failure, Loading, useLoad } from '../ui.js';
import { VersionSelect } from './workflow-parts.js';

const nameOf = (row) => `${row.source} → ${row.target}`;

function Transitions({ rows }) {
  const most = Math.max(1, ...rows.map((row) => row.taken));
  const never = rows.filter((row) => !row.taken).length;
  return html`<section class="stack"><h2>Transitions</h2>
    <p>${never ? html`<strong>${count(never, 'transition')} never taken</strong>, dashed in the graph: no run has shown what happens there.` : 'Every transition was taken.'}</p>
    <table class="table"><thead><tr><th scope="col">Transition</th><th scope="col">Taken</th><th scope="col" class="num">Tested</th><th scope="col" class="num">Held</th></tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${row.ordinal}><th scope="row">${nameOf(row)}${row.label ? html` <span class="tag">${row.label}</span>` : ''}</th>
        <td>${row.taken ? html`<span class="with-bar">${number(row.taken)}<${Bar} share=${row.taken / most} /></span>` : html`<strong class="bad-text">never</strong>`}</td>
        <td class="num">${number(row.tested)}</td><td class="num">${number(row.held)}</td></tr>`)}</tbody></table></section>`;
}

const Stations = ({ rows }) => html`<section class="stack"><h2>Stations</h2>
  <table class="table"><thead><tr><th scope="col">Station</th><th scope="col" class="num">Visits</th><th scope="col" class="num">Failures</th><th scope="col" class="num">Mean time</th><th scope="col" class="num">Cost</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.node}><th scope="row">${row.node}</th>
      <td class="num">${row.visits ? number(row.visits) : html`<strong class="bad-text">never</strong>`}</td>
      <td class="num">${row.failures ? html`<span class="bad-text">${number(row.failures)} of ${number(row.attempts)}</span>` : '0'}</td>
      <td class="num">${row.attempts ? duration(row.duration_ms / row.attempts) : '–'}</td><td class="num">${row.attempts ? cost(row.cost_micros) : '–'}</td></tr>`)}</tbody></table></section>`;

/** Returns the state of a station in the graph: how its attempts ended. */
const stateOf = ({ visits, failures, attempts }) => (!visits ? 'pending' : !failures ? 'success' : failures < attempts ? 'warning' : 'fail');

/** The tab of analytics. */
export function Analytics({ model, query }) {
  const { workflow } = model;
  const found = useLoad((signal) => get(paths.workflow(workflow.id, 'analytics'), signal), [workflow.id, workflow.etag]);
  const all = found.data?.versions;
  const ran = all?.find((one) => one.runs > 0)?.version;
  const n = Number(query.v) || (all?.find((one) => one.version === workflow.active)?.runs ? workflow.active : ran) || workflow.active || workflow.latest;
  const totals = all?.find((one) => one.version === n);
  const version = useLoad((signal) => get(paths.workflow(workflow.id, 'versions', n), signal), [workflow.id, n]);
  const { looks, states } = useMemo(() => {
    if (!totals?.runs) return { looks: new Map(), states: new Map() };
    const most = Math.max(1, ...totals.transitions.map((row) => row.taken));
    return {
      looks: new Map(totals.transitions.map((row) => [edgeKey(row.source, row.edge), row.taken ? { look: 'taken', weight: row.taken / most } : { look: 'never' }])),
      states: new Map(totals.stations.map((row) => [row.node, { state: stateOf(row), visits: row.visits }])),
    };
  }, [totals]);
  const scene = version.data?.version === n ? version.data.scene : null;
  const summary = totals?.runs ? html`<ul class="chips">${Object.entries(totals.statuses).filter(([, runs]) => runs).map(([status, runs]) => html`<li key=${status} class="status-count"><${State} state=${status} /><strong class="num">${number(runs)}</strong></li>`)}</ul>
    <p class="muted">${count(totals.runs, 'run')}${totals.simulated ? `, ${number(totals.simulated)} of them simulated` : ''}. <a href=${href(['workflows', model.id, 'executions'])}>Show them</a></p>` : null;
  return html`<div class="split">
    <div class="split-left">${scene ? html`<${GraphPane} scene=${scene} looks=${looks} states=${states} label=${`Graph of version ${n}`} />`
      : version.error ? html`<${Failure} error=${version.error} retry=${version.again} />` : version.loading ? html`<${Loading} label="Loading the graph" />` : html`<${Empty} title="The graph is not drawn">It is too large, or the text cannot be read.<//>`}</div>
    <div class="split-right"><div class="panel scroll" tabindex="0" role="group" aria-label="Analytics">
      <div class="filters"><${VersionSelect} workflow=${workflow} versions=${model.versions} value=${n} onChange=${(v) => setQuery({ v })} /></div>
      ${found.error ? html`<${Failure} error=${found.error} retry=${found.again} />` : !all ? html`<${Loading} label="Loading the analytics" />`
        : !totals?.runs ? html`<${Empty} title=${`Version ${n} has not run yet`}>After its first run you see here which transitions were taken, and which never. <a href=${href(['workflows', model.id, 'executions'], { start: 1, v: n })}>Start a run</a>${ran && ran !== n ? html`, or look at <button class="link" onClick=${() => setQuery({ v: ran })}>version ${ran}</button>` : ''}.<//>`
          : html`${summary}<${Transitions} rows=${totals.transitions} /><${Stations} rows=${totals.stations} />`}
      <${Command} text=${cli('graph', `stations:${workflow.name}@${n}`)} /></div></div>
  </div>`;
}
