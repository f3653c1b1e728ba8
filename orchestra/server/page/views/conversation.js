// What models were asked and what they say, while they say it.
import { get, getText, paths } from '../api.js';
import { html, useEffect, useMemo, useRef } from '../html.js';
import { clock, count, duration } from '../format.js';
import { href } from '../router.js';
import { State } from '../states.js';
import { Command, Empty, Failure, Loading, useLoad } from '../ui.js';

/** Attempts that are shown, the latest ones. */
const MOST = 60;
const PARTS = [['prompt.md', 'Prompt'], ['response.md', 'Response'], ['tool_output.txt', 'Output']];
const MAX_TEXT = 300_000;

const keyOf = (row) => [row.node, row.branch || '', row.visit, row.attempt].join('\n');

/** Returns the stored parts of a visit: the latest one lies in the folder of the node, earlier ones below `visits`. */
function partsOf(row, files, isLatest) {
  const folders = isLatest ? [`${row.node}/`, `${row.node}/visits/${row.visit}/`] : [`${row.node}/visits/${row.visit}/`];
  const fits = (file, name) => folders.some((folder) => file.path === folder + name || (row.branch && file.path.includes(row.branch) && file.path.endsWith(`/${folder}${name}`)));
  return PARTS.map(([name, label]) => [label, files.find((file) => fits(file, name))]).filter(([, file]) => file);
}

function Part({ id, label, file }) {
  const isShown = file.size <= MAX_TEXT;
  const text = useLoad((signal) => (isShown ? getText(paths.file(id, file.id), signal) : Promise.resolve('')), [file.id, file.size]);
  return html`<div class=${`said ${label.toLowerCase()}`}><h3 class="minor">${label} <a href=${href(['runs', id, 'files'], { file: file.path })}>${file.path}</a></h3>
    ${text.error ? html`<${Failure} error=${text.error} retry=${text.again} />` : text.data === null ? html`<${Loading} lines=${2} label="Loading text" />`
      : html`<pre class="text" tabindex="0">${isShown ? text.data || '(empty)' : 'This text is too long to show; the link leads to the file.'}</pre>`}</div>`;
}

/** Text that grows; it is kept in view unless somebody scrolled up. */
function Live({ text }) {
  const box = useRef(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const scrolled = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    isAtEnd.current = scrollTop + clientHeight >= scrollHeight - 24;
  };
  return html`<pre class="text" tabindex="0" ref=${box} onScroll=${scrolled}>${text}</pre>`;
}

function Talk({ row, model, id, parts, isOpen }) {
  const live = model.texts.get(keyOf(row));
  const asked = model.questions.find((question) => !question.child && question.node === row.node && (question.branch || null) === (row.branch || null));
  const isRunning = row.state === 'running';
  return html`<details class="talk" open=${isOpen}>
    <summary><h2>${row.node}</h2>${(row.visit > 1 || row.attempt > 1) && html`<span class="tag">visit ${row.visit}, attempt ${row.attempt}</span>`}${row.branch && html`<code class="muted">${row.branch}</code>`}
      <${State} state=${row.outcome || row.state} /><span class="muted num">${clock(row.started)}${row.duration_ms !== null ? ` · ${duration(row.duration_ms)}` : ''}</span></summary>
    ${parts.map(([label, file]) => (!(isRunning && live) || label === 'Prompt') && html`<${Part} key=${file.path} id=${id} label=${label} file=${file} />`)}
    ${live && (isRunning || !parts.some(([label]) => label === 'Response')) && html`<div class=${isRunning ? 'said live' : 'said'}><h3 class="minor">${isRunning ? 'Says now' : 'Said'}</h3><${Live} text=${live.text} /></div>`}
    ${row.error && html`<div class="said"><h3 class="minor">Error</h3><pre class="text bad-text" tabindex="0">${row.error}</pre></div>`}
    ${row.notes && !parts.some(([label]) => label === 'Response') && html`<div class="said"><h3 class="minor">Notes</h3><pre class="text" tabindex="0">${row.notes}</pre></div>`}
    ${asked && html`<p class="banner tone-warn">${asked.text.slice(0, 300)} <a href=${href(['gates'], { gate: `${id} ${asked.id}` })}>Answer</a></p>`}
  </details>`;
}

/** The tab Conversation. */
export function Conversation({ model, id, node, version }) {
  const files = useLoad((signal) => get(paths.files(id), signal), [id, model.run.stages, model.run.ended]);
  const list = files.data?.files;
  const talks = useMemo(() => {
    if (!list) return null;
    const latest = new Map(model.stages.list.map((row) => [row.node + (row.branch || ''), row.seq]));
    const shown = [];
    for (let at = model.stages.list.length - 1; at >= 0 && shown.length < MOST; at -= 1) {
      const row = model.stages.list[at];
      if (node && row.node !== node) continue;
      const parts = partsOf(row, list, latest.get(row.node + (row.branch || '')) === row.seq);
      if (parts.some(([label]) => label !== 'Output') || model.texts.has(keyOf(row)) || row.output_tokens > 0) shown.unshift({ row, parts });
    }
    return shown;
  }, [version, list, node, model.texts.size]);
  if (files.error && !list) return html`<${Failure} error=${files.error} retry=${files.again} />`;
  if (!talks) return html`<${Loading} label="Loading the conversation" />`;
  return html`<div class="stack fill scroll">
    ${!talks.length ? html`<${Empty} title="No model has spoken">${node ? 'This node has no prompt and no response.' : 'Prompts and responses appear here, each while it is written.'}<//>`
      : html`<p class="hint" role="status">${count(talks.length, 'stage attempt')}${talks.length === MOST ? ', the latest ones' : ''}</p>`}
    ${talks.map(({ row, parts }, at) => html`<${Talk} key=${row.seq} row=${row} parts=${parts} model=${model} id=${id} isOpen=${at >= talks.length - 3 || row.state === 'running'} />`)}
    <${Command} text=${model.commands.attach || model.commands.status} />
  </div>`;
}
