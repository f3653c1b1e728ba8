// Keys of the page, and the list of them.
import { useEffect, html } from './html.js';
import { Dialog } from './ui.js';

/** @type {{keys: string, text: string, group: string}[]} */
const described = [];
const bindings = new Map();

const isTyping = (target) =>
  target.isContentEditable || /^(textarea|select)$/i.test(target.tagName) ||
  (/^input$/i.test(target.tagName) && !/^(radio|checkbox|button|range)$/.test(target.type));

let prefix = '';
let prefixTimer = 0;
addEventListener('keydown', (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key !== 'Escape' && isTyping(event.target)) return;
  if (document.querySelector('dialog[open]')) return;
  const name = prefix + event.key;
  clearTimeout(prefixTimer);
  prefix = '';
  const handler = bindings.get(name);
  if (handler) {
    if (handler(event) !== false) event.preventDefault();
  } else if ([...bindings.keys()].some((key) => key.startsWith(`${name} `))) {
    prefix = `${name} `;
    prefixTimer = setTimeout(() => { prefix = ''; }, 1200);
  }
});

/**
 * Binds keys while a view is shown.
 * @param {string} group
 * @param {[string, string, (event: KeyboardEvent) => any][]} list keys (a sequence has a space), text, handler
 */
export function useKeys(group, list) {
  useEffect(() => {
    const entries = list.map(([keys, text, handler]) => {
      bindings.set(keys, handler);
      const entry = { keys, text, group };
      if (text) described.push(entry);
      return [keys, handler, entry];
    });
    return () => entries.forEach(([keys, handler, entry]) => {
      if (bindings.get(keys) === handler) bindings.delete(keys);
      const at = described.indexOf(entry);
      if (at >= 0) described.splice(at, 1);
    });
  });
}

const ALWAYS = [
  ['In lists', '↑ ↓', 'Move; the row is selected'],
  ['In lists', 'Home End PgUp PgDn', 'Move far'],
  ['In tabs', '← →', 'Next tab'],
  ['In rows of a workflow', 'Alt ↑ ↓', 'Move the row'],
  ['In the graph', '← ↑ → ↓', 'Nearest node in this direction'],
  ['In the graph', 'Enter', 'Select the node'],
  ['In the graph', '+ - 0', 'Zoom in, zoom out, fit'],
  ['In a question', 'A … Enter', 'Select the choice with this key, confirm it'],
];

/** The list of keys. */
export function KeyHelp({ close }) {
  const groups = new Map();
  const add = (group, keys, text) => groups.set(group, [...(groups.get(group) || []), [keys, text]]);
  described.forEach(({ group, keys, text }) => add(group, keys, text));
  ALWAYS.forEach(([group, keys, text]) => add(group, keys, text));
  return html`<${Dialog} title="Keys" close=${close} wide>
    <div class="key-groups">
      ${[...groups].map(([group, entries]) => html`<section key=${group}><h3>${group}</h3><dl>
        ${entries.map(([keys, text]) => html`<div key=${keys + text}><dt>${keys.split(' ').map((key) => html`<kbd>${key.replace(',', '')}</kbd> `)}</dt><dd>${text}</dd></div>`)}
      </dl></section>`)}
    </div>
  <//>`;
}
