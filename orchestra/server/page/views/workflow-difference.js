// What changes for a run between two versions.
import { get, paths } from '../api.js';
import { html } from '../html.js';
import { count } from '../format.js';
import { setQuery } from '../router.js';
import { cli } from '../store.js';
import { Command, Empty, Icon, Loading, useLoad } from '../ui.js';
import { Refusal, VersionSelect } from './workflow-parts.js';

const KINDS = { added: ['added', 'added'], removed: ['removed', 'removed'], changed: ['changed', 'changed'], reshaped: ['changed', 'changed in kind'], moved: ['changed', 'moved'] };
const GROUPS = [['graph', 'Workflow'], ['node', 'Stations'], ['edge', 'Transitions']];

const shown = (value) => (typeof value === 'string' ? value : JSON.stringify(value));

function Value({ attribute }) {
  const { name, old, new: now } = attribute;
  const has = (value) => value !== null && value !== undefined;
  return html`<div><dt>${name}</dt><dd>
    ${has(old) && html`<del><span class="sr">old: </span>${shown(old) || html`<em>empty</em>`}</del>`}
    ${has(old) && has(now) && html`<span aria-hidden="true"> → </span>`}
    ${has(now) && html`<ins><span class="sr">new: </span>${shown(now) || html`<em>empty</em>`}</ins>`}</dd></div>`;
}

function Change({ change }) {
  const [look, word] = KINDS[change.what] || ['changed', change.what];
  const label = change.label || change.attributes?.find(({ name }) => name === 'label');
  const subject = change.subject === 'node' ? html`<strong>${change.id}</strong> <span class="muted">${change.kind}</span>`
    : change.subject === 'edge' ? html`<strong>${change.from} → ${change.to}</strong>${typeof label === 'string' ? html` <span class="tag">${label}</span>` : ''}` : html`<strong>The workflow itself</strong>`;
  const values = change.attributes || [];
  const list = html`<dl class="old-new">${values.map((attribute) => html`<${Value} key=${attribute.name} attribute=${attribute} />`)}</dl>`;
  // Of a station that was added or removed, all values are known, most of them defaults.
  const isWhole = change.subject === 'node' && (change.what === 'added' || change.what === 'removed') && values.length > 0;
  return html`<li><div class="filters"><span class=${`tag ${look}`}>${word}</span><span>${subject}</span>
      ${change.renamed && html`<span class="muted">${change.what === 'added' ? `renamed from ${change.renamed}?` : `renamed to ${change.renamed}?`}</span>`}</div>
    ${isWhole ? html`<details><summary>${count(values.length, 'value')}</summary>${list}</details>` : values.length > 0 && list}</li>`;
}

const Changes = ({ list, level = 'h2' }) => GROUPS.map(([subject, title]) => {
  const some = list.filter((change) => change.subject === subject);
  return some.length > 0 && html`<section class="stack" key=${subject}><${level}>${title}<//><ul class="changes">${some.map((change, at) => html`<${Change} key=${at} change=${change} />`)}</ul></section>`;
});

/** The tab of differences. */
export function Difference({ model, query }) {
  const { workflow, versions } = model;
  const known = (text) => versions.find(({ version }) => version === Number(text))?.version;
  const to = known(query.to) || known(query.v) || workflow.latest;
  const from = known(query.from) || (workflow.active && workflow.active !== to ? workflow.active : versions.find(({ version }) => version < to)?.version) || to;
  const found = useLoad(async (signal) => (from === to ? { changes: [] } : get(paths.difference(workflow.id, from, to), signal)), [workflow.id, from, to]);
  const { changes = [], children = [] } = found.data || {};
  const total = changes.length + children.reduce((sum, child) => sum + child.changes.length, 0);
  return html`<div class="panel scroll" tabindex="0" role="group" aria-label="Difference">
    <div class="filters"><span class="muted">From</span><${VersionSelect} label="From version" workflow=${workflow} versions=${versions} value=${from} onChange=${(v) => setQuery({ from: v, to })} />
      <span class="muted">to</span><${VersionSelect} label="To version" workflow=${workflow} versions=${versions} value=${to} onChange=${(v) => setQuery({ from, to: v })} />
      <button class="quiet" onClick=${() => setQuery({ from: to, to: from })}><${Icon} name="swap" />Swap</button></div>
    ${found.error ? html`<${Refusal} title="The versions cannot be compared" error=${found.error} />`
      : found.loading || !found.data ? html`<${Loading} label="Comparing the versions" />`
        : versions.length < 2 ? html`<${Empty} title="There is only one version">Change the rows or the text and save them; then the two versions can be compared here.<//>`
          : !total ? html`<${Empty} title="No difference">For a run, version ${from} and version ${to} are the same${from === to ? '' : '; only their layout or comments may differ'}.<//>`
            : html`<p class="muted" role="status">${count(total, 'change')} for a run</p><${Changes} list=${changes} />
              ${children.map((child) => html`<section class="stack" key=${child.file}><h2>Pipeline <code>${child.file}</code></h2><${Changes} list=${child.changes} level="h3" /></section>`)}`}
    ${from !== to && html`<${Command} text=${cli('stations', 'diff', `${workflow.name}@${from}`, `${workflow.name}@${to}`)} />`}
  </div>`;
}
