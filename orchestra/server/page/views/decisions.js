// The transitions of a run: why this edge, and why not the others.
import { paths, post } from '../api.js';
import { html, useEffect, useMemo, useState } from '../html.js';
import { clock, own, words } from '../format.js';
import { setQuery } from '../router.js';
import { Command, Empty, Failure, VirtualList } from '../ui.js';

const RULES = {
  only_edge: 'It is the only edge that leaves the node.',
  condition: 'Its condition holds, and no edge with a higher weight or an earlier place has one that does.',
  first_match: 'It is the first edge whose condition holds.',
  preferred_label: 'Its label is the one that the stage preferred.',
  choice: 'It belongs to the choice that was taken at the gate.',
  suggested_next: 'The stage suggested this node as the next one.',
  weight: 'No condition decided, and it has the highest weight.',
  lexical: 'No condition, label or weight decided, so the name of the target did.',
  parallel: 'The node is a fan-out: each edge whose condition holds begins a branch.',
  join: 'The branches are over, and the run goes on behind their join.',
  retry_target: 'The stage failed, and its retry target is tried instead.',
  failure: 'The stage failed, and this is the edge for failures.',
  restart: 'The edge restarts the run.',
  max_visits: 'The node was visited as often as it may be.',
};

const reason = (rule) => RULES[rule] || `The rule ${words(rule)} decided.`;
/** Returns what was answered at the gate that a transition leaves, and by whom. */
function answerBefore(model, row) {
  const gate = model.stages.list.findLast((stage) => stage.node === row.from && stage.branch === row.branch && stage.ended && stage.seq < row.seq);
  if (!gate?.preferred_label) return '';
  return html` The answer: <strong>${gate.preferred_label}</strong>${gate.notes ? html` <span class="muted">(${gate.notes})</span>` : ''}`;
}

const targetOf = (row) => row.to || (row.branches ? `${row.branches} branches` : 'no node');

const Values = ({ values }) => Object.keys(values).length > 0 && html`<dl class="values">${Object.entries(values).map(([key, text]) => html`<div key=${key}><dt>${key}</dt><dd>${text === '' ? html`<em>empty</em>` : html`<code>${text}</code>`}</dd></div>`)}</dl>`;

function Tested({ test, taken }) {
  return html`<li class=${taken ? 'tested taken' : 'tested'}>
    <span class=${test.held ? 'verdict ok-text' : 'verdict bad-text'}>${test.held ? '✓ holds' : '✕ does not hold'}</span>
    <span><strong>to ${test.to}</strong> if <code>${test.condition}</code>${taken ? html` <span class="tag">taken</span>` : test.held ? html` <span class="muted">but another edge came first</span>` : ''}
      <${Values} values=${test.values} /></span>
  </li>`;
}

/** Every edge that leaves the node: tested ones with their values, the others with the reason. */
function Edges({ row, scene }) {
  const numbers = new Set(row.tested.map((test) => test.edge));
  const others = row.branches ? [] : (scene?.edges || []).filter((edge) => edge.from === row.from && !numbers.has(edge.number));
  return html`<ul class="tests">
    ${row.tested.map((test, at) => html`<${Tested} key=${at} test=${test} taken=${test.edge !== undefined && test.edge !== null && test.edge === row.edge} />`)}
    ${others.map((edge) => {
      const taken = edge.number === row.edge;
      const caption = edge.caption?.text.lines.join(' ');
      return html`<li key=${`other${edge.number}`} class=${taken ? 'tested taken' : 'tested'}><span class=${taken ? 'verdict ok-text' : 'verdict muted'}>${taken ? '✓ taken' : '– not taken'}</span>
        <span><strong>to ${edge.to}</strong>${caption ? html` <code>${caption}</code>` : ''} <span class="muted">${taken ? reason(row.rule) : row.rule === 'choice' ? 'Another choice was taken.' : `No condition of it was tested; the rule ${words(row.rule)} chose ${targetOf(row)}.`}</span></span></li>`;
    })}
  </ul>`;
}

/** The values that decide besides those of conditions. */
const FACTS = ['outcome', 'preferred_label'];

