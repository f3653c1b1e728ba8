// The pipelines that can be started by name.
import { get } from '../api.js';
import { html } from '../html.js';
import { number } from '../format.js';
import { href } from '../router.js';
import { cli, pathOf } from '../store.js';
import { Command, Empty, Failure, Loading, Search, useLoad } from '../ui.js';

const KINDS = { compiled: 'compiled into the program', file: 'file', workflow: 'station workflow' };

/** The screen of all definitions. */
export function Definitions({ query }) {
  const list = useLoad((signal) => get('/api/v1/definitions', signal), []);
  const find = (query.find || '').toLowerCase();
  const all = list.data?.definitions;
  const rows = (all || []).filter((row) => row.name.toLowerCase().includes(find));
  const files = rows.filter((row) => row.kind === 'file').slice(0, 3).map((row) => pathOf(row.name));
  return html`<div class="page">
    <header class="page-head"><div><h1>Definitions</h1><p class="muted">Pipelines of this project</p></div><a class="button primary" href="#/editor">New pipeline</a></header>
    <div class="filters"><${Search} value=${query.find} name="find" label="Find a pipeline" /></div>
    ${list.error && html`<${Failure} error=${list.error} retry=${list.again} />`}
    ${!all && !list.error && html`<${Loading} label="Loading pipelines" />`}
    ${all && !rows.length && html`<${Empty} title=${all.length ? 'No pipeline matches' : 'No pipelines here'}>Write a <code>.dot</code> file in the folder of the server, or begin in the <a href="#/editor">editor</a>.<//>`}
    ${rows.length > 0 && html`<table class="table"><thead><tr><th scope="col">Name</th><th scope="col">Kind</th><th scope="col" class="num">Runs</th></tr></thead><tbody>
      ${rows.map((row) => html`<tr key=${row.name}><th scope="row"><a href=${href(['definitions', row.name])}>${row.name}</a></th><td>${KINDS[row.kind] || row.kind}</td><td class="num">${number(row.runs)}</td></tr>`)}
    </tbody></table>`}
    ${files.length > 0 && html`<${Command} text=${cli('check', ...files)} />`}
  </div>`;
}
