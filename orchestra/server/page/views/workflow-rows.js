// The stations and transitions of a version as tables, saved as a new version.
import { html, useEffect, useMemo, useState } from '../html.js';
import { GraphPane } from '../graph-pane.js';
import { go, href, setQuery } from '../router.js';
import { State } from '../states.js';
import { shell } from '../store.js';
import { Command, Icon } from '../ui.js';
import { edited, moved, nameOf, newStation, newTransition, ofText, renamed, sent, textOf } from '../station-rows.js';
import { Diagnostics } from './start.js';
import { Refusal, SaveBar, VersionSelect, draft, keepDraft } from './workflow-parts.js';

const TYPES = ['codergen', 'wait.human', 'conditional', 'parallel', 'parallel.fan_in', 'tool', 'stack.manager_loop', 'subpipeline'];
const CONDITION_TYPES = ['', 'always', 'success', 'failure', 'conditional'];

/** Keeps the focus while rows change their order. */
function keepFocus() {
  const element = document.activeElement;
  requestAnimationFrame(() => element?.isConnected && element.focus());
}

function RowTools({ list, index, what, move, remove }) {
  return html`<td class="tools" data-label="Order"><span class="num muted">${index + 1}</span>
    <button type="button" class="quiet square" aria-label=${`Move ${what} up`} title="Up (Alt+↑)" disabled=${index === 0} onClick=${() => move(-1)}><${Icon} name="rise" /></button>
    <button type="button" class="quiet square" aria-label=${`Move ${what} down`} title="Down (Alt+↓)" disabled=${index === list.length - 1} onClick=${() => move(1)}><${Icon} name="sink" /></button>
    <button type="button" class="quiet square" aria-label=${`Remove ${what}`} title="Remove" onClick=${remove}><${Icon} name="close" /></button></td>`;
}

/** Returns the diagnostics of a row. */
const about = (list, row) => list.filter((one) => (row.node === undefined ? one.edge && one.edge[0] === row.source && one.edge[1] === row.target : !one.edge && one.node === row.node));

/** The diagnostics of a row, below it. */
const Notes = ({ list, span }) => list.length > 0 && html`<tr class="notes"><td colspan=${span}><${Diagnostics} list=${list} isLocated /></td></tr>`;

/**
 * A table of rows with fields.
 * @param {{caption: string, columns: [string, string, (row: any, index: number, what: string) => any][], rows: any[], change: (rows: any[]) => void,
 *   canEdit: boolean, diagnostics: any[], refused: string|number|null}} props
 */
