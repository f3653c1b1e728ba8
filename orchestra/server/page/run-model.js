// The rows of a run, as the server sends them. Nothing here computes a state.
import { get, paths } from './api.js';
import { on, watchRun } from './live.js';
import { Source } from './store.js';
import { useEffect, useState } from './html.js';

/** Maximum characters of live text kept of a stage attempt. */
const MAX_TEXT = 400_000;

/** Rows by their key `seq`, in its order. */
class Rows {
  constructor() {
    /** @type {any[]} */
    this.list = [];
    this.places = new Map();
  }

  put(rows) {
    let ordered = true;
    for (const row of rows) {
      const place = this.places.get(row.seq);
      if (place !== undefined) {
        this.list[place] = row;
        continue;
      }
      const last = this.list[this.list.length - 1];
      if (last && last.seq > row.seq) ordered = false;
      this.places.set(row.seq, this.list.length);
      this.list.push(row);
    }
    if (!ordered) {
      this.list.sort((a, b) => a.seq - b.seq);
      this.list.forEach((row, place) => this.places.set(row.seq, place));
    }
    if (rows.length) this.list = this.list.slice();
  }
}

/** A run that a screen shows. */
export class RunModel extends Source {
  /** @param {string} id */
  constructor(id) {
    super();
    this.id = id;
    this.position = 0;
    this.run = null;
    this.error = null;
    this.loading = true;
    this.version = 0;
    this.scene = null;
    this.sceneError = null;
    this.nodes = new Map();
    this.edges = [];
    this.questions = [];
    this.commands = {};
    /** @type {Map<string, {node: string, branch: string|null, visit: number, attempt: number, text: string}>} */
    this.texts = new Map();
    this.clear();
  }

  clear() {
    this.stages = new Rows();
    this.transitions = new Rows();
    this.toolCalls = new Rows();
    this.warnings = new Rows();
  }

  apply(update) {
    if (update.whole) this.clear();
    this.stages.put(update.stages);
    this.transitions.put(update.transitions);
    this.toolCalls.put(update.tool_calls);
    this.warnings.put(update.warnings);
    this.run = update.run;
    const asking = new Set(update.questions.map((question) => question.parent_stage || question.node));
    // A gate that runs waits for a person, which looks different from work.
    const shown = (node) => (node.state === 'running' && asking.has(node.node) ? { ...node, state: 'waiting' } : node);
    this.nodes = new Map(update.nodes.map((node) => [node.node, shown(node)]));
    this.edges = update.edges;
    this.questions = update.questions;
    this.commands = update.commands || {};
    this.executedBy = update.executed_by;
    this.owner = update.owner;
    this.position = update.position;
    this.version += 1;
    this.changed();
  }

  /** Loads pages until everything is known. The first page is shown at once. */
  async load() {
    this.loading = true;
    this.error = null;
    this.held = [];
    try {
      for (;;) {
        const update = await get(paths.run(this.id, this.position));
        this.apply(update);
        if (!update.more) break;
      }
    } catch (error) {
      this.error = error;
    }
    this.loading = false;
    if (!this.error && this.following && !this.stop) this.stop = watchRun(this.id, this.position);
    this.held.forEach((update) => this.apply(update));
    this.held = [];
    this.changed();
  }

  async loadScene() {
    try {
      this.scene = await get(paths.scene(this.id));
      this.sceneError = null;
    } catch (error) {
      this.sceneError = error;
    }
    this.changed();
  }

  receive(update) {
    if (update.run.run !== this.id) return;
    if (this.loading) this.held.push(update);
    else this.apply(update);
  }

  receiveText(piece) {
    if (piece.run !== this.id) return;
    const key = [piece.node, piece.branch || '', piece.visit, piece.attempt].join('\n');
    const known = this.texts.get(key);
    const before = known ? known.text : '';
    const isGap = piece.offset > (known ? known.end : 0);
    const text = before + (isGap ? (known ? '\n[some text was not received]\n' : '[earlier text was not received]\n') : '') + piece.text;
    const end = piece.offset === undefined ? 0 : piece.offset + new TextEncoder().encode(piece.text).length;
    this.texts.set(key, { ...piece, text: text.slice(-MAX_TEXT), end });
    this.changed();
  }

  /** @returns {() => void} */
  follow() {
    this.following = true;
    this.load();
    this.loadScene();
    const handlers = [
      on('run', (update) => this.receive(update)),
      on('text', (piece) => this.receiveText(piece)),
      on('open', () => {
        if (!this.loading) this.load();
        if (this.sceneError) this.loadScene();
      }),
    ];
    return () => {
      this.following = false;
      this.stop?.();
      this.stop = null;
      handlers.forEach((off) => off());
    };
  }
}

/** Returns the model of a run that follows it while the view is shown. @param {string} id */
export function useRun(id) {
  const [model, setModel] = useState(() => new RunModel(id));
  useEffect(() => {
    const present = model.id === id ? model : new RunModel(id);
    if (present !== model) setModel(present);
    return present.follow();
  }, [id]);
  return model;
}
