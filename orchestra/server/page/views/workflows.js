// The list of station workflows, and the dialog that creates one.
import { get, paths, post } from '../api.js';
import { html, useMemo, useRef, useState } from '../html.js';
import { number } from '../format.js';
import { useKeys } from '../keys.js';
import { go, href, setQuery } from '../router.js';
import { State } from '../states.js';
import { cli, shell } from '../store.js';
import { Ago, Command, Dialog, Empty, Failure, Icon, Loading, Search, useLoad } from '../ui.js';
import { FIRST_ROWS } from '../station-rows.js';
import { CodeField, Verdict, select, useCheck } from './code.js';
import { Refusal, time } from './workflow-parts.js';
import { Diagnostics } from './start.js';

const EXAMPLE = `digraph parcels {
    graph [goal="Send an order", routing="first_match"]
    start [shape=Mdiamond, label="Start"]
    exit [shape=Msquare, label="Exit"]

    weigh [label="Weigh", prompt="Weigh the order.", output_keys="light"]
    letter [label="Letter", prompt="Write the address on an envelope."]
    parcel [label="Parcel", prompt="Write the address on a parcel."]

    start -> weigh
    weigh -> letter [condition_type="conditional", condition_value="light"]
    weigh -> parcel [condition_type="success"]
    letter -> exit
    parcel -> exit
}
`;

function DotField({ source, change }) {
  const field = useRef(null);
  const check = useCheck(source);
  const marked = useMemo(() => new Set(check.diagnostics.map((one) => one.line)), [check.diagnostics]);
  const read = async (event) => {
    const [file] = event.target.files;
    if (file) change(await file.text());
  };
  return html`<div class="dot-field edit"><${CodeField} field=${field} source=${source} change=${change} marked=${marked} label="First version in DOT" /></div>
    <div class="filters"><label class="field inline"><span>or read a file</span><input type="file" accept=".dot,.gv,text/vnd.graphviz" onChange=${read} /></label><span class="grow"></span><${Verdict} check=${check} /></div>
    ${check.diagnostics.length > 0 && html`<${Diagnostics} list=${check.diagnostics} onJump=${(one) => select(field.current, one)} />`}`;
}

function NewWorkflow({ form, close }) {
  const [name, setName] = useState('');
  const [dot, setDot] = useState(EXAMPLE);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const isRows = form === 'rows';
  const create = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const made = await post(paths.workflows(), { name: name.trim(), ...(isRows ? { rows: FIRST_ROWS } : { dot }) });
      shell.toast(`Created ${made.name}`);
      go(href(['workflows', made.id, isRows ? 'rows' : 'dot']));
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const choice = (id, label, help) => html`<label class="choice"><input type="radio" name="form" value=${id} checked=${form === id} onChange=${() => setQuery({ new: id })} /><span class="grow">${label}<small class="hint plain">${help}</small></span></label>`;
  return html`<${Dialog} title="New workflow" close=${close} wide><form onSubmit=${create}>
    <label class="field"><span>Name <b>required</b></span><input required autofocus maxlength="100" value=${name} onInput=${(event) => setName(event.target.value)} /></label>
    <fieldset class="choices two"><legend class="sr">First version</legend>
      ${choice('rows', 'Begin with rows', 'Three stations, which you then change in a table.')}
      ${choice('dot', 'Begin with text', 'A pipeline in DOT, written here or read from a file.')}</fieldset>
    ${!isRows && html`<${DotField} source=${dot} change=${setDot} />`}
    ${error && html`<${Refusal} title="The workflow was not created" error=${error} />`}
    <${Command} text=${cli('stations', 'import', 'FILE.dot', ...(name.trim() ? ['--name', name.trim()] : []))} />
    <div class="buttons"><button type="button" onClick=${close}>Back</button><button class="primary" disabled=${busy}>${busy ? 'Creating…' : 'Create'}</button></div>
  </form><//>`;
}

function Row({ row }) {
  return html`<tr><th scope="row"><a href=${href(['workflows', row.id])}>${row.name}</a>${row.archived_at ? html` <span class="tag">archived</span>` : ''}</th>
    <td>${row.active ? html`<${State} state="done" word=${`version ${row.active}`} />` : html`<span class="muted">none</span>`}</td>
    <td class="num">${row.latest}</td><td class="num">${number(row.runs)}</td><td class="c-time"><${Ago} time=${time(row.updated_at)} /></td></tr>`;
}

/** The screen of all workflows. */
export function Workflows({ query }) {
  const withArchived = query.archived === 'true';
  const { stations, read_only: isReadOnly } = shell.about;
  const list = useLoad((signal) => get(paths.workflows(withArchived), signal), [withArchived]);
  const find = (query.find || '').toLowerCase();
  const all = list.data?.workflows;
  const rows = (all || []).filter((row) => row.name.toLowerCase().includes(find));
  const create = () => setQuery({ new: 'rows' });
  useKeys('Workflows', [
    ['r', 'Load again', list.again],
    ...(stations && !isReadOnly ? [['n', 'New workflow', create]] : []),
  ]);
  if (!stations) {
    return html`<div class="page"><header class="page-head"><div><h1>Workflows</h1></div></header>
      <${Empty} title="This server has no station workflows">They are kept in a database, which the program names with <code>Server::stations</code>. The server of the command line keeps one in <code>.orchestra/stations.sqlite</code> of the folder in which it starts.<//>
      <${Command} text=${cli('serve')} /></div>`;
  }
  return html`<div class="page">
    <header class="page-head"><div><h1>Workflows</h1><p class="muted">Stations and transitions as rows of a database, in versions that never change</p></div>
      ${!isReadOnly && html`<button class="primary" onClick=${create}><${Icon} name="plus" />New workflow</button>`}</header>
    <div class="filters"><${Search} value=${query.find} name="find" label="Find a workflow" />
      <label class="check"><input type="checkbox" checked=${withArchived} onChange=${(event) => setQuery({ archived: event.target.checked ? 'true' : null })} /><span>Show archived workflows</span></label></div>
    ${list.error && html`<${Failure} error=${list.error} retry=${list.again} />`}
    ${!all && !list.error && html`<${Loading} label="Loading workflows" />`}
    ${all && !rows.length && (all.length ? html`<${Empty} title="No workflow matches">No name contains these letters. <button class="link" onClick=${() => setQuery({ find: null })}>Show all workflows</button>.<//>`
      : html`<${Empty} title="No workflows yet">${isReadOnly ? 'This server accepts no changes. Import a pipeline in a terminal; it appears here.' : html`<button class="link" onClick=${create}>Create one</button> here, or import a pipeline in a terminal with the command below; it appears here.`}<//>`)}
    ${rows.length > 0 && html`<table class="table"><thead><tr><th scope="col">Name</th><th scope="col">Active</th><th scope="col" class="num">Latest</th><th scope="col" class="num">Runs</th><th scope="col" class="c-time">Changed</th></tr></thead>
      <tbody>${rows.map((row) => html`<${Row} key=${row.id} row=${row} />`)}</tbody></table>`}
    <${Command} text=${rows.length ? cli('stations', 'list', ...(withArchived ? ['--all'] : [])) : cli('stations', 'import', 'FILE.dot')} />
    ${query.new && !isReadOnly && html`<${NewWorkflow} form=${query.new === 'dot' ? 'dot' : 'rows'} close=${() => setQuery({ new: null })} />`}
  </div>`;
}
