// The graph as a tree: each node below the first one that leads to it.
import { html, useMemo, useRef, useState } from './html.js';
import { State } from './states.js';
import { count } from './format.js';

/** Returns the nodes in depth-first order with their depth; later edges to a known node become references. */
function treeOf(scene) {
  const leaving = new Map(scene.nodes.map((node) => [node.id, []]));
  scene.edges.forEach((edge) => leaving.get(edge.from)?.push(edge));
  const names = new Map(scene.nodes.map((node) => [node.id, node.text.lines.join(' ') || node.id]));
  const seen = new Set();
  const rows = [];
  const caption = (edge) => edge?.caption?.text.lines.join(' ') || '';
  for (const root of scene.nodes) {
    if (seen.has(root.id)) continue;
    const stack = [[root.id, 0, null, -1]];
    while (stack.length) {
      const [id, depth, edge, parent] = stack.pop();
      const isReference = seen.has(id);
      const at = rows.length;
      rows.push({ id, depth, parent, isReference, name: names.get(id) || id, caption: caption(edge) });
      if (isReference) continue;
      seen.add(id);
      [...(leaving.get(id) || [])].reverse().forEach((next) => stack.push([next.to, depth + 1, next, at]));
    }
  }
  rows.forEach((row, at) => { row.isParent = at + 1 < rows.length && rows[at + 1].parent === at; });
  return rows;
}

/** The tree, with the keys of trees. */
export function Outline({ scene, states, faded, selected, onSelect, label }) {
  const rows = useMemo(() => (scene ? treeOf(scene) : []), [scene]);
  const [focus, setFocus] = useState(0);
  const [closed, setClosed] = useState(() => new Set());
  const box = useRef(null);
  const hidden = new Set();
  rows.forEach((row, at) => {
    if (row.parent >= 0 && (hidden.has(row.parent) || closed.has(row.parent))) hidden.add(at);
  });
  const go = (at) => {
    if (at < 0 || at >= rows.length) return;
    setFocus(at);
    box.current.querySelector(`[data-at="${at}"]`)?.focus();
  };
  const toggle = (at, close) => {
    const next = new Set(closed);
    if (close) next.add(at);
    else next.delete(at);
    setClosed(next);
  };
  const key = (event) => {
    const seen = rows.map((_, at) => at).filter((at) => !hidden.has(at));
    const place = seen.indexOf(focus);
    const row = rows[focus];
    if (event.key === 'ArrowDown') go(seen[place + 1] ?? focus);
    else if (event.key === 'ArrowUp') go(seen[place - 1] ?? focus);
    else if (event.key === 'Home') go(seen[0]);
    else if (event.key === 'End') go(seen[seen.length - 1]);
    else if (event.key === 'ArrowRight' && row.isParent) closed.has(focus) ? toggle(focus, false) : go(focus + 1);
    else if (event.key === 'ArrowLeft') row.isParent && !closed.has(focus) ? toggle(focus, true) : go(row.parent);
    else if (event.key === 'Enter' || event.key === ' ') onSelect?.(row.id);
    else return;
    event.preventDefault();
  };
  if (!scene) return null;
  return html`<ul class="outline" role="tree" aria-label=${`Outline: ${label}`} ref=${box} onKeyDown=${key}>
    ${rows.map((row, at) => !hidden.has(at) && html`<li key=${at} role="treeitem" data-at=${at} tabindex=${at === focus ? 0 : -1}
      aria-level=${row.depth + 1} aria-selected=${String(row.id === selected && !row.isReference)}
      aria-expanded=${row.isParent ? String(!closed.has(at)) : undefined}
      style=${{ paddingLeft: `${8 + Math.min(row.depth, 12) * 14}px` }}
      onClick=${() => { setFocus(at); onSelect?.(row.id); }}>
      <span class="outline-name">${row.isReference ? html`<span class="muted">back to </span>` : ''}${row.name}</span>
      ${row.caption && html`<span class="tag">${row.caption}</span>`}
      ${!row.isReference && faded?.has(row.id) && html`<span class="tag">not reachable</span>`}
      ${!row.isReference && states && html`<${State} state=${(states.get(row.id) || { state: 'pending' }).state} />`}
      ${!row.isReference && (states?.get(row.id)?.visits || 0) > 1 && html`<span class="muted num">${count(states.get(row.id).visits, 'visit')}</span>`}
    </li>`)}
  </ul>`;
}
