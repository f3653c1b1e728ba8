// The context of a run at a checkpoint, and what the last stage changed in it.
import { get, paths, post } from '../api.js';
import { html, useState } from '../html.js';
import { clock, count, own, value } from '../format.js';
import { go, href, setQuery } from '../router.js';
import { cliOf, shell } from '../store.js';
import { Command, Dialog, Empty, Failure, Icon, Loading, Search, useLoad } from '../ui.js';

/** Who wrote a key and who reads it. */
function Lineage({ name, context }) {
  const writer = own(context.writers, name);
  const readers = own(context.readers, name) || [];
  if (!writer && !readers.length) return null;
  return html`<span class="lineage">${writer && html`written by ${writer.node}${writer.visit > 1 ? `, visit ${writer.visit}` : ''}`}${writer && readers.length > 0 && ' · '}${readers.length > 0 && html`read by ${readers.map(({ from, to }) => `${from} → ${to}`).join(', ')}`}</span>`;
}

function Values({ context, before, find, onlyChanged }) {
  const now = context.values;
  const keys = [...new Set([...Object.keys(now), ...Object.keys(before || {})])].sort();
  const kind = (key) => {
    if (!before) return '';
    if (!Object.hasOwn(before, key)) return 'added';
    if (!Object.hasOwn(now, key)) return 'removed';
    return value(now[key]) === value(before[key]) ? '' : 'changed';
  };
  const shown = keys.filter((key) => key.toLowerCase().includes(find)).map((key) => [key, kind(key)]);
  const sorted = shown.filter(([, change]) => change || !onlyChanged).sort((a, b) => (b[1] ? 1 : 0) - (a[1] ? 1 : 0));
  if (!sorted.length) return html`<${Empty} title=${find ? 'No key matches' : 'Nothing changed'}>${find ? 'Remove the filter to see all keys.' : 'The stage before this checkpoint changed no value.'}<//>`;
  return html`<table class="table context"><thead><tr><th scope="col">Key</th><th scope="col">Value</th></tr></thead><tbody>
    ${sorted.map(([key, change]) => html`<tr key=${key} class=${change}>
      <th scope="row"><code>${key}</code>${change && html`<span class=${`tag ${change}`}>${change}</span>`}<${Lineage} name=${key} context=${context} /></th>
      <td>${change === 'changed' && html`<pre class="old">${value(before[key])}</pre>`}<pre class=${change === 'changed' ? 'new' : ''}>${change === 'removed' ? value(before[key]) : value(now[key])}</pre></td></tr>`)}
  </tbody></table>`;
}

/** The tab Context. */
export function Context({ model, id, query }) {
  const points = useLoad((signal) => get(paths.checkpoints(id), signal), [id, model.run.checkpoints]);
  const list = points.data?.checkpoints || [];
  const found = query.at ? list.findIndex((point) => point.checkpoint === query.at) : -1;
  const replayable = list.findLastIndex((one) => !one.at_end);
  // A finished run cannot go on from its end.
  const latest = query.replay && replayable >= 0 ? replayable : list.length - 1;
  const at = found >= 0 ? found : latest;
  const point = list[at];
  const context = useLoad((signal) => (point ? get(paths.context(id, point.checkpoint), signal) : Promise.resolve(null)), [id, point?.checkpoint]);
  const earlier = useLoad((signal) => (at > 0 ? get(paths.context(id, list[at - 1].checkpoint), signal) : Promise.resolve(null)), [id, at > 0 ? list[at - 1].checkpoint : '']);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const [isAsking, setAsking] = useState(false);
  const name = (entry) => entry.name || entry.node || 'start';
  if (points.error) return html`<${Failure} error=${points.error} retry=${points.again} />`;
  if (!points.data) return html`<${Loading} label="Loading checkpoints" />`;
  if (!point) return html`<div class="stack fill"><${Empty} title="No checkpoint yet">The first one is saved when the first stage has ended.<//><${Command} text=${cliOf(model, 'checkpoints')} /></div>`;
  const show = (index) => setQuery({ at: list[Math.max(0, Math.min(list.length - 1, index))].checkpoint });
  const replay = async () => {
    setBusy(true);
    try {
      const { id: started } = await post(paths.action(id, 'replay'), { checkpoint: point.checkpoint });
      shell.toast('A new run goes on from this checkpoint');
      setAsking(false);
      go(href(['runs', started]));
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  const canReplay = !point.at_end;
  const command = cliOf(model, 'replay', '--checkpoint', point.checkpoint);
  return html`<div class="stack fill scroll">
    <div class="scrub">
      <button class="quiet square" aria-label="Earlier checkpoint" disabled=${at === 0} onClick=${() => show(at - 1)}><${Icon} name="left" /></button>
      <input type="range" min="0" max=${list.length - 1} value=${at} aria-label="Checkpoint" aria-valuetext=${`${point.checkpoint}, after ${name(point)}`} onInput=${(event) => show(Number(event.target.value))} />
      <button class="quiet square" aria-label="Later checkpoint" disabled=${at === list.length - 1} onClick=${() => show(at + 1)}><${Icon} name="right" /></button>
    </div>
    <p class="scrub-now"><strong>after ${name(point)}</strong> <code>${point.checkpoint}</code> <span class="muted">${clock(point.time)} · ${at + 1} of ${count(list.length, 'checkpoint')}${point.next?.length ? ` · next: ${point.next.join(', ')}` : ''}</span>
      <span class="grow"></span>${!shell.about.read_only && html`<button disabled=${!canReplay} title=${canReplay ? '' : 'The run ended here: choose an earlier checkpoint'} onClick=${() => { setError(null); setAsking(true); }}>Replay from here…</button>`}</p>
    ${query.replay && html`<p class="hint">Choose the checkpoint from which a new run goes on, then press Replay from here. This run stays as it is.</p>`}
    <div class="filters"><${Search} value=${query.key} name="key" label="Find a key" /><label class="check"><input type="checkbox" checked=${!!query.changed} onChange=${(event) => setQuery({ changed: event.target.checked ? 1 : null })} /><span>Only what changed</span></label></div>
    ${context.error && html`<${Failure} error=${context.error} retry=${context.again} />`}
    ${context.data ? html`<${Values} context=${context.data} find=${(query.key || '').toLowerCase()} onlyChanged=${!!query.changed} before=${at > 0 ? earlier.data?.values : null} />` : !context.error && html`<${Loading} label="Loading the context" />`}
    <${Command} text=${command} />
    ${isAsking && html`<${Dialog} title="Replay from here" close=${() => setAsking(false)}>
      <p>A new run begins with the context after <strong>${name(point)}</strong>${point.next?.length ? html` and goes on at <strong>${point.next.join(', ')}</strong>` : ''}. This run is not changed.</p>
      ${error && html`<${Failure} title="The run was not replayed" error=${error} />`}
      <${Command} text=${command} />
      <div class="buttons"><button onClick=${() => setAsking(false)}>Back</button><button class="primary" disabled=${busy} onClick=${replay}>${busy ? 'Starting…' : 'Replay'}</button></div>
    <//>`}
  </div>`;
}
