// The text of a version, saved as a new version.
import { html, useMemo, useRef, useState } from '../html.js';
import { GraphPane } from '../graph-pane.js';
import { go, href, setQuery } from '../router.js';
import { State } from '../states.js';
import { shell } from '../store.js';
import { Command, Empty, Failure } from '../ui.js';
import { CodeField, Verdict, select, useCheck } from './code.js';
import { Diagnostics, Source } from './start.js';
import { Refusal, SaveBar, VersionSelect, draft, keepDraft } from './workflow-parts.js';

const Chosen = ({ model }) => html`<${VersionSelect} workflow=${model.workflow} versions=${model.versions} value=${model.n} onChange=${(v) => setQuery({ v: v === model.workflow.latest ? null : v })} />`;

const Preview = ({ scene, isStale }) => html`<div class="half">${scene
  ? html`<${GraphPane} scene=${scene} label="Graph of this text" legend=${isStale ? html`<span class="warn-text">of the last text that could be read</span>` : null} />`
  : html`<${Empty} title="No graph">It appears as soon as the text can be read, unless it is too large.<//>`}</div>`;

const Found = ({ list, onJump }) => (list.length ? html`<${Diagnostics} list=${list} onJump=${onJump} />` : html`<p class="muted">The checks found neither errors nor warnings.</p>`);

/** The text of a version that cannot be changed here. */
function Shown({ model, details, command }) {
  const marked = new Set(details.diagnostics.map((one) => one.line));
  return html`<div class="split editor">
    <div class="split-left"><${Source} text=${details.dot} marked=${marked} /></div>
    <div class="split-right"><${Preview} scene=${details.scene} />
      <div class="panel scroll" role="region" aria-label="Diagnostics" tabindex="0">
        <div class="filters"><${Chosen} model=${model} /><${State} state=${details.valid ? 'done' : 'error'} word=${details.valid ? 'valid' : 'invalid'} /></div>
        <p class="muted">${shell.about.read_only ? 'This server accepts no changes.' : 'An archived workflow cannot be changed.'}</p>
        <${Found} list=${details.diagnostics} /><${Command} text=${command} /></div></div>
  </div>`;
}

function Edited({ model, details, query, command }) {
  const draftKey = `orchestra.dot.${model.workflow.id}.${model.n}`;
  const [source, setSource] = useState(() => draft(draftKey) ?? details.dot);
  const [note, setNote] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const field = useRef(null);
  const check = useCheck(source);
  const marked = useMemo(() => new Set(check.diagnostics.map((one) => one.line)), [check.diagnostics]);
  const change = (text) => {
    setSource(text);
    keepDraft(draftKey, text === details.dot ? null : text);
    // The changed version stays the shown one when somebody else adds a later one.
    if (text !== details.dot && !query.v) setQuery({ v: model.n });
  };
  const discard = () => {
    setError(null);
    change(details.dot);
  };
  const save = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await model.save({ dot: source, note: note.trim() });
      keepDraft(draftKey, null);
      go(href(['workflows', model.id, 'dot']), { replace: true });
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  const reload = async () => {
    await model.reload();
    setError(null);
  };
  const jump = (one) => select(field.current, one);
  return html`<form class="rows-form" onSubmit=${save}>
    <div class="split editor">
      <div class="split-left edit"><${CodeField} field=${field} source=${source} change=${change} marked=${marked} label=${`Version ${model.n} in DOT`} /></div>
      <div class="split-right"><${Preview} scene=${check.scene || (source === details.dot ? details.scene : null)} isStale=${check.isStale} />
        <div class="panel scroll" role="region" aria-label="Diagnostics" tabindex="0">
          <div class="filters"><${Chosen} model=${model} /><${Verdict} check=${check} /></div>
          ${check.error ? html`<${Failure} title="The text was not checked" error=${check.error} />` : html`<${Found} list=${check.diagnostics} onJump=${jump} />`}
          <${Command} text=${command} /></div></div>
    </div>
    ${error && html`<div class="save-error"><${Refusal} title="The version was not saved" error=${error} reload=${reload} isBrief /></div>`}
    <${SaveBar} model=${model} changed=${source !== details.dot} busy=${busy} note=${note} setNote=${setNote} discard=${discard} />
  </form>`;
}

/** The tab of the text. */
export const WorkflowDot = (props) => (props.model.canEdit ? html`<${Edited} ...${props} />` : html`<${Shown} ...${props} />`);
