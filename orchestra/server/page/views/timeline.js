// The attempts of a run as bars on a time axis without its idle parts.
import { html, useMemo } from '../html.js';
import { clock, cost, count, duration, millis, short } from '../format.js';
import { setQuery } from '../router.js';
import { State, tone } from '../states.js';
import { Command, Empty, Fact, VirtualList, useTick } from '../ui.js';
import { Overview } from './overview.js';
import { scaleOf, spanOf } from './timeline-scale.js';

const ROW = 32;
/** A longer run is drawn in parts, each with its own time axis, so that its bars keep a visible width. */
const PART = 100;
const BRANCH_TONES = ['info', 'warn', 'ok', 'neutral', 'bad'];

const again = (row) => [row.visit > 1 && `visit ${row.visit}`, row.attempt > 1 && `try ${row.attempt}`, row.repeat && 'repeat'].filter(Boolean).join(', ');
const stateOf = (row) => (row.state === 'completed' && row.outcome ? row.outcome : row.state);
const toneOf = (row) => (row.state === 'completed' ? tone(row.outcome || 'success') : tone(row.state));

/** Returns the nodes at which people are asked: they are drawn as hexagons. */
function gatesOf(scene) {
  const isHexagon = (node) => node.figures.some((figure) => figure.form === 'polygon' && figure.points.length === 6);
  return new Set((scene?.nodes || []).filter(isHexagon).map((node) => node.id));
}

