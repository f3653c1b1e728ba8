// The form that answers a question. A key selects a choice, Enter confirms it.
import { paths, post } from '../api.js';
import { html, useEffect, useId, useRef, useState } from '../html.js';
import { words } from '../format.js';
import { cli, shell } from '../store.js';
import { Command, Failure } from '../ui.js';

/** Keys pressed within this time after the question appeared were not meant for it. */
const GUARD_MS = 350;

/** Returns the label of an option without its key. */
export const label = (option) => option.label.replace(/^\[[^\]]+\]\s*/, '') || option.label;

const unmet = ({ condition, values }) => {
  const list = Object.entries(values || {}).map(([key, value]) => (value === '' ? `${key} is empty` : `${key} is ${value}`));
  return `${condition} does not hold${list.length ? `: ${list.join(', ')}` : ''}`;
};

/** Options of a question that has none of its own. */
function optionsOf(gate) {
  const own = gate.options.filter((option) => !option.freeform);
  if (own.length || !['yes_no', 'confirm'].includes(gate.kind)) return own;
  return [{ key: 'Y', label: 'Yes' }, { key: 'N', label: 'No' }];
}

/**
 * Calls `sent` when an answer is on its way, and when it was taken or refused.
 * @param {{gate: any, sent?: (state: 'sending'|'taken'|'refused') => void}} props
 */
export function AnswerForm({ gate, sent = () => {} }) {
  const isMultiple = gate.kind === 'multi_select';
  const options = optionsOf(gate);
  const free = gate.options.find((option) => option.freeform);
  const hasText = !!free || gate.kind === 'free_text' || gate.chat;
  const [chosen, setChosen] = useState([]);
  const [text, setText] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const id = useId();
  const form = useRef(null);
  const area = useRef(null);
  const latest = useRef(null);

  const pick = (key) => {
    setError(null);
    setChosen(isMultiple ? (before) => (before.includes(key) ? before.filter((one) => one !== key) : [...before, key]) : [key]);
  };
  const isReady = !busy && (chosen.length > 0 || text.trim() !== '');
  const send = async (body) => {
    setBusy(true);
    setError(null);
    sent('sending');
    try {
      const { executed } = await post(paths.answer(gate.run, gate.id), body);
      shell.toast(executed ? 'Answered; the run goes on' : 'Answered; resume the run to go on');
      sent('taken');
    } catch (failure) {
      // The question disappears as soon as the page hears of the other answer, and an error in it would too.
      if (failure.code === 'answered') shell.toast(`${failure.message}.`, 'error');
      setError(failure);
      sent('refused');
    }
    setBusy(false);
  };
  const confirm = () => {
    if (!isReady) return;
    if (chosen.length) send(isMultiple ? { choices: chosen } : { choice: chosen[0] });
    else send({ text: text.trim() });
  };
  latest.current = { options, pick, confirm, chosen };

  useEffect(() => {
    const shown = performance.now();
    const pressed = (event) => {
      if (event.defaultPrevented || event.repeat || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (document.querySelector('dialog[open]') || event.timeStamp < shown + GUARD_MS) return;
      const { target } = event;
      const isField = /^(textarea|select)$/i.test(target.tagName) || (target.tagName === 'INPUT' && !/^(radio|checkbox)$/.test(target.type));
      if (isField) return;
      const now = latest.current;
      const option = now.options.find((one) => one.key.toLowerCase() === event.key.toLowerCase());
      if (option) {
        event.preventDefault();
        event.stopImmediatePropagation();
        now.pick(option.key);
        form.current?.querySelector(`input[value="${CSS.escape(option.key)}"]`)?.focus();
      } else if (event.key === 'Enter' && now.chosen.length && !target.closest('a, button, summary')) {
        event.preventDefault();
        now.confirm();
      }
    };
    addEventListener('keydown', pressed, true);
    return () => removeEventListener('keydown', pressed, true);
  }, []);

  const keyed = (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      confirm();
    }
  };
  const said = chosen.length ? chosen.join(',') : text.trim();
  return html`<form ref=${form} onSubmit=${(event) => { event.preventDefault(); confirm(); }}>
    ${options.length > 0 && html`<fieldset class="choices"><legend class="sr">Choices</legend>
      ${options.map((option) => html`<label class="choice" key=${option.key}>
        <input type=${isMultiple ? 'checkbox' : 'radio'} name=${id} value=${option.key} checked=${chosen.includes(option.key)} onChange=${() => pick(option.key)} />
        <kbd>${option.key}</kbd><span class="grow">${label(option)}</span>
        ${gate.default === option.key && html`<span class="tag">default</span>`}${option.to && html`<span class="muted">to ${option.to}</span>`}</label>`)}
    </fieldset>`}
    ${(gate.withheld || []).map((entry) => {
      const option = entry.option || entry;
      return html`<p class="withheld" key=${option.key}><span><kbd>${option.key}</kbd> ${label(option)} <span class="tag">not offered now</span></span>${entry.conditions.map((one, at) => html`<small key=${at}>${unmet(one)}</small>`)}</p>`;
    })}
    ${hasText && html`<label class="field"><span>${gate.chat ? 'Reply' : free ? `${words(label(free))}${free.to ? ` (to ${free.to})` : ''}` : 'Answer in your words'}</span>
      <textarea ref=${area} rows="3" value=${text} onKeyDown=${keyed} onInput=${(event) => { setText(event.target.value); if (event.target.value) setChosen([]); }}></textarea></label>`}
    ${error && html`<${Failure} title=${error.status === 0 ? 'The answer was not sent' : error.code === 'answered' ? 'It was answered before' : error.code === 'not_offered' ? 'This choice is not offered now' : 'The answer was refused'} error=${error} />`}
    <div class="buttons"><button class="primary" disabled=${!isReady}>${busy ? 'Sending…' : chosen.length ? `Confirm ${chosen.join(', ')}` : hasText && text.trim() ? 'Send' : 'Confirm'}</button>
      ${gate.chat && html`<button type="button" disabled=${busy} onClick=${() => send({ text: '/done' })}>End the conversation</button>`}
      ${gate.kind === 'free_text' && !gate.chat && html`<button type="button" class="quiet" disabled=${busy} onClick=${() => send({ skip: true })}>Skip</button>`}
      <span class="hint">${options.length ? 'A key selects a choice, Enter confirms it. ' : ''}${hasText ? 'Ctrl Enter sends the text.' : ''}</span></div>
    <${Command} text=${cli('answer', gate.run, gate.node, said || 'CHOICE')} />
  </form>`;
}
