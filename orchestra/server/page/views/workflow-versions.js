// The versions of a workflow: who wrote them, their checks, and the one that is active.
import { paths, post } from '../api.js';
import { html, useState } from '../html.js';
import { count } from '../format.js';
import { href } from '../router.js';
import { State } from '../states.js';
import { cli, shell } from '../store.js';
import { Ago, Command } from '../ui.js';
import { Ask, time } from './workflow-parts.js';
import { Diagnostics } from './start.js';

const ORIGINS = { http: 'HTTP', local: 'local program' };

function Activate({ model, version, close }) {
  const { workflow } = model;
  const act = async () => {
    await model.change('POST', ['versions', version, 'activate'], {});
    shell.toast(`Version ${version} is active`);
  };
  return html`<${Ask} title=${`Activate version ${version}`} label="Activate" act=${act} close=${close} reload=${model.reload} command=${cli('stations', 'activate', `${workflow.name}@${version}`)}>
    <p>New runs of <strong>${workflow.name}</strong> use version ${version}${workflow.active ? ` instead of version ${workflow.active}` : ''}. Runs in progress keep their version.</p>
    ${workflow.active && html`<p><a href=${href(['workflows', model.id, 'difference'], { from: workflow.active, to: version })}>What is different in it</a></p>`}
  <//>`;
}

/** The result of a check. */
function Verdict({ check }) {
  const errors = check.diagnostics.filter((one) => one.severity === 'error').length;
  const rest = check.diagnostics.length - errors;
  return check.valid ? html`<${State} state="done" word=${rest ? `valid, ${count(rest, 'warning')}` : 'valid'} />` : html`<${State} state="error" word=${count(errors, 'error')} />`;
}

/** The tab of versions. */
export function Versions({ model }) {
  const { workflow, versions, canEdit } = model;
  const [asked, setAsked] = useState(null);
  const [checks, setChecks] = useState({});
  const validate = async (version) => {
    try {
      const check = await post(paths.workflow(workflow.id, 'versions', version, 'validate'));
      setChecks((before) => ({ ...before, [version]: check }));
    } catch (error) {
      shell.toast(error.message, 'error');
    }
  };
  const row = ({ version, note, origin, created_at: created, hash }, at) => {
    const check = checks[version];
    const before = versions[at + 1]?.version;
    return [html`<tr key=${version}>
      <th scope="row"><a href=${href(['workflows', model.id, 'rows'], { v: version === workflow.latest ? null : version })}>Version ${version}</a>
        ${version === workflow.active && html`<span class="tag added">active</span>`}</th>
      <td class="v-note" data-label="Note">${note || html`<span class="muted">–</span>`}</td>
      <td data-label="Written by">${ORIGINS[origin] || origin}</td>
      <td class="c-time" data-label="Time"><${Ago} time=${time(created)} /></td>
      <td data-label="Hash"><code title=${hash}>${hash.slice(0, 10)}</code></td>
      <td class="v-tools"><div class="buttons">${check && html`<${Verdict} check=${check} />`}
        ${!shell.about.read_only && html`<button onClick=${() => validate(version)} aria-label=${`Validate version ${version}`}>Validate</button>`}
        ${before && html`<a class="button" href=${href(['workflows', model.id, 'difference'], { from: before, to: version })} aria-label=${`Difference from version ${before} to version ${version}`}>Difference</a>`}
        ${canEdit && version !== workflow.active && html`<button onClick=${() => setAsked(version)} aria-label=${`Activate version ${version}`}>Activate</button>`}</div></td></tr>`,
    check?.diagnostics.length > 0 && html`<tr class="notes" key=${`checked ${version}`}><td colspan="6"><${Diagnostics} list=${check.diagnostics} /></td></tr>`];
  };
  return html`<div class="panel scroll" tabindex="0" role="group" aria-label="Versions">
    <p class="muted">A version never changes. Runs name the version with which they began, and keep it.</p>
    <table class="table versions"><thead><tr><th scope="col">Version</th><th scope="col">Note</th><th scope="col">Written by</th><th scope="col">Time</th><th scope="col">Hash</th><th scope="col"><span class="sr">Actions</span></th></tr></thead>
      <tbody>${versions.flatMap(row)}</tbody></table>
    <${Command} text=${cli('stations', 'list')} />
    ${asked && html`<${Activate} model=${model} version=${asked} close=${() => setAsked(null)} />`}
  </div>`;
}