/** The form that asks how the router would decide with other values. */
function WhatIf({ row, id, choose, scene }) {
  const known = useMemo(() => new Map(row.tested.flatMap((test) => Object.entries(test.values))), [row]);
  const [values, setValues] = useState({});
  const [extra, setExtra] = useState('');
  const [result, setResult] = useState(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const keys = [...known.keys()];
  const labels = row.rule !== 'choice' && row.rule !== 'preferred_label' ? [] : [...new Set((scene?.edges || []).filter((edge) => edge.from === row.from && edge.caption).map((edge) => edge.caption.text.lines.join(' ')))];
  const show = (event) => {
    event.preventDefault();
    const changed = Object.fromEntries(Object.entries(values).filter(([key, text]) => key !== 'preferred_label' || text));
    const [key, ...rest] = extra.split('=');
    if (extra.trim() && (!rest.length || !key.trim())) {
      setError(Object.assign(new Error(`\`${extra.trim()}\` is not KEY=VALUE.`), { help: 'Write a key and its value, as in outcome=fail.' }));
      return;
    }
    if (rest.length) changed[key.trim()] = rest.join('=').trim();
    setBusy(true);
    setError(null);
    post(paths.whatIf(id, row.seq), { values: changed }).then((answer) => {
      const read = new Set([...FACTS, ...answer.tested.flatMap((test) => Object.keys(test.values))]);
      setResult({ ...answer, unread: Object.keys(changed).filter((one) => !read.has(one) && !read.has(`context.${one}`) && !read.has(one.replace(/^context\./, ''))) });
      choose({ ...answer, tested: [], isWhatIf: true });
    }, (failure) => {
      setResult(null);
      setError(failure);
    }).then(() => setBusy(false));
  };
  const reset = () => {
    setValues({});
    setExtra('');
    setResult(null);
    choose(row);
  };
  return html`<form class="what-if" onSubmit=${show} aria-label="What if">
    <h3 class="minor">What if?</h3>
    <div class="pairs">${keys.map((key) => html`<label key=${key}><code>${key}</code><input value=${own(values, key) ?? known.get(key)} onInput=${(event) => setValues({ ...values, [key]: event.target.value })} /></label>`)}
      ${labels.length > 0 && html`<label><code>preferred_label</code><select value=${values.preferred_label ?? ''} onChange=${(event) => setValues({ ...values, preferred_label: event.target.value })}>
        <option value="">as it was</option>${labels.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>`}
      <label><span class="muted">another value</span><input placeholder="outcome=fail or context.key=value" value=${extra} onInput=${(event) => setExtra(event.target.value)} /></label></div>
    <div class="buttons"><button class="primary" disabled=${busy}>${busy ? 'Asking…' : 'Decide with these values'}</button>${result && html`<button type="button" class="quiet" onClick=${reset}>Reset</button>`}</div>
    <div role="status">${result && html`<p class=${`banner tone-${result.same ? 'neutral' : 'info'}`}><strong>${result.same ? 'The same edge' : 'Another edge'}:</strong> ${result.to ? html`${result.from} → ${result.to}` : html`no edge of ${result.from} would be taken`} <span class="tag">${words(result.rule)}</span></p>
      ${result.unread.length > 0 && html`<p class="hint">Nothing that was decided here reads ${result.unread.map((one, at) => html`${at ? ', ' : ''}<code>${one}</code>`)}.</p>`}
      <ul class="tests">${result.tested.map((test, at) => html`<${Tested} key=${at} test=${test} taken=${test.edge === result.edge} />`)}</ul>`}</div>
    ${error && html`<${Failure} title="The router cannot decide" error=${error} />`}
  </form>`;
}

/** The tab Decisions. */
export function Decisions({ model, id, node, query, choose, version }) {
  const rows = useMemo(() => (node ? model.transitions.list.filter((row) => row.from === node || row.to === node) : model.transitions.list), [version, node]);
  const at = query.decision ? rows.findIndex((row) => row.seq === Number(query.decision)) : rows.length - 1;
  const row = rows[at];
  useEffect(() => {
    choose(row || null);
    return () => choose(null);
  }, [row?.seq]);
  if (!rows.length) return html`<div class="stack fill"><${Empty} title="No decision yet">A decision appears when a stage has ended and an edge is chosen.<//><${Command} text=${model.commands.status} /></div>`;
  const line = (entry) => html`<span class="num muted">${clock(entry.time)}</span>
    <span class="grow clip"><strong>${entry.from}</strong> → ${targetOf(entry)}${entry.branch ? html` <code class="muted">${entry.branch}</code>` : ''}</span>
    <span class="tag">${words(entry.rule)}</span>`;
  return html`<div class="stack fill">
    <${VirtualList} rows=${rows} height=${32} row=${line} keyOf=${(entry) => entry.seq} selected=${at} onSelect=${(index) => setQuery({ decision: rows[index].seq })} label="Decisions" follow=${!query.decision} />
    ${row && html`<section class="details tall" aria-label="The decision" key=${row.seq}>
      <h2>Why ${row.from} → ${targetOf(row)} <span class="tag">${words(row.rule)}</span></h2>
      <p>${reason(row.rule)}${row.rule === 'choice' ? answerBefore(model, row) : ''}</p>
      <${Edges} row=${row} scene=${model.scene} />
      ${!row.branches && row.rule !== 'join' && html`<${WhatIf} row=${row} id=${id} choose=${choose} scene=${model.scene} />`}
    </section>`}
    <${Command} text=${model.commands.status} />
  </div>`;
}
