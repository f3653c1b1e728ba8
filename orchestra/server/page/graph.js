// The graph as SVG elements made from a scene, with states, zoom and keys. No framework: a recolouring touches only
// the nodes that changed.
import { words } from './format.js';
import { shape, tone } from './states.js';

const NS = 'http://www.w3.org/2000/svg';
const LEADING = 1.25;
const MIN_ZOOM = 0.03;
const MAX_ZOOM = 4;
/** The zoom at which a graph begins that is too large to be shown whole. */
const READABLE = 0.6;
/** Below this zoom, texts and badges are not legible; they are not drawn. */
const FAR = 0.22;
/** Number of nodes from which on those outside the box are left out: each of them costs as much as a visible one. */
const LARGE = 200;

/** @returns {SVGElement} */
function make(name, attributes = {}, parent = null) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(key, String(value));
  }
  parent?.appendChild(element);
  return element;
}

function writeText(parent, text, attributes) {
  const step = text.size * LEADING;
  const top = text.y - ((text.lines.length - 1) * step) / 2 + text.size * 0.35;
  text.lines.forEach((line, at) => {
    make('text', { x: text.x, y: top + at * step, 'font-size': text.size, ...attributes }, parent).textContent = `${line} `;
  });
}

const points = (list) => list.map(([x, y]) => `${x},${y}`).join(' ');

function writeFigure(parent, figure) {
  const look = { class: figure.filled ? 'area' : 'thin' };
  if (figure.form === 'box') {
    const { x, y, width, height, radius } = figure;
    return make('rect', { x, y, width, height, rx: radius, ...look }, parent);
  }
  if (figure.form === 'ellipse') return make('ellipse', { rx: figure.rx, ry: figure.ry, ...look }, parent);
  return make(figure.form, { points: points(figure.points), ...look }, parent);
}

/** Returns the key of an edge: the node that it leaves and its number. */
export const edgeKey = (from, number) => `${from}\n${number}`;

/** A graph in an element. */
export class GraphView {
  /**
   * @param {HTMLElement} box
   * @param {{label: string, onSelect?: (node: string) => void}} options
   */
  constructor(box, options) {
    this.box = box;
    this.options = options;
    this.svg = make('svg', { class: 'graph-svg', role: 'group', 'aria-label': options.label }, box);
    this.root = make('g', {}, this.svg);
    /** @type {Map<string, any>} */
    this.nodes = new Map();
    this.edges = new Map();
    this.view = { x: 0, y: 0, zoom: 1 };
    this.isFitted = true;
    this.isFar = false;
    this.selected = null;
    this.faded = null;
    this.listen();
  }

  /** Draws a scene anew. */
  draw(scene) {
    this.scene = scene;
    this.root.textContent = '';
    this.nodes.clear();
    this.edges.clear();
    const root = document.createDocumentFragment();
    for (const { x, y, width, height, label } of scene.clusters) {
      const group = make('g', { class: 'cluster' }, root);
      make('rect', { x, y, width, height, rx: 8 }, group);
      writeText(group, label, { 'font-weight': 600 });
    }
    for (const edge of scene.edges) {
      const group = make('g', { class: edge.restart ? 'edge restart' : 'edge' }, root);
      make('path', { d: edge.path, class: 'line' }, group);
      make('polygon', { points: points(edge.arrow) }, group);
      this.edges.set(edgeKey(edge.from, edge.number), { edge, group, base: edge.restart ? 'edge restart' : 'edge', look: '' });
    }
    for (const edge of scene.edges) {
      if (!edge.caption) continue;
      const { x, y, width, height, text } = edge.caption;
      const group = make('g', { class: 'caption' }, root);
      make('rect', { x, y, width, height, rx: 4 }, group);
      writeText(group, text, { 'text-anchor': 'middle' });
    }
    for (const node of scene.nodes) this.drawNode(root, node);
    for (const entry of this.nodes.values()) if (this.faded?.has(entry.node.id)) this.refresh(entry);
    if (scene.heading) writeText(root, scene.heading, { class: 'heading', 'text-anchor': 'middle', 'font-weight': 600 });
    this.root.appendChild(root);
    this.tabbed = this.nodes.get(scene.nodes[0]?.id);
    if (this.tabbed && this.options.onSelect) this.tabbed.group.setAttribute('tabindex', '0');
    this.fit();
    // A large graph begins at its first node, in a size that can be read; the button fits it.
    if (this.view.zoom < READABLE / 3 && scene.nodes[0]) {
      this.move(this.box.clientWidth / 2 - scene.nodes[0].x * READABLE, 60 - scene.nodes[0].y * READABLE, READABLE);
    }
  }

