// One run: the graph, and tabs beside it.
import { paths, post } from '../api.js';
import { html, useEffect, useMemo, useState } from '../html.js';
import { cost, count, date, duration, millis, number, short, versionOf } from '../format.js';
import { edgeKey } from '../graph.js';
import { GraphPane } from '../graph-pane.js';
import { useKeys } from '../keys.js';
import { lazy } from '../lazy.js';
import { go, href, setQuery } from '../router.js';
import { useRun } from '../run-model.js';
import { State } from '../states.js';
import { cliOf, shell, useSource } from '../store.js';
import { Command, Dialog, Failure, Icon, Loading, Tabs, useTick } from '../ui.js';
import { elapsed } from './runs.js';
import { Timeline } from './timeline.js';

const Decisions = lazy(() => import('./decisions.js'), 'Decisions');
const Ahead = lazy(() => import('./ahead.js'), 'Ahead');
const Log = lazy(() => import('./log.js'), 'Log');
const Context = lazy(() => import('./context.js'), 'Context');
const Files = lazy(() => import('./files.js'), 'Files');
const Conversation = lazy(() => import('./conversation.js'), 'Conversation');
const Cost = lazy(() => import('./cost.js'), 'Cost');
const Compare = lazy(() => import('./compare.js'), 'Compare');

const TABS = [
  ['timeline', 'Timeline', Timeline], ['decisions', 'Decisions', Decisions], ['ahead', 'Ahead', Ahead], ['log', 'Log', Log], ['context', 'Context', Context],
  ['files', 'Files', Files], ['conversation', 'Conversation', Conversation], ['cost', 'Cost', Cost], ['compare', 'Compare', Compare],
];
const OPEN = new Set(['accepted', 'running']);

/** Asks before an action, with a reason if the action takes one. */
function Confirm({ title, text, label, danger, reason: asks, options = [], act, close, command }) {
  const [reason, setReason] = useState('');
  const [chosen, setChosen] = useState({});
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const run = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await act({ ...chosen, ...(asks && reason ? { reason } : {}) });
      close();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} close=${close}><form onSubmit=${run}>
    <p>${text}</p>
    ${asks && html`<label class="field"><span>Reason (stored with the run)</span><input value=${reason} onInput=${(event) => setReason(event.target.value)} /></label>`}
    ${options.map(([key, words, help]) => html`<label class="check" key=${key}><input type="checkbox" checked=${!!chosen[key]} onChange=${(event) => setChosen({ ...chosen, [key]: event.target.checked })} /><span>${words}<small>${help}</small></span></label>`)}
    ${error && html`<${Failure} title=${error.code === 'changed' ? 'The pipeline has changed' : 'Refused'} error=${error} />`}
    <${Command} text=${command + (chosen.accept_changes ? ' --accept-changes' : '')} />
    <div class="buttons"><button type="button" onClick=${close}>Back</button><button class=${danger ? 'danger' : 'primary'} disabled=${busy} autofocus>${busy ? 'Working…' : label}</button></div>
  </form><//>`;
}

/** Returns a warning about questions whose time is up: their defaults are taken at once. */
function overdue(questions) {
  const late = questions.filter((one) => one.deadline && millis(one.deadline) < Date.now());
  return late.map((one) => ` The time to answer ${one.node} is up: ${one.default ? `the default ${one.default} is taken at once` : 'the gate is tried again'} unless you answer before you resume.`).join('');
}

function Actions({ model }) {
  const [open, setOpen] = useState(null);
  const { run } = model;
  const send = (action, done) => async (body) => {
    await post(paths.action(run.run, action), body);
    shell.toast(done);
  };
  const isOpen = OPEN.has(run.status);
  const kinds = {
    pause: { title: 'Pause the run', text: 'The present stages are interrupted; the run can be resumed from its last checkpoint.', label: 'Pause', reason: true, act: send('pause', 'The run pauses'), command: cliOf(model, 'pause') },
    cancel: { title: 'Cancel the run', text: 'The run ends and cannot be resumed. It can still be replayed from a checkpoint.', label: 'Cancel the run', danger: true, reason: true, act: send('cancel', 'The run is being cancelled'), command: cliOf(model, 'cancel') },
    resume: {
      title: run.status === 'fail' ? 'Retry the run' : 'Resume the run',
      text: run.status === 'fail' ? `The run goes on at ${run.node && run.code !== 'failure_end' ? run.node : 'the stage before its end'}. Its history and its cost stay.` : `The run goes on from its last checkpoint; an interrupted stage is repeated.${overdue(model.questions)}`,
      label: run.status === 'fail' ? 'Retry' : 'Resume',
      options: [['accept_changes', 'Accept changes', 'Resume although the pipeline differs from the one that began.']],
      act: (body) => send('resume', 'The run goes on')(run.status === 'fail' ? { ...body, retry: true } : body),
      command: run.status === 'fail' ? model.commands.retry || cliOf(model, 'resume', '--retry') : cliOf(model, 'resume'),
    },
  };
  if (shell.about.read_only) return null;
  return html`<div class="buttons">
    ${isOpen && html`<button onClick=${() => setOpen('pause')}>Pause</button>`}
    ${(run.status === 'paused' || run.status === 'interrupted') && html`<button class="primary" onClick=${() => setOpen('resume')}>Resume</button>`}
    ${run.status === 'fail' && html`<button class="primary" onClick=${() => setOpen('resume')}>Retry</button>`}
    ${(isOpen || run.status === 'paused' || run.status === 'interrupted') && html`<button onClick=${() => setOpen('cancel')}>Cancel</button>`}
    ${!isOpen && run.checkpoints > 0 && html`<a class="button" href=${href(['runs', run.run, 'context'], { replay: 1 })} title="Choose a checkpoint from which a new run goes on">Replay…</a>`}
    ${open && html`<${Confirm} ...${kinds[open]} close=${() => setOpen(null)} />`}
  </div>`;
}

