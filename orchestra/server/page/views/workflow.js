// One station workflow: its name and state, and tabs for its versions and runs.
import { change, get, paths } from '../api.js';
import { html, useEffect, useState } from '../html.js';
import { count } from '../format.js';
import { useKeys } from '../keys.js';
import { lazy } from '../lazy.js';
import { go, href, setQuery } from '../router.js';
import { State } from '../states.js';
import { cli, shell } from '../store.js';
import { Ago, Empty, Failure, Icon, Loading, Tabs, useLoad } from '../ui.js';
import { WorkflowRows } from './workflow-rows.js';
import { Ask, time } from './workflow-parts.js';

const WorkflowDot = lazy(() => import('./workflow-dot.js'), 'WorkflowDot');
const Versions = lazy(() => import('./workflow-versions.js'), 'Versions');
const Difference = lazy(() => import('./workflow-difference.js'), 'Difference');
const Analytics = lazy(() => import('./workflow-analytics.js'), 'Analytics');
const Executions = lazy(() => import('./workflow-executions.js'), 'Executions');

const TABS = [
  ['rows', 'Rows', WorkflowRows], ['dot', 'DOT', WorkflowDot], ['versions', 'Versions', Versions],
  ['difference', 'Difference', Difference], ['analytics', 'Analytics', Analytics], ['executions', 'Executions', Executions],
];
/** The tabs that show the content of one version. */
const OF_VERSION = new Set(['rows', 'dot']);

function Rename({ model, close }) {
  const [name, setName] = useState(model.workflow.name);
  const act = async () => {
    await model.change('PUT', [], { name: name.trim() });
    shell.toast('Renamed');
  };
  return html`<${Ask} title="Rename the workflow" label="Rename" act=${act} close=${close} reload=${model.reload}>
    <p>Its runs stay with it. The old name is kept for them, so no other workflow can take it.</p>
    <label class="field"><span>Name</span><input required autofocus maxlength="100" value=${name} onInput=${(event) => setName(event.target.value)} /></label>
  <//>`;
}

function Archive({ model, close }) {
  const act = async () => {
    await model.change('DELETE', []);
    shell.toast('Archived');
  };
  return html`<${Ask} title="Archive the workflow" label="Archive" danger act=${act} close=${close} reload=${model.reload}>
    <p><strong>${model.workflow.name}</strong> can then be neither changed nor run, and it cannot be taken out of the archive. Its versions and its runs stay readable, and runs in progress go on.</p>
  <//>`;
}

function Head({ model }) {
  const { workflow, versions, canEdit } = model;
  const [open, setOpen] = useState(null);
  return html`<header class="run-head">
    <div class="run-title"><a class="back" href="#/workflows" aria-label="All workflows"><${Icon} name="left" /></a>
      <h1>${workflow.name}</h1>
      ${workflow.archived_at ? html`<${State} state="skipped" word="archived" />` : workflow.active ? html`<${State} state="done" word=${`version ${workflow.active} is active`} />` : html`<${State} state="pending" word="no active version" />`}
      ${canEdit && html`<div class="buttons"><button onClick=${() => setOpen('rename')}>Rename</button><button onClick=${() => setOpen('archive')}>Archive</button>
        <a class="button primary" href=${href(['workflows', model.id, 'executions'], { start: 1 })}><${Icon} name="play" />Start a run</a></div>`}</div>
    <ul class="facts"><li>${count(versions.length, 'version')}</li><li>changed <${Ago} time=${time(workflow.updated_at)} /></li><li><code>stations:${workflow.name}</code></li></ul>
    ${open === 'rename' && html`<${Rename} model=${model} close=${() => setOpen(null)} />`}
    ${open === 'archive' && html`<${Archive} model=${model} close=${() => setOpen(null)} />`}
  </header>`;
}

/** Loads a workflow before its versions, so that its entity tag is never newer than what is shown. */
async function load(id, signal) {
  const workflow = await get(paths.workflow(id), signal);
  const { versions } = await get(paths.workflow(id, 'versions'), signal);
  return { workflow, versions };
}

/** The screen of one workflow. */
export function WorkflowView({ id, tab: wanted, query }) {
  const found = useLoad((signal) => load(id, signal), [id]);
  const tab = TABS.some(([name]) => name === wanted) ? wanted : 'rows';
  const { workflow, versions } = found.data || {};
  const n = Number(query.v) || workflow?.latest || 0;
  const isKnown = versions?.some(({ version }) => version === n);
  const version = useLoad(async (signal) => (isKnown && OF_VERSION.has(tab) ? get(paths.workflow(id, 'versions', n), signal) : null), [id, isKnown && n, OF_VERSION.has(tab)]);
  const address = (name) => href(['workflows', id, name], { v: query.v });
  const tabs = TABS.map(([name, label]) => ({ id: name, label, count: name === 'versions' ? versions?.length : 0, href: address(name) }));
  useEffect(() => {
    // A link may name the workflow; its id stays the same when it is renamed.
    if (workflow && workflow.id !== id) go(href(['workflows', workflow.id, tab], query), { replace: true });
  }, [workflow?.id]);
  useEffect(() => { document.title = `${workflow ? workflow.name : 'Workflow'} · Orchestra`; }, [workflow?.name]);
  useKeys('Workflow', tabs.map((entry, at) => [String(at + 1), entry.label, () => go(entry.href, { replace: true })]));
  if (found.error && !found.data) return html`<div class="page"><${Failure} level="h1" title=${found.error.status === 404 ? 'There is no such workflow' : undefined} error=${found.error} retry=${found.again} /><p><a href="#/workflows">All workflows</a></p></div>`;
  if (!found.data) return html`<div class="page"><${Loading} lines=${8} label="Loading the workflow" /></div>`;
  const reload = () => load(workflow.id).then(found.set, (error) => shell.toast(error.message, 'error'));
  const model = {
    id, workflow, versions, n, reload,
    canEdit: !shell.about.read_only && !workflow.archived_at,
    /** Changes the workflow that is shown, and shows the result. */
    async change(method, below, body) {
      const reply = await change(method, paths.workflow(workflow.id, ...below), workflow.etag, body);
      await reload();
      return reply;
    },
    /** Saves a new version, and shows it. */
    async save(body) {
      const { version: added, valid } = await model.change('POST', ['versions'], body);
      shell.toast(valid ? `Version ${added} saved. It is not active yet.` : `Version ${added} saved. It has errors.`);
      return added;
    },
  };
  const [, label, View] = TABS.find(([name]) => name === tab);
  const isReady = !OF_VERSION.has(tab) || version.data?.version === n;
  const commands = { rows: ['export', `${workflow.name}@${n}`], dot: ['export', `${workflow.name}@${n}`] };
  return html`<div class="run workflow">
    <${Head} model=${model} />
    <div class="parts"><${Tabs} tabs=${tabs} selected=${tab} label="Parts of the workflow" />
      <div class="part" role="tabpanel" id="panel" aria-label=${label} key=${tab}>
        ${!isKnown ? html`<div class="panel"><${Empty} title=${`There is no version ${n}`}>The latest is version ${workflow.latest}. <button class="link" onClick=${() => setQuery({ v: null })}>Show it</button>.<//></div>`
          : isReady ? html`<${View} key=${OF_VERSION.has(tab) ? n : tab} model=${model} details=${version.data} query=${query} command=${commands[tab] && cli('stations', ...commands[tab])} />`
            : version.error ? html`<div class="panel"><${Failure} error=${version.error} retry=${version.again} /></div>` : html`<div class="panel"><${Loading} label="Loading the version" /></div>`}
      </div></div>
  </div>`;
}
