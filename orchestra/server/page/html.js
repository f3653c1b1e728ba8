// Templates: htm bound to preact, and the hooks that views use.
import { h, Fragment, render } from './vendor/preact.module.js';
import htm from './vendor/htm.module.js';

/** Characters that reverse the text after them: a command could look like another. */
const REVERSING = /[\u202a-\u202e\u2066-\u2069]/g;
/** Chromium needs a minute for a line of 300 kB with letters from right to left, so such a line is broken. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
const MAX_LINE = /[^\n]{1000}/gu;

function plain(child) {
  if (typeof child !== 'string') return child;
  const text = child.replace(REVERSING, '\ufffd');
  return text.length > 5000 && RIGHT_TO_LEFT.test(text) ? text.replace(MAX_LINE, '$&\n') : text;
}

export const html = htm.bind((type, props, ...children) => h(type, props, ...children.map(plain)));
export { h, Fragment, render };
export {
  useCallback, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useReducer, useRef, useState,
} from './vendor/hooks.module.js';
