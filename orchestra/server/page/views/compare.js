// Another run beside this one, aligned to their first divergence.
import { get, paths } from '../api.js';
import { html } from '../html.js';
import { cost, count, date, duration, own, short, words } from '../format.js';
import { go, href, setQuery } from '../router.js';
import { State, StateIcon } from '../states.js';
import { cliOf } from '../store.js';
import { Command, Empty, Failure, Icon, Loading, VirtualList, useLoad } from '../ui.js';

/** Number of runs of the same pipeline, and of others, to choose from. */
const SAME = '200';
const OTHERS = '50';

/** Loads the runs to compare with, in groups: the source and the replays of this run, the same pipeline, others. */
function useCandidates(run) {
  const source = run.replayed_from?.run;
  const load = async (signal) => {
    const [same, all] = await Promise.all([{ name: run.name, limit: SAME }, { limit: OTHERS }].map((query) => get(paths.runs(query), signal)));
    const known = new Set([run.run]);
    const pick = (runs, wanted) => runs.filter((one) => !known.has(one.run) && wanted(one) && known.add(one.run));
    const runs = [...same.runs, ...all.runs];
    // The source may be older than all runs that are listed.
    return [
      ['Replayed from', pick([...runs, ...(source ? [{ run: source }] : [])], (one) => one.run === source)],
      ['Replays of this run', pick(runs, (one) => one.replayed_from?.run === run.run)],
      ['Same pipeline', pick(same.runs, () => true)],
      ['Other pipelines', pick(all.runs, () => true)],
    ].filter(([, group]) => group.length > 0);
  };
  return useLoad(load, [run.run, run.name, source]);
}

function Choice({ groups, other }) {
  const isListed = groups.some(([, runs]) => runs.some((run) => run.run === other));
  return html`<select aria-label="The other run" value=${other || ''} onChange=${(event) => setQuery({ with: event.target.value || null, step: null })}>
    <option value="" selected=${!other}>Choose a run…</option>
    ${other && !isListed && html`<option value=${other} selected>${other}</option>`}
    ${groups.map(([label, runs]) => html`<optgroup key=${label} label=${label}>
      ${runs.map((run) => html`<option key=${run.run} value=${run.run} selected=${run.run === other}>${[label === 'Other pipelines' && run.name, words(run.status), run.started && date(run.started), run.run].filter(Boolean).join(' · ')}</option>`)}
    </optgroup>`)}
  </select>`;
}

/** Returns the node of a step with its visit and attempt, each unless it is the first. */
function nameOf(step) {
  const later = [['visit', step.visit], ['attempt', step.attempt]].filter(([, number]) => number > 1);
  return [step.node, ...later.map(([word, number]) => `${word} ${number}`)].join(', ');
}

const stateOf = (step) => step.outcome || step.state;

/** Returns where a run goes from a step. */
function targetOf({ decision }) {
  if (!decision) return '';
  return decision.to || (decision.branches ? count(decision.branches, 'branch', 'branches') : 'no node');
}

/** Returns what differs first. */
function reasonOf({ kind, left, right }) {
  const name = left || right ? nameOf(left || right) : '';
  switch (kind) {
    case 'outcome': return left && right && stateOf(left) === stateOf(right) ? `${name} was answered or labelled differently` : `${name} ends differently`;
    case 'edge': return `${name} takes different edges`;
    case 'values': return `the conditions at ${name} read different values`;
    case 'node': return `one is at ${nameOf(left)} and the other at ${nameOf(right)}`;
    default: return left && right ? `one has not completed ${name}` : name ? `only one reaches ${name}` : 'they end differently';
  }
}

function Cell({ step }) {
  if (!step) return html`<span class="compare-step absent"><span class="sr">no step</span></span>`;
  const target = targetOf(step);
  return html`<span class="compare-step clip">${stateOf(step) && html`<${StateIcon} state=${stateOf(step)} /><span class="sr">${words(stateOf(step))} </span>`}
    <strong>${nameOf(step)}</strong>${target && html`<span class="muted"> → ${target}</span>`}${step.branch && html` <code class="muted">${step.branch}</code>`}</span>`;
}

/** Returns the tone, the sign and the word of a row. */
function markOf(row, isFirst) {
  if (row.same) return ['neutral', '=', 'same'];
  if (row.differs) return [isFirst ? 'bad' : 'warn', '≠', row.differs];
  return [isFirst ? 'bad' : 'info', row.left ? '◂' : '▸', row.left ? 'only here' : 'only there'];
}

function Mark({ row, isFirst }) {
  const [tone, sign, word] = markOf(row, isFirst);
  return html`<span class=${`compare-mark tone-${tone}`}><span aria-hidden="true">${sign}</span> ${word}${isFirst && html`<span class="sr">, the first divergence</span>`}</span>`;
}

/** A step with everything that was compared. */
function Side({ label, step, run }) {
  const { decision } = step || {};
  return html`<section class="compare-side" aria-label=${label}>
    <h3 class="minor">${label}</h3>
    ${step ? html`<p><strong>${nameOf(step)}</strong>${step.branch && html` <code class="muted">${step.branch}</code>`} ${stateOf(step) && html`<${State} state=${stateOf(step)} />`}</p>
      ${step.preferred_label && html`<p class="muted">label: ${step.preferred_label}</p>`}
      ${step.error && html`<pre class="text">${step.error}</pre>`}
      ${decision && html`<p>→ ${targetOf(step)} <span class="tag">${words(decision.rule)}</span></p>`}
      ${step.attempts > 0 && html`<p class="num muted">${duration(step.duration_ms)} · ${cost(step.cost_micros)}</p>`}
      <p class="filters">${step.attempts > 0 && html`<a href=${href(['runs', run.run, 'timeline'], { at: step.seq })}>Attempt</a>`}${decision && html`<a href=${href(['runs', run.run, 'decisions'], { decision: decision.seq })}>Decision</a>`}</p>`
    : html`<p class="muted">This run has no such step. It is ${words(run.status)}.</p>`}
  </section>`;
}

