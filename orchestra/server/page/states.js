// States as word, shape and colour.
import { html } from './html.js';
import { words } from './format.js';

/** The tone and the shape of each state of runs, stages and nodes. @type {Record<string, [string, string]>} */
const STATES = {
  __proto__: null,
  accepted: ['neutral', 'ring'],
  pending: ['neutral', 'ring'],
  running: ['info', 'half'],
  retrying: ['warn', 'loop'],
  waiting: ['warn', 'hand'],
  paused: ['warn', 'bars'],
  interrupted: ['warn', 'bolt'],
  success: ['ok', 'check'],
  completed: ['ok', 'check'],
  done: ['ok', 'check'],
  partial_success: ['ok', 'part'],
  fail: ['bad', 'cross'],
  failed: ['bad', 'cross'],
  error: ['bad', 'cross'],
  warning: ['warn', 'bang'],
  note: ['info', 'dot'],
  cancelled: ['neutral', 'slash'],
  skipped: ['neutral', 'skip'],
};

/** Shapes on a grid of 16, each recognisable without its colour. */
const SHAPES = {
  ring: ['M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z', 'line dashed'],
  half: ['M8 2.5a5.5 5.5 0 1 1-5.5 5.5', 'line spin'],
  loop: ['M12.5 6A5 5 0 1 0 13 9.2M12.8 2.6V6H9.4', 'line'],
  hand: ['M4 2.5h8M4 13.5h8M5 2.5c0 3.5 6 7 6 11M11 2.5c0 3.5-6 7-6 11', 'line'],
  bars: ['M4.5 3h2.4v10H4.5zM9.1 3h2.4v10H9.1z', 'area'],
  bolt: ['M9.5 1.5 3.5 9H7l-1 5.5L12.5 7H9z', 'area'],
  check: ['M3 8.5l3.3 3.3L13 4.7', 'line bold'],
  part: ['M2.5 6.5h5M2.5 10.5h4M8 9.5l2 2 4-4.5', 'line'],
  cross: ['M4 4l8 8M12 4l-8 8', 'line bold'],
  bang: ['M8 2 14.5 13.5H1.5zM8 6.5v3M8 11.3v.4', 'line'],
  dot: ['M8 4.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7z', 'area'],
  slash: ['M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM4.2 11.8l7.6-7.6', 'line'],
  skip: ['M3 4l4 4-4 4M9 4l4 4-4 4', 'line'],
};

/** Returns the tone of a state, which names its colours. @param {string} state */
export const tone = (state) => (STATES[state] || ['neutral'])[0];

/** Returns the path of the shape of a state. @param {string} state @returns {[string, string]} */
export const shape = (state) => SHAPES[(STATES[state] || ['', 'dot'])[1]];

/** The shape of a state. */
export function StateIcon({ state }) {
  const [path, kind] = shape(state);
  return html`<svg class=${`glyph ${kind} tone-${tone(state)}`} viewBox="0 0 16 16" aria-hidden="true"><path d=${path} /></svg>`;
}

/** The shape and the word of a state. */
export const State = ({ state, word }) => html`<span class=${`state tone-${tone(state)}`}>
  <${StateIcon} state=${state} />${word || words(state)}
</span>`;