  drawNode(parent, node) {
    const group = make('g', {
      class: 'node', transform: `translate(${node.x} ${node.y})`,
      role: this.options.onSelect ? 'button' : 'img', 'aria-label': node.id, tabindex: this.options.onSelect ? '-1' : null,
    }, parent);
    make('rect', { class: 'halo', x: -node.width / 2 - 4, y: -node.height / 2 - 4, width: node.width + 8, height: node.height + 8, rx: 10 }, group);
    const figures = node.figures.map((figure) => [writeFigure(group, figure), figure.filled ? 'area' : 'thin']);
    writeText(group, node.text, { 'text-anchor': 'middle', class: node.figures.length ? 'label' : 'label free' });
    const entry = { node, group, figures, state: '', visits: -1, badge: null, isOut: false, label: node.text.lines.join(' ') || node.id };
    group.addEventListener('click', () => {
      if (!this.wasDragged) this.options.onSelect?.(node.id);
    });
    group.addEventListener('focus', () => this.focused(entry));
    this.nodes.set(node.id, entry);
  }

  /**
   * Shows states of nodes; a node that is not named is pending.
   * @param {Map<string, {state: string, visits: number, attempts: number}>} states
   */
  colour(states) {
    for (const [id, entry] of this.nodes) {
      const given = states.get(id);
      const state = given ? given.state : 'pending';
      const visits = given ? given.visits : 0;
      if (state === entry.state && visits === entry.visits) continue;
      if (state !== entry.state) {
        entry.state = state;
        // Only the figures get the state: a class of the group would restyle all of its parts.
        for (const [figure, kind] of entry.figures) figure.setAttribute('class', `${kind} tone-${tone(state)} s-${state}`);
      }
      entry.visits = visits;
      if (this.isFar || entry.isOut) entry.isStale = true;
      else this.badge(entry, state, visits);
      entry.group.setAttribute('aria-label', `${entry.label}${visits > 1 ? ` ×${visits}` : ''}: ${words(state)}`);
    }
  }

  refresh(entry) {
    const { id } = entry.node;
    entry.group.setAttribute('class', `node${id === this.selected ? ' selected' : ''}${this.faded?.has(id) ? ' faded' : ''}`);
  }

  /** Fades nodes. @param {Set<string>|null} faded */
  fade(faded) {
    const before = this.faded;
    if (faded === before) return;
    this.faded = faded;
    for (const [id, entry] of this.nodes) if (before?.has(id) !== faded?.has(id)) this.refresh(entry);
  }

  badge(entry, state, visits) {
    const { node } = entry;
    entry.isStale = false;
    if (state === 'pending' && !entry.badge) return;
    if (!entry.badge) {
      entry.badge = make('g', { class: 'badge', transform: `translate(${node.width / 2 - 2} ${-node.height / 2 + 1})` }, entry.group);
      make('circle', { r: 8.5 }, entry.badge);
      entry.glyph = make('path', { transform: 'translate(-5.6 -5.6) scale(.7)' }, entry.badge);
    }
    const isShown = state !== 'pending';
    entry.badge.setAttribute('class', `badge tone-${tone(state)}`);
    entry.badge.setAttribute('visibility', isShown ? 'visible' : 'hidden');
    const [path, kind] = shape(state);
    entry.glyph.setAttribute('d', path);
    entry.glyph.setAttribute('class', kind.replace('spin', ''));
    if (visits > 1 || entry.times) {
      if (!entry.times) {
        entry.pill = make('rect', { class: 'pill', y: node.height - 8, height: 14, rx: 7 }, entry.badge);
        entry.times = make('text', { class: 'times', y: node.height + 2.6, 'font-size': 10, 'text-anchor': 'middle' }, entry.badge);
      }
      const text = visits > 1 ? `×${visits}` : '';
      const width = 9 + 6.2 * text.length;
      entry.pill.setAttribute('x', String(-2 - width / 2));
      entry.pill.setAttribute('width', String(text ? width : 0));
      entry.times.setAttribute('x', '-2');
      entry.times.textContent = text;
    }
  }

