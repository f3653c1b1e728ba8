// Values that views share: each notifies the views that use it, at most once a frame.
import { useEffect, useReducer } from './html.js';
import { quote } from './format.js';

/** A source of changes. */
export class Source {
  constructor() {
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    this.pending = false;
  }

  /** Tells listeners about a change, in the next frame or within 100 ms in a hidden tab. */
  changed() {
    if (this.pending) return;
    this.pending = true;
    const tell = () => {
      if (!this.pending) return;
      this.pending = false;
      [...this.listeners].forEach((listener) => listener());
    };
    requestAnimationFrame(tell);
    setTimeout(tell, 100);
  }

  /** @param {() => void} listener */
  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** Renders again when the source changes. @template {Source|null} S @param {S} source @returns {S} */
export function useSource(source) {
  const [, again] = useReducer((n) => n + 1, 0);
  useEffect(() => (source ? source.listen(() => again(0)) : undefined), [source]);
  return source;
}

/** What the server says about itself, and the states of connection and session. */
class Shell extends Source {
  about = null;
  /** @type {'connecting'|'live'|'reconnecting'|'stopped'} */
  connection = 'connecting';
  expired = false;
  /** @type {object[]|null} */
  gates = null;
  /** @type {{id: number, kind: string, text: string}[]} */
  toasts = [];

  set(values) {
    Object.assign(this, values);
    this.changed();
  }

  /** Shows a message for some seconds. @param {string} text @param {'ok'|'error'} [kind] */
  toast(text, kind = 'ok') {
    const entry = { id: Math.random(), kind, text };
    this.set({ toasts: [...this.toasts.slice(-2), entry] });
    setTimeout(() => this.dismiss(entry.id), kind === 'error' ? 9000 : 4000);
  }

  dismiss(id) {
    this.set({ toasts: this.toasts.filter((toast) => toast.id !== id) });
  }
}

export const shell = new Shell();

/** Returns a command of the program that serves the page. @param {...string} args */
export const cli = (...args) => [shell.about?.program || 'orchestra', ...args.map(quote)].join(' ');

/** Returns a file name as an argument that is not taken for an option. @param {string} file */
export const pathOf = (file) => (file.startsWith('-') ? `./${file}` : file);

/**
 * Returns a command about a run, with the options by which it is found.
 * @param {{id: string, commands: Record<string, string>}} model
 * @param {string} verb
 * @param {...string} args
 */
export function cliOf(model, verb, ...args) {
  const { status } = model.commands;
  const known = model.commands[verb] || (status ? status.replace(' status ', ` ${verb} `) : cli(verb, model.id));
  return [known, ...args.map(quote)].join(' ');
}
