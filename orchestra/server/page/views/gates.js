// The questions of all runs that wait for an answer.
import { get, getText, paths } from '../api.js';
import { html, useRef, useState } from '../html.js';
import { clock, count, duration, millis } from '../format.js';
import { useKeys } from '../keys.js';
import { go, href, setQuery } from '../router.js';
import { cli, shell } from '../store.js';
import { State } from '../states.js';
import { Ago, Command, Empty, Failure, Loading, useLoad, useTick } from '../ui.js';
import { AnswerForm, label } from './answer.js';

/** Rows before the question that are read of a large run. */
const RECENT = 300;
const MAX_OUTPUT = 100_000;
const OUTPUTS = ['response.md', 'tool_output.txt', 'stdout.log'];

/** The stage of the run that asks, or whose child run asks. */
const stageOf = (gate) => gate.parent_stage || gate.node;
const keyOf = (gate) => `${gate.run} ${gate.id}`;

/** Yields the finished stage attempts that led to a node, the latest first: follows the transitions back. */
function* attemptsBefore({ transitions, stages }, node) {
  for (const came of transitions.toReversed()) {
    if (came.to !== node) continue;
    node = came.from;
    const attempt = stages.findLast((row) => row.ended && row.node === node && row.seq < came.seq);
    if (attempt) yield attempt;
  }
}

/**
 * Returns the goal, and the latest attempt before a question that has something to show, with its output. A decision
 * shows nothing, so it is skipped.
 */
async function evidenceOf(gate, signal) {
  let update = await get(paths.run(gate.run), signal);
  if (update.more) update = await get(paths.run(gate.run, Math.max(1, update.run.events - RECENT)), signal);
  const { files } = await get(paths.files(gate.run), signal);
  const outputOf = ({ node }) => OUTPUTS.map((name) => files.find((file) => file.path === `${node}/${name}`)).find((file) => file && file.size <= MAX_OUTPUT);
  const node = stageOf(gate);
  const attempts = [...attemptsBefore(update, node)];
  const before = attempts.find((attempt) => attempt.error || attempt.notes || outputOf(attempt))
    || attempts[0] || update.stages.findLast((row) => row.ended && row.node !== node);
  const file = before && outputOf(before);
  return { before, goal: gate.goal || update.run.goal, file, text: file ? await getText(paths.file(gate.run, file.id), signal) : '' };
}

function Evidence({ gate }) {
  const found = useLoad((signal) => evidenceOf(gate, signal), [gate.run, gate.id]);
  if (found.error) return html`<${Failure} title="The evidence could not be loaded" error=${found.error} retry=${found.again} />`;
  if (!found.data) return html`<${Loading} lines=${3} label="Loading what happened before" />`;
  const { before, goal, text, file } = found.data;
  const metadata = Object.entries(gate.metadata || {}).filter(([key]) => key !== 'chat');
  return html`<div class="evidence">
    ${goal && html`<p><span class="muted">Goal:</span> ${goal}</p>`}
    ${before && html`<h2>Before: ${before.node} <${State} state=${before.outcome || before.state} /> <span class="muted num">${duration(before.duration_ms)}</span><span class="grow"></span>
      ${file && html`<a href=${href(['runs', gate.run, 'files'], { file: file.path })}>${file.path}</a>`}</h2>
      ${before.error && html`<pre class="text bad-text" tabindex="0">${before.error}</pre>`}
      ${(text || before.notes) && html`<pre class="text" tabindex="0">${text || before.notes}</pre>`}`}
    ${metadata.length > 0 && html`<dl class="values">${metadata.map(([key, entry]) => html`<div key=${key}><dt>${key}</dt><dd><code>${typeof entry === 'string' ? entry : JSON.stringify(entry)}</code></dd></div>`)}</dl>`}
  </div>`;
}

const BY = { person: 'a person', prepared: 'an answer given in advance', automatic: 'an automatic approval', default: 'its default' };

/** Returns the event that answered a question, if it is a recent one. */
async function answerOf(run, id, signal) {
  const { run: { events: last } } = await get(paths.run(run), signal);
  const { events } = await get(paths.events(run, Math.max(0, last - RECENT)), signal);
  return events.filter((event) => event.event === 'InterviewCompleted' && event.question_id === id).pop() || null;
}

/** What became of the question that the address names. */
function Answered({ address, rest }) {
  const [run, id] = address.split(' ');
  const found = useLoad((signal) => (id ? answerOf(run, id, signal).catch(() => null) : Promise.resolve(null)), [address]);
  return html`<p class="banner tone-neutral" role="status">The question that this address names is answered${found.data ? html`: <strong>${found.data.answer}</strong>, by ${BY[found.data.answered_by] || found.data.answered_by}` : ''}. <a href=${href(['runs', run])}>Show its run</a>${rest ? '. Below is the oldest open question.' : ''}</p>`;
}

