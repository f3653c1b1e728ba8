// The graph of a run or of a definition, with its outline and its buttons.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from './html.js';
import { GraphView } from './graph.js';
import { Outline } from './outline.js';
import { Icon } from './ui.js';

/**
 * @param {{scene: any, states?: Map<string, any>, looks?: Map<string, any>, faded?: Set<string>|null, selected?: string|null,
 *   onSelect?: (node: string) => void, label: string, legend?: any}} props
 */
export function GraphPane({ scene, states, looks, faded = null, selected = null, onSelect, label, legend }) {
  const box = useRef(null);
  const view = useRef(null);
  const handler = useRef(onSelect);
  handler.current = onSelect;
  const [isOutline, setOutline] = useState(false);
  useLayoutEffect(() => {
    if (isOutline || !box.current) return undefined;
    view.current = new GraphView(box.current, { label, onSelect: onSelect && ((node) => handler.current?.(node)) });
    return () => {
      view.current.destroy();
      view.current = null;
    };
  }, [isOutline, label]);
  useLayoutEffect(() => {
    if (view.current && scene) view.current.draw(scene);
  }, [scene, isOutline, label]);
  useLayoutEffect(() => {
    if (view.current && scene && states) view.current.colour(states);
  }, [scene, states, isOutline, label]);
  useLayoutEffect(() => {
    if (view.current && scene && looks) view.current.trace(looks);
  }, [scene, looks, isOutline, label]);
  useLayoutEffect(() => {
    view.current?.fade(faded);
  }, [scene, faded, isOutline, label]);
  useEffect(() => {
    view.current?.select(selected);
  }, [scene, selected, isOutline, label]);
  const button = (icon, text, act) => html`<button type="button" class="quiet square" title=${text} aria-label=${text} onClick=${act}><${Icon} name=${icon} /></button>`;
  const counts = useMemo(() => scene && `${scene.nodes.length} nodes, ${scene.edges.length} edges`, [scene]);
  return html`<section class="graph" aria-label=${label}>
    ${isOutline
      ? html`<${Outline} scene=${scene} states=${states} faded=${faded} selected=${selected} onSelect=${onSelect} label=${label} />`
      : html`<div class="graph-box" ref=${box}></div>`}
    <div class="graph-tools" role="group" aria-label="Graph view">
      ${button('outline', isOutline ? 'Show as a graph' : 'Show as an outline', () => setOutline(!isOutline))}
      ${!isOutline && [
        button('minus', 'Zoom out', () => view.current.zoom(0.8)),
        button('plus', 'Zoom in', () => view.current.zoom(1.25)),
        button('fit', 'Fit', () => view.current.fit()),
      ]}
    </div>
    <div class="graph-foot"><span>${counts}</span>${legend}</div>
  </section>`;
}
