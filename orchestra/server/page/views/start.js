// The form that starts a run, and the list of diagnostics.
import { html, useState } from '../html.js';
import { own, quote } from '../format.js';
import { go, href } from '../router.js';
import { State } from '../states.js';
import { Command, Failure } from '../ui.js';

/** Diagnostics, each with its line unless it stands at its place. */
export const Diagnostics = ({ list, onJump, isLocated }) => html`<ul class="diagnostics">
  ${list.map((one, at) => html`<li key=${at}><${State} state=${one.severity} />
    <span>${isLocated ? '' : onJump ? html`<button type="button" class="link" onClick=${() => onJump(one)}>line ${one.line}</button>` : html`<span class="muted num">line ${one.line}</span>`} ${one.message} <code class="muted">${one.code}</code>
      ${(one.notes || []).map((note, n) => html`<small key=${n} class="muted">${note}</small>`)}${one.help && html`<small>Help: ${one.help}</small>`}</span></li>`)}
</ul>`;

/** Shows why only a simulation of a pipeline would start now. */
export const Obstacle = ({ obstacle }) => html`<div class="stack">
  <p class="banner tone-warn"><strong>Only a simulation would start now:</strong> ${obstacle.message}${obstacle.help ? `; ${obstacle.help}` : ''}</p>
  ${obstacle.diagnostics?.length > 0 && html`<${Diagnostics} list=${obstacle.diagnostics} />`}
</div>`;

/** Text with line numbers and marked lines. */
export const Source = ({ text, marked }) => html`<pre class="text source numbered" tabindex="0">${text.split('\n').map((line, at) => html`<span key=${at} class=${marked.has(at + 1) ? 'marked' : ''}>${line || ' '}</span>`)}</pre>`;

/** Reads a value as JSON if it is JSON, else as text, as the command line does. */
function valueOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Reads further values, one `KEY=VALUE` a line. */
function linesOf(text) {
  const values = {};
  for (const line of text.split('\n').filter((one) => one.trim())) {
    const at = line.indexOf('=');
    if (at < 1) throw Object.assign(new Error(`\`${line.trim()}\` is not KEY=VALUE.`), { help: 'Write one value a line, as in tries=3.' });
    values[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return values;
}

/**
 * Initial context values, limits, and whether the run is simulated.
 * @param {{start: (body: object) => Promise<{id: string}>, command: string, disabled?: boolean, limits?: boolean,
 *   inputs?: {key: string, required: boolean, default: unknown}[], onlySimulate?: boolean, obstacle?: object|null}} props
 */
export function StartForm({ start, command, disabled, inputs = [], limits = true, onlySimulate = false, obstacle = null }) {
  const [given, setGiven] = useState({});
  const [more, setMore] = useState('');
  const [simulated, setSimulate] = useState(false);
  const [cost, setCost] = useState('');
  const [time, setTime] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const simulate = simulated || onlySimulate;
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const texts = { ...given, ...linesOf(more) };
      const params = Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== '').map(([key, text]) => [key, valueOf(text)]));
      const { id } = await start({ params, simulate, ...(cost.trim() ? { max_cost: cost.trim() } : {}), ...(time.trim() ? { max_time: time.trim() } : {}) });
      go(href(['runs', id]));
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const options = [
    ...Object.entries(given).filter(([, text]) => text !== ''),
    ...more.split('\n').filter((line) => line.includes('=')).map((line) => [line.slice(0, line.indexOf('=')).trim(), line.slice(line.indexOf('=') + 1).trim()]),
  ].map(([key, text]) => ` --set ${quote(`${key}=${text}`)}`).join('');
  const whole = `${command}${options}${simulate ? ' --simulate' : ''}${cost.trim() ? ` --max-cost ${quote(cost.trim())}` : ''}${time.trim() ? ` --max-time ${quote(time.trim())}` : ''}`;
  return html`<form class="start" onSubmit=${submit}>
    <h2>Start a run</h2>
    ${inputs.map((input) => html`<label class="field" key=${input.key}><span>${input.key}${input.required ? html` <b>required</b>` : ''}</span>
      <input required=${input.required} value=${own(given, input.key) ?? ''} placeholder=${input.default === null || input.default === undefined ? '' : `default: ${typeof input.default === 'string' ? input.default : JSON.stringify(input.default)}`}
        onInput=${(event) => setGiven({ ...given, [input.key]: event.target.value })} /></label>`)}
    <label class="field"><span>${inputs.length ? 'Further context values' : 'Context values'}, one KEY=VALUE a line</span><textarea rows="2" spellcheck="false" value=${more} onInput=${(event) => setMore(event.target.value)}></textarea></label>
    ${limits && html`<div class="row"><label class="field"><span>Maximum cost in dollars</span><input inputmode="decimal" placeholder="no limit" value=${cost} onInput=${(event) => setCost(event.target.value)} /></label>
      <label class="field"><span>Maximum time</span><input placeholder="no limit, or as 30m" value=${time} onInput=${(event) => setTime(event.target.value)} /></label></div>`}
    <label class="check"><input type="checkbox" checked=${simulate} disabled=${onlySimulate} onChange=${(event) => { setSimulate(event.target.checked); setError(null); }} /><span>Simulate<small>Calls no model and runs no tool; stages succeed. Gates still ask.</small></span></label>
    ${error && html`<${Failure} title="The run was not started" error=${error} />`}
    ${error?.diagnostics?.length > 0 && html`<${Diagnostics} list=${error.diagnostics} />`}
    ${!error && !simulate && obstacle && html`<${Obstacle} obstacle=${obstacle} />`}
    <div class="buttons"><button class="primary" disabled=${busy || disabled}>${busy ? 'Starting…' : simulate ? 'Simulate' : 'Start'}</button>${disabled && html`<span class="hint">Errors must be fixed first.</span>`}</div>
    <${Command} text=${whole} />
  </form>`;
}