const EXECUTED = { server: 'this server', process: 'another process' };

function Head({ model }) {
  const { run, questions } = model;
  useTick(1000, OPEN.has(run.status));
  const version = versionOf(run.file);
  const executed = model.executedBy ? EXECUTED[model.executedBy] + (model.owner?.pid ? ` (process ${model.owner.pid})` : '') : 'nobody';
  return html`<header class="run-head">
    <div class="run-title">
      <a class="back" href="#/runs" aria-label="All runs"><${Icon} name="left" /></a>
      <h1>${run.name || run.run}</h1><${State} state=${run.status} />
      ${run.simulated && html`<span class="tag">simulated</span>`}
      <${Actions} model=${model} />
    </div>
    ${run.goal && html`<p class="goal" title=${run.goal}>${run.goal}</p>`}
    <ul class="facts">
      <li><code title=${run.folder}>${run.run}</code></li>
      ${version && html`<li><a href=${href(['workflows', version.workflow], { v: version.version })}>${version.workflow}, version ${version.version}</a></li>`}
      <li title=${date(run.started)}>${duration(elapsed(run))}</li>
      <li>${count(run.stages, 'stage attempt')}${run.failures ? `, ${number(run.failures)} failed` : ''}</li>
      <li>${cost(run.cost_micros)} · ${short((run.input_tokens || 0) + (run.output_tokens || 0))} tokens</li>
      ${OPEN.has(run.status) && html`<li>executed by ${executed}</li>`}
      ${run.replayed_from && html`<li>replayed from <a href=${href(['runs', run.replayed_from.run, 'context'], { at: run.replayed_from.checkpoint })}>${run.replayed_from.checkpoint}</a>, <a href=${href(['runs', run.run, 'compare'], { with: run.replayed_from.run })}>compare</a></li>`}
    </ul>
    ${run.reason && run.status !== 'success' && html`<p class=${`banner tone-${run.status === 'fail' ? 'bad' : 'warn'}`}><strong>${run.status === 'fail' && run.code ? `${run.code}: ` : ''}</strong>${run.reason}${run.node ? html` <span class="muted">at</span> <code>${run.node}</code>` : ''}</p>`}
    ${questions.length > 0 && html`<p class="banner tone-warn"><strong>${count(questions.length, 'question')} open:</strong> ${questions[0].text.slice(0, 160)} <a href=${href(['gates'], { gate: `${run.run} ${questions[0].id}` })}>Answer</a></p>`}
    ${model.warnings.list.length > 0 && html`<details class="warnings"><summary>${count(model.warnings.list.length, 'warning')}</summary><ul>${model.warnings.list.slice(-50).map((row) => html`<li key=${row.seq}><code>${row.code}</code> ${row.message}${row.node ? html` <span class="muted">at ${row.node}</span>` : ''}</li>`)}</ul></details>`}
  </header>`;
}

