// The files of a run: prompts, responses, outputs and artifacts.
import { get, getBlob, getText, paths } from '../api.js';
import { html, useEffect, useMemo } from '../html.js';
import { count, size } from '../format.js';
import { setQuery } from '../router.js';
import { shell } from '../store.js';
import { Command, Empty, Failure, Icon, Loading, Search, VirtualList, useLoad } from '../ui.js';

/** Returns JSON with line breaks, and other text as it is. */
function readable(text, type) {
  if (type !== 'application/json') return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Larger texts are offered for download only. */
const MAX_PREVIEW = 400_000;

/** The server sends this part of a file. */
const MAX_SENT = 16 * 1024 * 1024;

/** Shows an image, whose bytes only requests of the page get. */
function Picture({ address, name }) {
  const found = useLoad(async (signal) => URL.createObjectURL(await getBlob(address, signal)), [address]);
  useEffect(() => () => found.data && URL.revokeObjectURL(found.data), [found.data]);
  if (found.error) return html`<${Failure} error=${found.error} retry=${found.again} />`;
  return found.data ? html`<img src=${found.data} alt=${name} />` : html`<${Loading} lines=${3} label="Loading the image" />`;
}

/** Saves a file under its name. */
async function save(address, name) {
  try {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(await getBlob(address));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  } catch (error) {
    shell.toast(error.message, 'error');
  }
}

function Preview({ id, file }) {
  const address = paths.file(id, file.id);
  const isImage = file.media_type.startsWith('image/');
  const isText = file.inline && !isImage && file.size <= MAX_PREVIEW;
  const text = useLoad((signal) => (isText ? getText(address, signal) : Promise.resolve('')), [address, isText, file.size]);
  return html`<section class="details preview" aria-label=${file.path}>
    <h2><code>${file.path}</code> <span class="muted">${size(file.size)}</span><span class="grow"></span>
      <button onClick=${() => save(address, file.path.split('/').pop())}><${Icon} name="down" />Download</button></h2>
    ${file.size > MAX_SENT && html`<p class="banner tone-warn">The server sends the first ${size(MAX_SENT)} of a file. The whole file is in the folder of the run.</p>`}
    ${isImage && html`<${Picture} address=${address} name=${file.path} />`}
    ${text.error && html`<${Failure} error=${text.error} retry=${text.again} />`}
    ${isText && text.data !== null && html`<pre class="text" tabindex="0">${readable(text.data, file.media_type) || '(empty)'}</pre>`}
    ${!isText && !isImage && html`<p class="muted">There is no preview of this file.</p>`}
  </section>`;
}

/** The tab Files. */
export function Files({ model, id, query }) {
  const files = useLoad((signal) => get(paths.files(id), signal), [id, model.run.stages, model.run.ended]);
  const find = (query.find || '').toLowerCase();
  const all = files.data?.files;
  const rows = useMemo(() => (all || []).filter((file) => file.path.toLowerCase().includes(find)), [all, find]);
  const at = rows.findIndex((file) => file.path === query.file);
  if (files.error && !all) return html`<${Failure} error=${files.error} retry=${files.again} />`;
  if (!all) return html`<${Loading} label="Loading files" />`;
  const line = (file) => html`<span class="clip grow"><code>${file.path}</code></span><span class="num muted">${size(file.size)}</span>`;
  return html`<div class="stack fill">
    <div class="filters"><${Search} value=${query.find} name="find" label="Find a file" /><span class="muted num" role="status">${count(rows.length, 'file')}</span></div>
    ${rows.length ? html`<${VirtualList} rows=${rows} height=${30} row=${line} keyOf=${(file) => file.path} selected=${at} onSelect=${(index) => setQuery({ file: rows[index].path })} label="Files" />`
      : html`<${Empty} title="No file matches">Remove the filter to see all files.<//>`}
    ${at >= 0 && html`<${Preview} id=${id} file=${rows[at]} key=${rows[at].path} />`}
    <${Command} text=${`ls ${model.run.folder}`} />
  </div>`;
}
