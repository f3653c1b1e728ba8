// Parts that the screens of workflows share.
import { html, useState } from '../html.js';
import { href } from '../router.js';
import { Command, Dialog, Failure, Select } from '../ui.js';
import { Diagnostics } from './start.js';

/** Returns a time in milliseconds as the other views take it. @param {number} ms */
export const time = (ms) => new Date(ms).toISOString();

/** Returns a stored draft. @param {string} key */
export function draft(key) {
  try {
    return sessionStorage.getItem(key);
  } catch {
    return null;
  }
}

/** Stores a draft, which lasts as long as the tab; `null` removes it. */
export function keepDraft(key, text) {
  try {
    if (text === null) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, text);
  } catch {
    // It then lasts as long as the screen.
  }
}

/** Returns the sentence and the entries of a message such as `the version runs commands: line 3: …; line 5: …`. */
function listed(message) {
  const at = message.indexOf(': line ');
  return at < 0 ? [message, []] : [message.slice(0, at + 1), message.slice(at + 2).split(/; (?=line \d)/)];
}

/** Why a write was refused, with what to do next; without the diagnostics if they stand elsewhere. */
export function Refusal({ error, title = 'Refused', reload, isBrief }) {
  if (error.status === 412) {
    return html`<div class="failure" role="alert"><h2>Somebody changed this workflow meanwhile</h2>
      <p>Nothing was saved, and what you typed is kept. Load the new state, look at what has changed, and repeat the change.</p>
      <button type="button" onClick=${reload}>Load the new state</button></div>`;
  }
  if (error.code === 'needs_power') {
    const [message, entries] = listed(error.message);
    return html`<div class="failure" role="alert"><h2>The server does not allow this</h2><p>${message}</p>
      ${entries.length > 0 && html`<ul class="marks">${entries.map((entry) => html`<li key=${entry}>${entry}</li>`)}</ul>`}
      ${error.help && html`<p class="muted">${error.help}</p>`}</div>`;
  }
  const [first, ...more] = error.message.split('\n').filter(Boolean);
  const help = error.code === 'not_representable' ? 'Change this version as text, in the tab DOT.' : error.help;
  return html`<${Failure} title=${title} error=${{ message: first, help }} />
    ${more.length > 0 && html`<pre class="text" tabindex="0">${more.join('\n')}</pre>`}
    ${!isBrief && error.diagnostics?.length > 0 && html`<${Diagnostics} list=${error.diagnostics} />`}`;
}

/** Asks before a change. `act` returns a promise; the dialog closes when it is fulfilled. */
export function Ask({ title, label, danger, act, close, command, reload, children }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const run = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await act();
      close();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const again = async () => {
    await reload();
    setError(null);
  };
  return html`<${Dialog} title=${title} close=${close}><form onSubmit=${run}>
    ${children}
    ${error && html`<${Refusal} error=${error} reload=${again} />`}
    <${Command} text=${command} />
    <div class="buttons"><button type="button" onClick=${close}>Back</button><button class=${danger ? 'danger' : 'primary'} disabled=${busy}>${busy ? 'Working…' : label}</button></div>
  </form><//>`;
}

/** Chooses one of the versions. */
export function VersionSelect({ label = 'Version', workflow, versions, value, onChange }) {
  const text = (one) => `Version ${one}${one === workflow.active ? ', active' : one === workflow.latest ? ', latest' : ''}`;
  return html`<${Select} label=${label} value=${String(value)} options=${versions.map(({ version }) => [String(version), text(version)])} onChange=${(chosen) => onChange(Number(chosen))} />`;
}

/** The note and the button with which an edited version is saved as a new one. */
export function SaveBar({ model, changed, busy, note, setNote, discard }) {
  const { workflow, n } = model;
  const isOld = changed && n < workflow.latest;
  return html`<div class="save-bar">
    ${isOld && html`<p class="banner tone-warn">This is a change of version ${n}, and version ${workflow.latest} is newer. <a href=${href(['workflows', model.id, 'difference'], { from: n, to: workflow.latest })}>What is different in it</a></p>`}
    <label class="field"><span class="sr">Note about the new version</span><input placeholder="Note: what is this version for?" maxlength="1000" value=${note} onInput=${(event) => setNote(event.target.value)} /></label>
    <div class="buttons"><button class="primary" disabled=${!changed || busy}>${busy ? 'Saving…' : `Save as version ${workflow.latest + 1}`}</button>
      ${changed && html`<button type="button" onClick=${discard}>Discard</button><span class="tag changed" role="status">unsaved changes</span>`}</div>
  </div>`;
}