/** The values that the conditions of two decisions read. */
function Values({ row }) {
  const [left, right] = [row.left, row.right].map((step) => step?.decision?.values || {});
  const keys = [...new Set([...Object.keys(left), ...Object.keys(right)])].sort();
  if (!keys.length) return null;
  const shown = (value) => (value === undefined ? html`<span class="muted">not read</span>` : value === '' ? html`<em>empty</em>` : html`<code>${value}</code>`);
  return html`<table class="table"><thead><tr><th scope="col">Value</th><th scope="col">This run</th><th scope="col">Other run</th></tr></thead>
    <tbody>${keys.map((key) => html`<tr key=${key}><th scope="row"><code>${key}</code>${own(left, key) !== own(right, key) && html` <span class="tag changed">differs</span>`}</th><td>${shown(own(left, key))}</td><td>${shown(own(right, key))}</td></tr>`)}</tbody></table>`;
}

/** A run, with the totals of its steps from the divergence on. */
const Run = ({ label, run, isDivergent }) => html`<li><span>${label}</span> <a href=${href(['runs', run.run])}><code>${run.run}</code></a> <${State} state=${run.status} />
  ${isDivergent && html`<span class="num muted">from there on ${count(run.after.attempts, 'attempt')}, ${duration(run.after.duration_ms)}, ${cost(run.after.cost_micros)}, ${short(run.after.input_tokens + run.after.output_tokens)} tokens</span>`}</li>`;

function Result({ comparison, query }) {
  const { left, right, divergence, rows, common, more } = comparison;
  const first = divergence ? divergence.row : -1;
  const parts = divergence?.parts_at ?? -1;
  const asked = query.step === undefined ? NaN : Number(query.step);
  const at = rows[asked] ? asked : rows[first] ? first : rows.length - 1;
  const row = rows[at];
  const line = (entry, index) => html`<${Mark} row=${entry} isFirst=${index === first} /><${Cell} step=${entry.left} /><${Cell} step=${entry.right} />`;
  const select = (index) => setQuery({ step: index });
  return html`
    <p class=${`banner compare-banner tone-${divergence ? 'bad' : 'ok'}`} role="status"><strong>${divergence ? '≠' : '='} The runs agree for ${count(common, 'step')}${divergence ? `, then ${reasonOf(divergence)}` : ''}.</strong>
      ${parts > first && html` <button class="link" onClick=${() => select(parts)}>Show where the paths part</button>`}
      ${rows[first] && at !== first && html` <button class="link" onClick=${() => select(first)}>Show the divergence</button>`}
      ${more && html` <span>The runs are too long to compare all of their steps.</span>`}</p>
    <ul class="compare-runs"><${Run} label="This run" run=${left} isDivergent=${!!divergence} /><${Run} label="Other run" run=${right} isDivergent=${!!divergence} /></ul>
    ${comparison.same_pipeline === false && html`<details class="compare-pipelines"><summary>The pipelines differ</summary><pre class="text">${comparison.pipeline_changes || 'The changes are not known: a pipeline could not be loaded.'}</pre></details>`}
    <div class="compare-list">
      <div class="compare-head" aria-hidden="true"><span class="compare-mark">Step</span><span class="compare-step">This run</span><span class="compare-step">Other run</span></div>
      <${VirtualList} rows=${rows} height=${32} row=${line} keyOf=${(entry) => `${entry.left?.seq ?? ''}/${entry.right?.seq ?? ''}`} selected=${at} onSelect=${select} label="Steps of both runs" />
    </div>
    ${row && html`<section class="details" aria-label="The step" key=${at}>
      <h2>Step ${at + 1} <${Mark} row=${row} isFirst=${at === first} /></h2>
      <div class="compare-sides"><${Side} label="This run" step=${row.left} run=${left} /><${Side} label="Other run" step=${row.right} run=${right} /></div>
      <${Values} row=${row} />
    </section>`}`;
}

/** The tab Compare. */
export function Compare({ model, id, query }) {
  const other = query.with || null;
  const candidates = useCandidates(model.run);
  const found = useLoad(async (signal) => (other ? get(paths.compare(id, other), signal) : null), [id, other]);
  const groups = candidates.data || [];
  const comparison = found.data?.right.run === other && found.data.left.run === id ? found.data : null;
  return html`<div class="stack fill">
    <div class="filters"><span class="muted">with</span><${Choice} groups=${groups} other=${other} />
      ${other && html`<button class="quiet" onClick=${() => go(href(['runs', other, 'compare'], { with: id }))}><${Icon} name="swap" />Swap</button>
        <button class="quiet" onClick=${found.again}>Compare again</button>`}</div>
    ${candidates.error && html`<${Failure} title="The runs could not be listed" error=${candidates.error} retry=${candidates.again} />`}
    ${!other ? html`<${Empty} title="Compare with another run">${candidates.data && !groups.length ? 'There is no other run yet. Run the pipeline again, or replay this run from a checkpoint.' : 'Choose a run to see up to where both agree, where they diverge, and why. A run and its replay, or a good and a bad run of the same pipeline, tell the most.'}<//>`
      : found.error ? html`<${Failure} title=${found.error.status === 404 ? 'There is no such run' : 'The runs cannot be compared'} error=${found.error} retry=${found.again} />`
        : !comparison ? html`<${Loading} label="Comparing the runs" />` : html`<${Result} comparison=${comparison} query=${query} />`}
    <${Command} text=${other ? cliOf(model, 'compare', other) : ''} />
  </div>`;
}
