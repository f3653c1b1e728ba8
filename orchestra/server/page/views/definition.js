// One pipeline: its graph with the heat of its edges, its text, and the form that starts it.
import { get, paths, post } from '../api.js';
import { html, useEffect, useMemo } from '../html.js';
import { count, number } from '../format.js';
import { edgeKey } from '../graph.js';
import { GraphPane } from '../graph-pane.js';
import { useKeys } from '../keys.js';
import { go, href } from '../router.js';
import { cli, pathOf, shell } from '../store.js';
import { State } from '../states.js';
import { Bar, Command, Empty, Failure, Icon, Loading, Tabs, useLoad } from '../ui.js';
import { Diagnostics, Obstacle, Source, StartForm } from './start.js';

/** Returns the edges of a definition with their counts over all runs. */
function heatOf(data) {
  const counts = new Map(data.edges.map((one) => [edgeKey(one.from, one.edge), one]));
  return (data.scene?.edges || []).map((edge) => {
    const { taken = 0, tested = 0, held = 0 } = counts.get(edgeKey(edge.from, edge.number)) || {};
    return { ...edge, taken, tested, held };
  });
}

function Heat({ data, rows }) {
  const never = rows.filter((row) => row.taken === 0).length;
  const most = Math.max(1, ...rows.map((row) => row.taken));
  if (!data.runs) return html`<${Empty} title="No run yet">After the first run you see here which edges were taken, and which never.<//>`;
  return html`<p>${count(data.runs, 'run')}. ${never ? html`<strong>${count(never, 'edge')} never taken</strong>, dashed in the graph: no run has shown what happens there.` : 'Every edge was taken.'}</p>
    <table class="table"><thead><tr><th scope="col">Edge</th><th scope="col">Taken</th><th scope="col" class="num">Tested</th><th scope="col" class="num">Held</th></tr></thead><tbody>
      ${[...rows].sort((a, b) => a.taken - b.taken).map((row) => html`<tr key=${edgeKey(row.from, row.number)}><th scope="row">${row.from} → ${row.to}${row.caption ? html` <span class="tag">${row.caption.text.lines.join(' ')}</span>` : ''}</th>
        <td>${row.taken ? html`<span class="with-bar">${number(row.taken)}<${Bar} share=${row.taken / most} /></span>` : html`<strong class="bad-text">never</strong>`}</td><td class="num">${number(row.tested)}</td><td class="num">${number(row.held)}</td></tr>`)}
    </tbody></table>`;
}

const COMMANDS = { start: 'run', edges: 'graph', source: 'compile', diagnostics: 'check' };

/** The screen of one definition. */
export function DefinitionView({ name, tab: wanted, query }) {
  const found = useLoad((signal) => get(paths.definition(name), signal), [name]);
  const { data } = found;
  const tab = COMMANDS[wanted] ? wanted : 'start';
  const rows = useMemo(() => (data ? heatOf(data) : []), [data]);
  const looks = useMemo(() => {
    if (!data?.runs) return new Map();
    const most = Math.max(1, ...rows.map((row) => row.taken));
    return new Map(rows.map((row) => [edgeKey(row.from, row.number), row.taken ? { look: 'taken', weight: row.taken / most } : { look: 'never' }]));
  }, [rows]);
  useEffect(() => { document.title = `${name} · Orchestra`; }, [name]);
  const tabs = [['start', 'Start'], ['edges', 'Edges'], ['source', 'Source'], ['diagnostics', 'Diagnostics', data?.diagnostics.length]]
    .map(([id, label, n]) => ({ id, label, count: n, href: href(['definitions', name, id]) }));
  useKeys('Definition', tabs.map((entry, at) => [String(at + 1), entry.label, () => go(entry.href, { replace: true })]));
  if (found.error) return html`<div class="page"><${Failure} level="h1" error=${found.error} retry=${found.again} /><p><a href="#/definitions">All definitions</a></p></div>`;
  if (!data) return html`<div class="page"><${Loading} label="Loading the pipeline" /></div>`;
  const start = (body) => post(`${paths.definition(name)}/runs`, body);
  const isValid = data.valid ?? !data.diagnostics.some((one) => one.severity === 'error');
  const marked = new Set(data.diagnostics.map((one) => one.line));
  const file = pathOf(data.file || data.name);
  const diagnostics = data.diagnostics.length ? html`<${Diagnostics} list=${data.diagnostics} />` : html`<${Empty} title="Nothing to report">The checks found neither errors nor warnings.<//>`;
  return html`<div class="run">
    <header class="run-head"><div class="run-title"><a class="back" href="#/definitions" aria-label="All definitions"><${Icon} name="left" /></a>
      <h1>${data.name}</h1><${State} state=${isValid ? 'done' : 'error'} word=${isValid ? 'valid' : 'invalid'} />
      <div class="buttons"><a class="button" href=${href(['editor'], { from: data.name })}><${Icon} name="editor" />Open in the editor</a><a class="button" href=${href(['runs'], { name: data.scene?.title || data.name })}>Runs</a></div></div>
      ${data.goal && html`<p class="goal">${data.goal}</p>`}
      <ul class="facts"><li>${data.kind}</li><li><code>${data.file}</code></li>${data.nodes !== undefined && html`<li>${count(data.nodes, 'node')}</li>`}<li>${count(data.runs, 'run')}</li></ul></header>
    <div class="split">
      <div class="split-left">${data.scene ? html`<${GraphPane} scene=${data.scene} looks=${looks} label=${`Graph of ${data.name}`} />` : html`<${Empty} title="The graph is not drawn">It is too large, or the text cannot be read. The diagnostics say why.<//>`}</div>
      <div class="split-right"><${Tabs} tabs=${tabs} selected=${tab} label="Parts of the definition" />
        <div class="panel scroll" role="tabpanel" id="panel" aria-labelledby=${`tab-${tab}`} tabindex="0">
          ${tab === 'start' && (shell.about.read_only ? html`<${Empty} title="Read only">This server starts no runs. Use the command below.<//><${Command} text=${cli('run', file)} />`
            : html`<${StartForm} start=${start} inputs=${data.inputs} disabled=${!isValid} obstacle=${data.obstacle} command=${cli('run', file)} />`)}
          ${tab === 'start' && !isValid && diagnostics}
          ${tab === 'edges' && html`<${Heat} data=${data} rows=${rows} />`}
          ${tab === 'source' && html`<${Source} text=${data.source} marked=${marked} />`}
          ${tab === 'diagnostics' && diagnostics}
          ${tab === 'diagnostics' && data.obstacle && html`<${Obstacle} obstacle=${data.obstacle} />`}
          ${tab !== 'start' && html`<${Command} text=${cli(COMMANDS[tab], file)} />`}
        </div></div>
    </div>
  </div>`;
}