function Details({ row, model }) {
  const calls = model.toolCalls.list.filter((call) => call.node === row.node && call.branch === row.branch && (!row.ended || call.time <= row.ended) && call.time >= (row.started || ''));
  return html`<section class="details" aria-label="The selected attempt">
    <h2>${row.node} <${State} state=${stateOf(row)} />${row.will_retry && html`<span class="tag">is tried again</span>`}</h2>
    <dl class="facts-grid">
      <${Fact} name="Visit, attempt">${row.visit}, ${row.attempt}${row.repeat ? ' (repeated after an interruption)' : ''}<//>
      ${row.branch && html`<${Fact} name="Branch"><code>${row.branch}</code><//>`}
      <${Fact} name="Started">${clock(row.started, true)}<//>
      <${Fact} name="Duration">${duration(row.duration_ms)}<//>
      ${row.cost_micros > 0 && html`<${Fact} name="Cost">${cost(row.cost_micros)} · ${short(row.input_tokens)} in, ${short(row.output_tokens)} out<//>`}
      ${row.preferred_label && html`<${Fact} name="Preferred label">${row.preferred_label}<//>`}
    </dl>
    ${row.error && html`<pre class="text bad-text" tabindex="0">${row.error}</pre>`}
    ${row.notes && html`<pre class="text" tabindex="0">${row.notes}</pre>`}
    ${calls.length > 0 && html`<h3 class="minor">${count(calls.length, 'tool call')}</h3><ul class="plain">${calls.slice(-100).map((call) => html`<li key=${call.seq}><code>${call.tool}</code> <span class="muted">${duration(call.duration_ms)}</span>${call.error ? html` <span class="bad-text">${call.error}</span>` : ''}</li>`)}</ul>`}
  </section>`;
}

/** The tab Timeline. */
export function Timeline({ model, node, query, version }) {
  const isOpen = model.run.status === 'running' || model.run.status === 'accepted';
  useTick(1000, isOpen);
  const rows = useMemo(() => (node ? model.stages.list.filter((row) => row.node === node) : model.stages.list), [version, node]);
  const end = isOpen ? Date.now() : millis(model.run.updated) ?? Date.now();
  const gates = useMemo(() => gatesOf(model.scene), [model.scene]);
  const asking = new Set(model.questions.map((question) => question.parent_stage ? `${question.parent_stage}\n` : `${question.node}\n${question.branch || ''}`));
  const waits = (row) => gates.has(row.node) || (row.state === 'running' && asking.has(`${row.node}\n${row.branch || ''}`));
  const toneAt = (row) => (row.state === 'running' && waits(row) ? 'warn' : toneOf(row));
  const scale = useMemo(() => scaleOf(rows, end, waits), [rows, gates, isOpen ? Math.floor(end / 1000) : 0]);
  const hasWaits = useMemo(() => rows.some(waits), [rows, gates]);
  const isLong = rows.length > 2 * PART;
  const parts = useMemo(() => new Map(), [scale]);
  const scaleAt = (index) => {
    if (!isLong) return scale;
    const part = Math.floor(index / PART);
    if (!parts.has(part)) parts.set(part, scaleOf(rows.slice(part * PART, (part + 1) * PART), end, waits));
    return parts.get(part);
  };
  const branches = useMemo(() => new Map([...new Set(rows.map((row) => row.branch).filter(Boolean))].map((branch, at) => [branch, BRANCH_TONES[at % BRANCH_TONES.length]])), [rows]);
  const before = useMemo(() => new Map(rows.filter((row) => row.will_retry).map((row) => [[row.node, row.branch, row.visit, row.attempt + 1].join(), row])), [rows]);
  const chosen = query.at ? Number(query.at) : null;
  const selected = chosen === null ? -1 : rows.findIndex((row) => row.seq === chosen);
  if (!rows.length) return html`<div class="stack fill"><${Empty} title="No attempt yet">${node ? 'The run has not reached this node.' : 'The first stage begins soon.'}<//><${Command} text=${model.commands.status} /></div>`;
  const line = (row, index) => {
    const { place, gaps } = scaleAt(index);
    const [from, to] = spanOf(row, end).map(place);
    const earlier = row.attempt > 1 && before.get([row.node, row.branch, row.visit, row.attempt].join());
    const left = earlier ? place(millis(earlier.ended) ?? 0) : from;
    const isWait = waits(row);
    const isLive = row.state === 'running' && isOpen;
    const note = again(row);
    return html`<span class="lane-name" title=${row.branch ? `${row.node} in branch ${row.branch}` : row.node}>
        ${row.branch && html`<i class=${`branch-mark tone-${branches.get(row.branch)}`}></i>`}<span class="clip">${row.node}</span>${note && html`<span class="tag">${note}</span>`}
        <span class="sr">${stateOf(row)}${isWait ? ', waits for a person' : ''}${row.branch ? `, branch ${row.branch}` : ''}</span></span>
      <span class=${isLong && index % PART === 0 ? 'lane part' : 'lane'}>
        ${gaps.length < 40 && gaps.map((gap) => html`<i class="gap" style=${{ left: `${gap.at * 100}%` }} title=${`${duration(gap.gap)} in which no stage worked`}></i>`)}
        ${earlier && from > left && html`<i class="bar-span retry-wait" style=${{ left: `${left * 100}%`, width: `${(from - left) * 100}%` }} title="Waits before it is tried again"></i>`}
        <span class=${`bar-span tone-${toneAt(row)}${isWait ? ' waits' : ''}${isLive ? ' live' : ''}${to > 0.8 ? ' end' : ''}`}
          style=${{ left: `${Math.min(from * 100, 99.2)}%`, width: `${(to - from) * 100}%` }}>${row.cost_micros > 0 && html`<b>${cost(row.cost_micros)}</b>`}</span>
      </span>
      <span class="num muted lane-end">${duration(row.duration_ms ?? (isLive && row.started ? end - millis(row.started) : null))}</span>`;
  };
  const choose = (index) => setQuery({ at: rows[index].seq });
  return html`<div class="stack fill">
    <${Overview} rows=${rows} scale=${scale} end=${end} toneOf=${toneAt} waits=${waits} selected=${selected} onSelect=${choose} />
    <div class="legend"><span>${count(rows.length, 'attempt')}${isLong ? `; below, each ${PART} have their own time axis` : ''}</span>${branches.size > 0 && html`<span>${count(branches.size, 'branch', 'branches')}, one lane each</span>`}
      ${hasWaits && html`<span class="tone-neutral"><i class="waits"></i>waits for a person</span>`}${scale.gaps.length > 0 && html`<span title=${`Together ${duration(scale.gaps.reduce((sum, gap) => sum + gap.gap, 0))}`}>┆ idle and waiting time, squeezed</span>`}</div>
    <${VirtualList} rows=${rows} height=${ROW} row=${line} keyOf=${(row) => row.seq} selected=${selected} onSelect=${choose} label="Attempts" follow=${isOpen && selected < 0} />
    ${selected >= 0 ? html`<${Details} row=${rows[selected]} model=${model} />` : html`<p class="hint">Select an attempt to see its notes, its error and its tool calls.</p>`}
    <${Command} text=${model.commands.status} />
  </div>`;
}
