// The page: session, frame, and the view of the present address.
import { get, onExpired, request, signIn, signOut } from './api.js';
import { html, render, useEffect, useErrorBoundary, useState } from './html.js';
import { KeyHelp, useKeys } from './keys.js';
import { lazy } from './lazy.js';
import * as live from './live.js';
import { go, href, useRoute } from './router.js';
import { shell, useSource } from './store.js';
import { Failure, Icon } from './ui.js';
import { Runs } from './views/runs.js';

const RunView = lazy(() => import('./views/run.js'), 'RunView');
const Gates = lazy(() => import('./views/gates.js'), 'Gates');
const Definitions = lazy(() => import('./views/definitions.js'), 'Definitions');
const DefinitionView = lazy(() => import('./views/definition.js'), 'DefinitionView');
const Editor = lazy(() => import('./views/editor.js'), 'Editor');
const Workflows = lazy(() => import('./views/workflows.js'), 'Workflows');
const WorkflowView = lazy(() => import('./views/workflow.js'), 'WorkflowView');

const THEMES = { system: 'System colours', light: 'Light colours', dark: 'Dark colours' };

function storedTheme() {
  return document.documentElement.dataset.theme || 'system';
}

function setTheme(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem('orchestra.theme', theme);
  } catch {
    // It then lasts as long as the page.
  }
}

function ThemeSwitch() {
  const [theme, set] = useState(storedTheme);
  const next = { system: 'light', light: 'dark', dark: 'system' }[theme];
  return html`<button class="nav-button" onClick=${() => { setTheme(next); set(next); }} title=${`${THEMES[theme]}; switch to ${THEMES[next].toLowerCase()}`}>
    <${Icon} name="theme" /><span>${THEMES[theme]}</span></button>`;
}

const CONNECTION = {
  connecting: ['wait', 'Connecting'],
  live: ['live', 'Live'],
  reconnecting: ['wait', 'Reconnecting'],
  stopped: ['stop', 'Server stopped'],
};

function Connection() {
  const { connection } = shell;
  const [kind, text] = CONNECTION[connection];
  return html`<span class=${`connection ${kind}`} role="status"><i aria-hidden="true"></i><span>${text}</span></span>`;
}