  /**
   * Gives edges a look: `taken`, `never`, `live`, `tested`, `chosen`, `imagined`.
   * @param {Map<string, {look: string, weight?: number}>} looks by `edgeKey`
   */
  trace(looks) {
    for (const [key, entry] of this.edges) {
      const { look = '', weight = 0 } = looks.get(key) || {};
      const whole = `${look} ${weight.toFixed(2)}`;
      if (whole === entry.look) continue;
      entry.look = whole;
      entry.group.setAttribute('class', `${entry.base} ${look}`);
      const line = entry.group.firstChild;
      line.style.strokeWidth = weight ? String(1.3 + weight * 4.5) : '';
    }
  }

  /** Marks a node, and moves the view if it is outside. @param {string|null} id */
  select(id) {
    if (id === this.selected) return;
    const before = this.nodes.get(this.selected);
    this.selected = id;
    if (before) this.refresh(before);
    const entry = this.nodes.get(id);
    if (!entry) return;
    this.refresh(entry);
    this.reveal(entry.node);
  }

  reveal({ x, y, width, height }) {
    const { zoom, x: left, y: top } = this.view;
    const { clientWidth: wide, clientHeight: high } = this.box;
    const at = [x * zoom + left, y * zoom + top];
    const isInside = at[0] - (width * zoom) / 2 > 0 && at[0] + (width * zoom) / 2 < wide && at[1] - (height * zoom) / 2 > 0 && at[1] + (height * zoom) / 2 < high;
    if (isInside) return;
    this.move(wide / 2 - x * zoom, high / 2 - y * zoom, zoom);
  }

  focused(entry) {
    for (const other of this.nodes.values()) {
      if (other.group.getAttribute('tabindex') === '0' && other !== entry) other.group.setAttribute('tabindex', '-1');
    }
    entry.group.setAttribute('tabindex', '0');
    this.tabbed = entry;
    this.box.scrollTo(0, 0);
    this.reveal(entry.node);
  }

  move(x, y, zoom, { fitted = false } = {}) {
    this.view = { x, y, zoom };
    this.isFitted = fitted;
    const isFar = zoom < FAR;
    if (isFar !== this.isFar) {
      this.isFar = isFar;
      this.root.setAttribute('class', isFar ? 'far' : '');
    }
    this.cull();
    for (const entry of this.nodes.values()) {
      if (entry.isStale && !isFar && !entry.isOut) this.badge(entry, entry.state, entry.visits);
    }
    this.root.setAttribute('transform', `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${zoom.toFixed(4)})`);
  }

  /** Leaves out the nodes of a large graph that are outside the box, except for the one that has the focus. */
  cull() {
    if (this.nodes.size < LARGE) return;
    const { x, y, zoom } = this.view;
    const [right, bottom] = [(this.box.clientWidth - x) / zoom, (this.box.clientHeight - y) / zoom];
    for (const entry of this.nodes.values()) {
      const { node } = entry;
      const isOut = entry !== this.tabbed
        && (node.x + node.width < -x / zoom || node.x - node.width > right || node.y + node.height < -y / zoom || node.y - node.height > bottom);
      if (isOut === entry.isOut) continue;
      entry.isOut = isOut;
      if (isOut) entry.group.setAttribute('display', 'none');
      else entry.group.removeAttribute('display');
    }
  }