function RowTable({ caption, columns, rows, change, canEdit, diagnostics, refused }) {
  const move = (index, step) => {
    keepFocus();
    change(moved(rows, index, step));
  };
  const keyed = (index) => (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step || !event.altKey || !canEdit) return;
    event.preventDefault();
    move(index, step);
  };
  return html`<table class="table rows"><caption class="sr">${caption}</caption>
    <thead><tr><th scope="col" class="tools">${canEdit ? 'Order' : '#'}</th>${columns.map(([id, label]) => html`<th scope="col" key=${id} class=${`r-${id}`}>${label}</th>`)}</tr></thead>
    <tbody>${rows.flatMap((row, index) => {
      const what = nameOf(row).replaceAll('`', '');
      const found = about(diagnostics, row);
      const isBad = refused === row.key || refused === nameOf(row) || found.some((one) => one.severity === 'error');
      return [html`<tr key=${row.key} class=${isBad ? 'bad' : ''} onKeyDown=${keyed(index)}>
        ${canEdit ? html`<${RowTools} list=${rows} index=${index} what=${what} move=${(step) => move(index, step)} remove=${() => change(rows.filter((_, at) => at !== index))} />` : html`<td class="tools num muted" data-label="Order">${index + 1}</td>`}
        ${columns.map(([id, label, cell]) => html`<td key=${id} class=${`r-${id}`} data-label=${label}>${cell(row, index, `${label} of ${what}`)}</td>`)}</tr>`,
      html`<${Notes} key=${`notes ${row.key}`} list=${found} span=${columns.length + 1} />`];
    })}</tbody></table>`;
}

/** The tab of rows. */
export function WorkflowRows({ model, details, query, command }) {
  const { workflow, n, canEdit } = model;
  const draftKey = `orchestra.rows.${workflow.id}.${n}`;
  const original = useMemo(() => edited(details.rows), [details]);
  const [rows, setRows] = useState(() => (canEdit && ofText(draft(draftKey) || '')) || original);
  const [note, setNote] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const text = textOf(rows);
  const changed = text !== textOf(original);
  const change = (next) => {
    setRows(next);
    const isSame = textOf(next) === textOf(original);
    keepDraft(draftKey, isSame ? null : textOf(next));
    // The changed version stays the shown one when somebody else adds a later one.
    if (!isSame && !query.v) setQuery({ v: n });
  };
  const discard = () => {
    setError(null);
    change(original);
  };
  const save = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await model.save({ rows: sent(rows), note: note.trim() });
      keepDraft(draftKey, null);
      go(href(['workflows', model.id, 'rows']), { replace: true });
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  const reload = async () => {
    await model.reload();
    setError(null);
  };
  useEffect(() => {
    if (error) document.querySelector('.rows tr.bad')?.scrollIntoView({ block: 'nearest' });
  }, [error]);
  const setStation = (index, values) => change({ ...rows, stations: rows.stations.map((row, at) => (at === index ? { ...row, ...values } : row)) });
  const setTransition = (index, values) => change({ ...rows, transitions: rows.transitions.map((row, at) => (at === index ? { ...row, ...values } : row)) });
  const refused = error && (error.row || /^(?:station|transition) `[^`]*`/.exec(error.message)?.[0] || null);
  // The diagnostics of the saved version say nothing about rows that were changed since.
  const diagnostics = error?.diagnostics?.length ? error.diagnostics : changed ? [] : details.diagnostics;
  const others = diagnostics.filter((one) => ![...rows.stations, ...rows.transitions].some((row) => about([one], row).length));
  const field = (set, name, { list, lines, mono } = {}) => (row, index, label) => (lines
    ? html`<textarea rows="1" class=${mono ? 'grows mono' : 'grows'} spellcheck=${mono ? 'false' : undefined} aria-label=${label} readonly=${!canEdit} value=${row[name]} onInput=${(event) => set(index, { [name]: event.target.value })}></textarea>`
    : html`<input class=${mono ? 'mono' : ''} list=${list} spellcheck=${mono ? 'false' : undefined} aria-label=${label} readonly=${!canEdit} value=${row[name]} onInput=${(event) => set(index, { [name]: event.target.value })} />`);
  const pick = (set, name, options) => (row, index, label) => html`<select aria-label=${label} disabled=${!canEdit} onChange=${(event) => set(index, { [name]: event.target.value })}>
    ${[...new Set([...options, row[name]])].map((option) => html`<option key=${option} value=${option} selected=${option === row[name]}>${option || '–'}</option>`)}</select>`;
  const nodes = ['', ...rows.stations.map((row) => row.node).filter(Boolean)];
  const isFirstMatch = /^routing=first_match$/m.test(rows.more);
  const hasConditions = !isFirstMatch || rows.transitions.some((row) => row.condition);
  const stationColumns = [
    ['id', 'Id', (row, index, label) => html`<input class="mono" required spellcheck="false" aria-label=${label} readonly=${!canEdit} value=${row.node} onInput=${(event) => change(renamed(rows, index, event.target.value))} />`],
    ['name', 'Name', field(setStation, 'name')],
    ['type', 'Type', field(setStation, 'type', { list: 'station-types', mono: true })],
    ['prompt', 'Prompt', field(setStation, 'prompt', { lines: true })],
    ['keys', 'Output keys', field(setStation, 'keys', { mono: true })],
    ['more', 'Other attributes', field(setStation, 'more', { lines: true, mono: true })],
  ];
  const transitionColumns = [
    ['from', 'Source', pick(setTransition, 'source', nodes)],
    ['to', 'Target', pick(setTransition, 'target', nodes)],
    ['kind', 'Condition type', pick(setTransition, 'type', CONDITION_TYPES)],
    ['value', 'Condition value', field(setTransition, 'value', { lines: true, mono: true })],
    ...(hasConditions ? [['condition', 'Condition', field(setTransition, 'condition', { lines: true, mono: true })]] : []),
    ['label', 'Label', field(setTransition, 'label')],
    ['revisit', 'Allow revisit', (row, index, label) => html`<input type="checkbox" aria-label=${label} disabled=${!canEdit} checked=${row.revisit} onChange=${(event) => setTransition(index, { revisit: event.target.checked })} />`],
    ['max', 'Max revisits', (row, index, label) => html`<input class="num" inputmode="numeric" aria-label=${label} readonly=${!canEdit} placeholder="–" value=${row.max} onInput=${(event) => setTransition(index, { max: event.target.value })} />`],
    ['more', 'Other attributes', field(setTransition, 'more', { lines: true, mono: true })],
  ];
  const addStation = () => {
    const taken = new Set(nodes);
    let number = rows.stations.length + 1;
    while (taken.has(`station_${number}`)) number += 1;
    change({ ...rows, stations: [...rows.stations, newStation(`station_${number}`)] });
  };
  const addTransition = () => change({ ...rows, transitions: [...rows.transitions, newTransition('')] });
  return html`<form class="rows-form" onSubmit=${save}>
    <div class="panel scroll" tabindex="0" role="group" aria-label="Rows" onKeyDown=${(event) => {
      // A key in a field must not save a version, which stays forever.
      if (event.key === 'Enter' && event.target.tagName === 'INPUT') event.preventDefault();
    }}>
      <div class="filters"><${VersionSelect} workflow=${workflow} versions=${model.versions} value=${n} onChange=${(v) => setQuery({ v: v === workflow.latest ? null : v })} />
        <${State} state=${details.valid ? 'done' : 'error'} word=${details.valid ? 'valid' : 'invalid'} />
        ${details.note && html`<span class="muted clip">${details.note}</span>`}</div>
      ${!details.valid && html`<p class="banner tone-warn">The text of this version has errors, and the rows leave out what could not be read. <a href=${href(['workflows', model.id, 'dot'], { v: query.v })}>Change it as text</a> to keep everything.</p>`}
      ${others.length > 0 && html`<${Diagnostics} list=${others} />`}
      <section class="stack"><h2>Stations</h2>
        <${RowTable} caption="Stations" columns=${stationColumns} rows=${rows.stations} canEdit=${canEdit} diagnostics=${diagnostics} refused=${refused} change=${(stations) => change({ ...rows, stations })} />
        ${canEdit && html`<div><button type="button" onClick=${addStation}><${Icon} name="plus" />Add a station</button></div>`}</section>
      <section class="stack"><h2>Transitions</h2>
        <p class="hint">${isFirstMatch ? 'The transitions of a station are tried in this order; the first whose condition holds is taken.' : 'Write routing=first_match below to take the first transition whose condition type and value hold.'}</p>
        <${RowTable} caption="Transitions" columns=${transitionColumns} rows=${rows.transitions} canEdit=${canEdit} diagnostics=${diagnostics} refused=${refused} change=${(transitions) => change({ ...rows, transitions })} />
        ${canEdit && html`<div><button type="button" onClick=${addTransition}><${Icon} name="plus" />Add a transition</button></div>`}</section>
      <section class="stack"><h2>Workflow</h2>
        <div class="graph-row"><label class="field"><span>Name of the graph</span><input readonly=${!canEdit} value=${rows.graph} onInput=${(event) => change({ ...rows, graph: event.target.value })} /></label>
          <label class="field"><span>Attributes, one name=value a line</span><textarea class="grows" rows="2" spellcheck="false" readonly=${!canEdit} value=${rows.more} onInput=${(event) => change({ ...rows, more: event.target.value })}></textarea></label></div></section>
      ${details.scene && html`<details class="scene"><summary>Graph of version ${n}</summary><div class="scene-box"><${GraphPane} scene=${details.scene} label=${`Graph of version ${n}`} /></div></details>`}
      <${Command} text=${command} />
      <datalist id="station-types">${TYPES.map((type) => html`<option key=${type} value=${type}></option>`)}</datalist>
    </div>
    ${error && html`<div class="save-error"><${Refusal} title="The version was not saved" error=${error} reload=${reload} /></div>`}
    ${canEdit ? html`<${SaveBar} model=${model} changed=${changed} busy=${busy} note=${note} setNote=${setNote} discard=${discard} />` : html`<p class="save-bar muted">${shell.about.read_only ? 'This server accepts no changes.' : 'An archived workflow cannot be changed.'}</p>`}
  </form>`;
}