function Frame({ route, showKeys, children }) {
  const open = shell.gates ? shell.gates.length : 0;
  const entry = (id, icon, label, badge) => {
    const isHere = route.path[0] === id;
    return html`<a class="nav-entry" href=${href([id])} aria-current=${isHere ? 'page' : undefined}>
      <${Icon} name=${icon} /><span>${label}</span>
      ${badge ? html`<span class="count hot" aria-label=${`${badge} open`}>${badge}</span>` : null}</a>`;
  };
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector('main').focus(); }}>Skip to the content</a>
    <header class="side">
      <a class="brand" href=${href(['runs'])}><img src="icon.svg" alt="" width="20" height="20" />Orchestra</a>
      <nav aria-label="Screens">
        ${entry('runs', 'runs', 'Runs')}
        ${entry('gates', 'gates', 'Gates', open)}
        ${entry('definitions', 'definitions', 'Definitions')}
        ${entry('workflows', 'workflows', 'Workflows')}
        ${entry('editor', 'editor', 'Editor')}
      </nav>
      <div class="side-foot">
        <${Connection} />
        <${ThemeSwitch} />
        <button class="nav-button keys" onClick=${showKeys}><${Icon} name="keys" /><span>Keys</span><kbd aria-hidden="true">?</kbd></button>
        <button class="nav-button" onClick=${leave}><${Icon} name="out" /><span>Sign out</span></button>
        ${shell.about && html`<p class="version">Version ${shell.about.version}${shell.about.read_only ? ', read only' : ''}</p>`}
      </div>
    </header>
    <main id="main" tabindex="-1">${children}</main>
    <div class="toasts" aria-live="polite">
      ${shell.toasts.map((toast) => html`<div key=${toast.id} class=${`toast ${toast.kind}`} role=${toast.kind === 'error' ? 'alert' : undefined}>
        <span>${toast.text}</span><button class="quiet square" aria-label="Dismiss" onClick=${() => shell.dismiss(toast.id)}><${Icon} name="close" /></button></div>`)}
    </div>`;
}

async function leave() {
  await signOut().catch(() => {});
  shell.set({ expired: true });
}

/** The page without a session. */
function SignedOut({ reason }) {
  const again = () => location.reload();
  return html`<main class="signed-out">
    <img src="icon.svg" alt="" width="40" height="40" />
    <h1>Open the link from the terminal</h1>
    <p>${reason || 'This browser has no session, or its session has expired.'}</p>
    <ol>
      <li>Go to the terminal that runs <code>orchestra serve</code>.</li>
      <li>Open the link that it printed. It ends in <code>/ui/#token=…</code> and works for every tab of this browser.</li>
      <li>If the terminal is gone, start <code>orchestra serve</code> again in the folder of the project.</li>
    </ol>
    <p><button class="primary" onClick=${again}>I have opened it, try again</button></p>
  </main>`;
}

const VIEWS = {
  runs: (route) => (route.path[1]
    ? html`<${RunView} key=${route.path[1]} id=${route.path[1]} tab=${route.path[2] || 'timeline'} query=${route.query} />`
    : html`<${Runs} query=${route.query} />`),
  gates: (route) => html`<${Gates} query=${route.query} />`,
  definitions: (route) => (route.path[1]
    ? html`<${DefinitionView} key=${route.path[1]} name=${route.path[1]} tab=${route.path[2] || 'start'} query=${route.query} />`
    : html`<${Definitions} query=${route.query} />`),
  workflows: (route) => (route.path[1]
    ? html`<${WorkflowView} key=${route.path[1]} id=${route.path[1]} tab=${route.path[2] || 'rows'} query=${route.query} />`
    : html`<${Workflows} query=${route.query} />`),
  editor: (route) => html`<${Editor} query=${route.query} />`,
};

function Screen({ route }) {
  const [error, reset] = useErrorBoundary();
  useEffect(() => { if (error) reset(); }, [route.text]);
  if (error) {
    return html`<div class="page"><${Failure} level="h1" title="This screen stopped" error=${{ message: String(error.message || error), help: 'Reload the page. The run itself is not affected.' }} retry=${reset} /></div>`;
  }
  const view = VIEWS[route.path[0]];
  return view ? view(route) : html`<div class="page"><${Failure} level="h1" title="There is no such screen" error=${{ message: `Nothing is at #/${route.path.join('/')}.`, help: 'Choose a screen in the navigation.' }} /></div>`;
}

function App() {
  useSource(shell);
  const route = useRoute();
  const [keys, setKeys] = useState(false);
  useKeys('Everywhere', [
    ['?', 'Show the keys', () => setKeys(true)],
    ['g r', 'Runs', () => go(href(['runs']))],
    ['g g', 'Gates', () => go(href(['gates']))],
    ['g d', 'Definitions', () => go(href(['definitions']))],
    ['g w', 'Workflows', () => go(href(['workflows']))],
    ['g e', 'Editor', () => go(href(['editor']))],
    ['/', 'Search', () => document.querySelector('main input[type=search]')?.focus() ?? false],
  ]);
  const [first, second] = route.path;
  useEffect(() => {
    const name = { runs: 'Runs', gates: 'Gates', definitions: 'Definitions', workflows: 'Workflows', editor: 'Editor' }[first] || 'Orchestra';
    if (!second) document.title = `${name} · Orchestra`;
    window.scrollTo(0, 0);
  }, [first, second]);
  if (shell.expired) return html`<${SignedOut} reason=${shell.reason} />`;
  if (!shell.about) return shell.failure
    ? html`<main class="signed-out"><${Failure} level="h1" error=${shell.failure} retry=${begin} /></main>`
    : html`<p class="boot" role="status">Loading Orchestra…</p>`;
  return html`<${Frame} route=${route} showKeys=${() => setKeys(true)}><${Screen} route=${route} /><//>
    ${keys && html`<${KeyHelp} close=${() => setKeys(false)} />`}`;
}

/** Exchanges the token of the link, which stands first in the fragment, and removes it. */
async function exchangeToken() {
  const match = /^#token=([^&/]+)(?:&?(\/.*))?$/.exec(location.hash);
  if (!match) return;
  history.replaceState(null, '', `#${match[2] || '/runs'}`);
  try {
    await signIn(decodeURIComponent(match[1]));
  } catch (error) {
    // An old link does not matter while a session exists.
    if (error.status !== 401) throw error;
    shell.reason = 'The token of this link is no longer valid.';
  }
}

async function begin() {
  shell.set({ failure: null, about: null });
  try {
    await exchangeToken();
    const about = await get('/api/v1/about');
    shell.set({ about, expired: false, reason: null });
    live.start();
    live.watch('gates');
  } catch (error) {
    if (error.status === 401) shell.set({ expired: true });
    else shell.set({ failure: error });
  }
}

onExpired(() => shell.set({ expired: true }));
live.on('expired', () => shell.set({ expired: true }));
live.on('gates', ({ gates }) => shell.set({ gates }));
live.on('open', () => request('/api/v1/about').then((reply) => reply.json()).then((about) => shell.set({ about })).catch(() => {}));
addEventListener('hashchange', () => { if (location.hash.startsWith('#token=')) location.reload(); });
render(html`<${App} />`, document.getElementById('app'));
begin();