  /** Shows the whole graph, not larger than it is. */
  fit() {
    const { scene, box } = this;
    if (!scene || !box.clientWidth) return;
    const margin = 12;
    const [wide, high] = [box.clientWidth - 2 * margin, box.clientHeight - 2 * margin];
    const zoom = Math.max(MIN_ZOOM, Math.min(1.25, wide / scene.width, high / scene.height));
    this.move(
      (box.clientWidth - scene.width * zoom) / 2 - scene.x * zoom,
      (box.clientHeight - scene.height * zoom) / 2 - scene.y * zoom, zoom, { fitted: true },
    );
  }

  /** Zooms around a point of the element, by default its middle. */
  zoom(factor, x = this.box.clientWidth / 2, y = this.box.clientHeight / 2) {
    const zoom = Math.max(MIN_ZOOM, Math.min(MAX_ZOOM, this.view.zoom * factor));
    const scale = zoom / this.view.zoom;
    this.move(x - (x - this.view.x) * scale, y - (y - this.view.y) * scale, zoom);
  }

  listen() {
    const { svg, box } = this;
    svg.addEventListener('wheel', (event) => {
      event.preventDefault();
      const bounds = box.getBoundingClientRect();
      const isMouse = event.deltaMode === 1 || (Math.abs(event.deltaY) >= 100 && !event.deltaX);
      if (event.ctrlKey || event.metaKey || isMouse) {
        const step = event.ctrlKey && !isMouse ? event.deltaY * 0.01 : Math.sign(event.deltaY) * 0.18;
        this.zoom(Math.exp(-step), event.clientX - bounds.left, event.clientY - bounds.top);
      } else {
        this.move(this.view.x - event.deltaX, this.view.y - event.deltaY, this.view.zoom);
      }
    }, { passive: false });
    const pointers = new Map();
    let distance = 0;
    svg.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      pointers.set(event.pointerId, event);
      this.wasDragged = false;
      this.start = [event.clientX, event.clientY];
      distance = 0;
    });
    svg.addEventListener('pointermove', (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const [dx, dy] = [event.clientX - before.clientX, event.clientY - before.clientY];
      pointers.set(event.pointerId, event);
      if (!this.wasDragged && Math.hypot(event.clientX - this.start[0], event.clientY - this.start[1]) < 4) return;
      if (!this.wasDragged) svg.setPointerCapture(event.pointerId);
      this.wasDragged = true;
      if (pointers.size === 2) {
        const [a, b] = [...pointers.values()];
        const now = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
        const bounds = box.getBoundingClientRect();
        if (distance) this.zoom(now / distance, (a.clientX + b.clientX) / 2 - bounds.left, (a.clientY + b.clientY) / 2 - bounds.top);
        distance = now;
      } else {
        this.move(this.view.x + dx, this.view.y + dy, this.view.zoom);
      }
    });
    const release = (event) => {
      pointers.delete(event.pointerId);
      distance = 0;
    };
    svg.addEventListener('pointerup', release);
    svg.addEventListener('pointercancel', release);
    svg.addEventListener('keydown', (event) => this.key(event));
    this.observer = new ResizeObserver(() => (this.isFitted ? this.fit() : this.move(this.view.x, this.view.y, this.view.zoom)));
    this.observer.observe(box);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const direction = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    const entry = [...this.nodes.values()].find(({ group }) => group === document.activeElement);
    if (direction && entry) this.step(entry.node, direction);
    else if ((event.key === 'Enter' || event.key === ' ') && entry) this.options.onSelect?.(entry.node.id);
    else if (event.key === '+' || event.key === '=') this.zoom(1.25);
    else if (event.key === '-') this.zoom(0.8);
    else if (event.key === '0') this.fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Moves the focus to the nearest node in a direction. */
  step(from, [right, down]) {
    let best = null;
    for (const { node, group } of this.nodes.values()) {
      const [dx, dy] = [node.x - from.x, node.y - from.y];
      const along = dx * right + dy * down;
      if (along <= 1) continue;
      const score = along + 2 * Math.abs(dx * down + dy * right);
      if (!best || score < best.score) best = { score, group, node };
    }
    if (!best) return;
    // What is left out cannot get the focus.
    this.reveal(best.node);
    best.group.focus({ preventScroll: true });
  }

  destroy() {
    this.observer.disconnect();
    this.svg.remove();
  }
}
