// Templates: htm bound to preact, and the hooks that views use.
import { h, Fragment, render } from './vendor/preact.module.js';
import htm from './vendor/htm.module.js';

/** Characters that reverse the text after them: a command could look like another. */
const REVERSING = /[\u202a-\u202e\u2066-\u2069]/g;
const plain = (child) => (typeof child === 'string' ? child.replace(REVERSING, '\ufffd') : child);

export const html = htm.bind((type, props, ...children) => h(type, props, ...children.map(plain)));
export { h, Fragment, render };
export {
  useCallback, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useReducer, useRef, useState,
} from './vendor/hooks.module.js';