function Deadline({ gate }) {
  useTick(1000, !!gate.deadline);
  if (!gate.deadline) return null;
  const left = millis(gate.deadline) - Date.now();
  const option = gate.options.find((one) => one.key === gate.default);
  const chosen = option ? label(option) : gate.default;
  const then = gate.default ? `; then ${chosen} is taken` : '';
  const isExecuted = gate.status === 'running' || gate.status === 'accepted';
  const over = isExecuted ? 'The time is up; the default is taken' : `The time is up: when the run is resumed, ${gate.default ? `${chosen} is taken` : 'the gate is tried again'}, unless you answer before`;
  return html`<p class=${left < 60_000 ? 'deadline bad-text' : 'deadline'}>${left > 0 ? `${duration(Math.ceil(left / 1000) * 1000)} left, until ${clock(gate.deadline)}${then}` : over}</p>`;
}

function Gate({ gate, sent }) {
  return html`<article class="gate" aria-label=${`Question of ${gate.node} in ${gate.name}`}>
    <header><a href=${href(['runs', gate.run], { node: stageOf(gate) })}>${gate.name}</a>${gate.parent_stage && html`<code class="muted">${gate.parent_stage}</code>`}<code>${gate.node}</code>${gate.branch && html`<code class="muted">${gate.branch}</code>`}<${State} state=${gate.status} /><span class="grow"></span><span class="muted">asked <${Ago} time=${gate.asked} /></span></header>
    ${gate.status !== 'running' && gate.status !== 'accepted' && html`<p class="banner tone-warn">Nobody executes this run. The answer is kept; <a href=${href(['runs', gate.run])}>resume the run</a> to go on.</p>`}
    <p class="question">${gate.text}</p>
    <${Deadline} gate=${gate} />
    <${Evidence} gate=${gate} />
    ${shell.about.read_only ? html`<p class="muted">This server is read only.</p>` : html`<${AnswerForm} gate=${gate} sent=${sent} />`}
  </article>`;
}

/** The screen of all open questions. */
export function Gates({ query }) {
  const { gates } = shell;
  const list = useRef(null);
  // The question that is being answered here is not one that the address names in vain.
  const [own, setOwn] = useState(null);
  const shown = gates?.find((gate) => keyOf(gate) === query.gate) || gates?.[0];
  const gone = query.gate && query.gate !== own && gates && !gates.some((gate) => keyOf(gate) === query.gate);
  const at = gates ? gates.indexOf(shown) : -1;
  const step = (by) => () => {
    const next = gates?.[at + by];
    if (next) setQuery({ gate: keyOf(next) });
  };
  const sent = (key) => (state) => {
    setOwn(state === 'refused' ? null : key);
    if (state === 'taken' && query.gate === key) setQuery({ gate: null });
  };
  useKeys('Gates', [['n', 'Next question', step(1)], ['p', 'Previous question', step(-1)]]);
  const move = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !gates[at + by]) return;
    event.preventDefault();
    go(href(['gates'], { gate: keyOf(gates[at + by]) }), { replace: true });
    list.current.children[at + by]?.querySelector('a').focus();
  };
  return html`<div class="page">
    <header class="page-head"><div><h1>Gates</h1><p class="muted" role="status">${gates ? `${count(gates.length, 'question')} open` : ''}</p></div></header>
    ${gone && html`<${Answered} key=${query.gate} address=${query.gate} rest=${gates.length > 0} />`}
    ${!gates && html`<${Loading} label="Loading questions" />`}
    ${gates && !gates.length && html`<${Empty} title="Nothing waits for you">A run that reaches a human gate appears here at once. <a href="#/runs?status=running">Runs in progress</a><//><${Command} text=${cli('status')} />`}
    ${shown && html`<div class="inbox">
      <ul class="gate-list" ref=${list} onKeyDown=${move} aria-label="Open questions">
        ${gates.map((gate) => html`<li key=${keyOf(gate)}><a href=${href(['gates'], { gate: keyOf(gate) })} aria-current=${gate === shown ? 'true' : undefined} tabindex=${gate === shown ? 0 : -1}>
          <span class="clip">${gate.text}</span><small><span class="clip">${gate.name} · ${gate.node}</span><${Ago} time=${gate.asked} /></small></a></li>`)}
      </ul>
      <${Gate} key=${keyOf(shown)} gate=${shown} sent=${sent(keyOf(shown))} />
    </div>`}
  </div>`;
}
