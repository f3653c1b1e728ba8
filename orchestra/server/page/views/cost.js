// What a run cost, by node and by attempt.
import { html, useMemo } from '../html.js';
import { cost, duration, number, short } from '../format.js';
import { href, setQuery } from '../router.js';
import { State } from '../states.js';
import { Bar, Command, Empty, Fact } from '../ui.js';

/** Attempts of a chosen node, the latest ones; attempts of all nodes, the dearest ones. */
const MOST = 200;
const TOP = 20;

/** The tab Cost. */
export function Cost({ model, node, version }) {
  const nodes = useMemo(() => [...model.nodes.values()].sort((a, b) => b.cost_micros - a.cost_micros || b.duration_ms - a.duration_ms), [version]);
  const attempts = useMemo(() => (node ? model.stages.list.filter((row) => row.node === node).slice(-MOST)
    : model.stages.list.filter((row) => row.cost_micros > 0).sort((a, b) => b.cost_micros - a.cost_micros).slice(0, TOP)), [version, node]);
  const { run } = model;
  if (!nodes.length) return html`<div class="stack fill"><${Empty} title="Nothing yet">Costs appear when stages have ended.<//><${Command} text=${model.commands.status} /></div>`;
  const most = Math.max(1, ...nodes.map((row) => row.cost_micros));
  const longest = Math.max(1, ...nodes.map((row) => row.duration_ms));
  return html`<div class="stack fill scroll">
    <dl class="facts-grid">
      <${Fact} name="Cost">${cost(run.cost_micros)}<//>
      <${Fact} name="Tokens">${number(run.input_tokens)} in, ${number(run.output_tokens)} out<//>
      <${Fact} name="Time in stages">${duration(nodes.reduce((sum, row) => sum + row.duration_ms, 0))}<//>
      <${Fact} name="Attempts">${number(run.stages)}, ${number(run.failures)} failed<//>
    </dl>
    <table class="table"><thead><tr><th scope="col">Node</th><th scope="col" class="num">Attempts</th><th scope="col">Cost</th><th scope="col" class="num">Tokens</th><th scope="col">Time</th></tr></thead><tbody>
      ${nodes.map((row) => html`<tr key=${row.node} class=${row.node === node ? 'selected' : ''}>
        <th scope="row"><button class="link" onClick=${() => setQuery({ node: row.node === node ? null : row.node })}>${row.node}</button> <${State} state=${row.state} /></th>
        <td class="num">${number(row.attempts)}${row.failures ? html`<span class="bad-text"> · ${row.failures}✕</span>` : ''}</td>
        <td><span class="with-bar">${cost(row.cost_micros)}<${Bar} share=${row.cost_micros / most} /></span></td>
        <td class="num">${short(row.input_tokens + row.output_tokens)}</td>
        <td><span class="with-bar">${duration(row.duration_ms)}<${Bar} share=${row.duration_ms / longest} tone="neutral" /></span></td></tr>`)}
    </tbody></table>
    ${attempts.length > 0 && html`<h2>${node ? `Attempts of ${node}` : 'Attempts that cost most'}</h2><table class="table"><thead><tr><th scope="col">Attempt</th><th scope="col">State</th><th scope="col" class="num">Cost</th><th scope="col" class="num">Tokens</th><th scope="col" class="num">Time</th></tr></thead><tbody>
      ${attempts.map((row) => html`<tr key=${row.seq}><th scope="row"><a href=${href(['runs', run.run, 'timeline'], { node, at: row.seq })}>${node ? '' : `${row.node}, `}visit ${row.visit}, attempt ${row.attempt}</a>${row.branch ? html` <code class="muted">${row.branch}</code>` : ''}</th><td><${State} state=${row.outcome || row.state} /></td>
        <td class="num">${cost(row.cost_micros)}</td><td class="num">${short(row.input_tokens + row.output_tokens)}</td><td class="num">${duration(row.duration_ms)}</td></tr>`)}</tbody></table>`}
    <${Command} text=${model.commands.status} />
  </div>`;
}
