// What may still happen in a run: the nodes that it can reach, the questions among them, and the limits that are left.
import { get, paths } from '../api.js';
import { html, useEffect, useMemo } from '../html.js';
import { cost, count, number, short } from '../format.js';
import { setQuery } from '../router.js';
import { State } from '../states.js';
import { cliOf } from '../store.js';
import { Command, Empty, Failure, Loading, useLoad } from '../ui.js';

const GATE = 'wait.human';
/** Fewer visits than this are worth a word. */
const FEW = 100;

function Limits({ budget, run }) {
  const tokens = (run.input_tokens || 0) + (run.output_tokens || 0);
  const spent = run.cost_micros || 0;
  const limits = [];
  if (budget.max_cost_micros !== undefined) limits.push([spent / budget.max_cost_micros, `${cost(Math.max(0, budget.max_cost_micros - spent))} of ${cost(budget.max_cost_micros)} left`]);
  if (budget.max_tokens !== undefined) limits.push([tokens / budget.max_tokens, `${short(Math.max(0, budget.max_tokens - tokens))} of ${short(budget.max_tokens)} tokens left`]);
  if (!limits.length) return html`<p class="muted">The run has no budget; <code>--max-cost</code> sets one.</p>`;
  return html`<ul class="limits">${limits.map(([used, text]) => html`<li key=${text}><meter min="0" max="1" high="0.8" optimum="0" value=${Math.min(1, used)} aria-label=${text}></meter> ${text}</li>`)}</ul>`;
}

/** Returns what the limit on the visits of a node means, if it is near. */
function limitOf(row) {
  if (row.visits_left === 0) return row.steps === 0 ? 'last visit' : 'no visit left: the run fails here';
  return row.visits_left < FEW ? `${count(row.visits_left, 'visit')} left` : '';
}

function Node({ row, model, node, isLimited }) {
  const isHere = row.steps === 0;
  return html`<tr class=${row.node === node ? 'selected' : ''}>
    <th scope="row"><button type="button" class="link" onClick=${() => setQuery({ node: row.node === node ? null : row.node })}>${row.label || row.node}</button>${row.label && row.label !== row.node && html` <code class="muted">${row.node}</code>`}
      ${row.kind === GATE && html`<span class="tag">question</span>`}${row.goal_gate && html`<span class="tag">must succeed</span>`}</th>
    <td>${isHere ? html`<${State} state=${model.nodes.get(row.node)?.state || 'pending'} />` : count(row.steps, 'step')}</td>
    <td class="num">${number(row.visits)}</td>
    ${isLimited && html`<td class=${row.visits_left === 0 && !isHere ? 'bad' : ''}>${limitOf(row)}</td>`}
  </tr>`;
}

/** The tab Ahead. */
export function Ahead({ model, id, node, fade }) {
  const { run } = model;
  const found = useLoad((signal) => get(paths.reachable(id), signal), [id, run.status, run.stages, model.transitions.list.length]);
  const faded = useMemo(() => (found.data ? new Set(found.data.unreachable) : null), [found.data]);
  useEffect(() => {
    fade(faded);
    return () => fade(null);
  }, [faded]);
  if (found.error) return html`<${Failure} error=${found.error} retry=${found.again} />`;
  if (!found.data) return html`<${Loading} label="Loading what may still happen" />`;
  const { nodes, unreachable, budget } = found.data;
  const command = html`<${Command} text=${cliOf(model, 'status')} />`;
  if (!nodes.length) return html`<div class="stack fill"><${Empty} title="The run is over">Nothing more happens in it. A replay from a checkpoint begins a new run.<//>${command}</div>`;
  const gates = nodes.filter((row) => row.kind === GATE);
  const isLimited = nodes.some(limitOf);
  const failed = run.status === 'fail';
  return html`<div class="stack fill scroll ahead">
    <p>${failed ? 'A retry would begin at ' : 'The run is at '}<strong>${nodes.filter((row) => row.steps === 0).map((row) => row.label || row.node).join(', ')}</strong>. ${failed ? 'From there it could' : 'It can still'} reach ${count(nodes.length, 'node')}${gates.length ? html`, and may ask at <strong>${gates.map((row) => row.label || row.node).join(', ')}</strong>` : ' and asks nobody'}.</p>
    <${Limits} budget=${budget} run=${run} />
    <table class="table"><thead><tr><th scope="col">Node</th><th scope="col">Away</th><th scope="col" class="num">Visits so far</th>${isLimited && html`<th scope="col">Limit</th>`}</tr></thead>
      <tbody>${nodes.map((row) => html`<${Node} key=${row.node} row=${row} model=${model} node=${node} isLimited=${isLimited} />`)}</tbody></table>
    ${unreachable.length > 0 && html`<p class="muted">Not reachable any more, and faded in the graph: ${unreachable.join(', ')}</p>`}
    ${command}
  </div>`;
}