/** Returns the looks of edges: taken ones, the one that leads to each running node, a chosen decision. */
function looksOf(model, chosen) {
  const looks = new Map();
  for (const { from, edge, taken } of model.edges) if (taken > 0) looks.set(edgeKey(from, edge), { look: 'taken' });
  if (OPEN.has(model.run?.status)) {
    const latest = new Map();
    const { list } = model.transitions;
    for (let at = list.length - 1; at >= 0 && at > list.length - 400; at -= 1) {
      const row = list[at];
      if (row.to && !latest.has(row.to)) latest.set(row.to, row);
    }
    for (const [node, row] of latest) {
      const state = model.nodes.get(node)?.state;
      if ((state === 'running' || state === 'retrying' || state === 'waiting') && row.edge !== undefined) looks.set(edgeKey(row.from, row.edge), { look: 'taken live' });
    }
  }
  if (chosen) {
    for (const test of chosen.tested || []) if (test.edge !== undefined && test.edge !== null) looks.set(edgeKey(chosen.from, test.edge), { look: 'tested' });
    if (chosen.edge !== undefined && chosen.edge !== null) looks.set(edgeKey(chosen.from, chosen.edge), { look: chosen.isWhatIf ? 'imagined' : 'chosen' });
  }
  return looks;
}

function NodeBar({ model, node, id }) {
  const totals = model.nodes.get(node);
  const name = model.scene?.nodes.find((entry) => entry.id === node)?.text.lines.join(' ');
  return html`<div class="node-bar" role="status">
    <strong>${name || node}</strong>${name && name !== node && html`<code>${node}</code>`}<${State} state=${totals?.state || 'pending'} />
    ${totals && html`<span class="num muted">${count(totals.visits, 'visit')} · ${count(totals.attempts, 'attempt')} · ${duration(totals.duration_ms)} · ${cost(totals.cost_micros)}</span>`}
    <span class="grow"></span>
    <a href=${href(['runs', id, 'log'], { node })}>Log</a><a href=${href(['runs', id, 'files'], { find: `${node}/` })}>Files</a>
    <button class="quiet square" aria-label="Show all nodes" title="Show all nodes" onClick=${() => setQuery({ node: null })}><${Icon} name="close" /></button>
  </div>`;
}

/** The screen of a run. */
export function RunView({ id, tab, query }) {
  const model = useSource(useRun(id));
  const [chosen, setChosen] = useState(null);
  const [unreachable, setUnreachable] = useState(null);
  const node = query.node || null;
  const states = useMemo(() => model.nodes, [model.nodes]);
  const looks = useMemo(() => looksOf(model, tab === 'decisions' ? chosen : null), [model.version, chosen, tab]);
  useEffect(() => {
    if (model.run) document.title = `${model.run.name} · ${model.run.status} · Orchestra`;
  }, [model.run?.name, model.run?.status]);
  const address = (name, extra = {}) => href(['runs', id, name], { node, ...extra });
  useKeys('Run', [
    ...TABS.map(([name, label], at) => [String(at + 1), label, () => go(address(name), { replace: true })]),
    ['Escape', 'Show all nodes', () => (node ? setQuery({ node: null }) : false)],
    ['f', 'Focus the graph', () => document.querySelector('.graph-box [tabindex="0"], .outline [tabindex="0"]')?.focus()],
  ]);
  const tabs = useMemo(() => TABS.map(([name, label]) => ({ id: name, label, href: address(name) })), [id, node]);
  if (model.error && !model.run) return html`<div class="page"><${Failure} level="h1" title=${model.error.status === 404 ? 'There is no such run' : undefined} error=${model.error} retry=${() => model.load()} /><p><a href="#/runs">All runs</a></p></div>`;
  if (!model.run) return html`<div class="page"><${Loading} lines=${8} label="Loading the run" /></div>`;
  const [, label, View] = TABS.find(([name]) => name === tab) || TABS[0];
  const select = (name) => setQuery({ node: name === node ? null : name });
  return html`<div class="run">
    <${Head} model=${model} />
    <div class="split">
      <div class="split-left">
        ${model.scene ? html`<${GraphPane} scene=${model.scene} states=${states} looks=${looks} faded=${tab === 'ahead' ? unreachable : null} selected=${node} onSelect=${select} label=${`Graph of ${model.run.name}`} />`
          : model.sceneError ? html`<${Failure} title="The graph cannot be drawn" error=${model.sceneError} retry=${() => model.loadScene()} />` : html`<${Loading} label="Loading the graph" />`}
      </div>
      <div class="split-right">
        <${Tabs} tabs=${tabs} selected=${tab} label="Parts of the run" />
        <div class="panel" role="tabpanel" id="panel" aria-label=${label} key=${tab}>
          ${node && html`<${NodeBar} model=${model} node=${node} id=${id} />`}
          ${model.loading && html`<p class="partial" role="status">Loading: ${number(model.stages.list.length)} of ${number(model.run.stages)} stage attempts</p>`}
          ${model.error && html`<${Failure} error=${model.error} retry=${() => model.load()} />`}
          <${View} model=${model} id=${id} node=${node} query=${query} choose=${setChosen} fade=${setUnreachable} version=${model.version} />
        </div>
      </div>
    </div>
  </div>`;
}
