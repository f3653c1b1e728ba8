// Templates: htm bound to preact, and the hooks that views use.
import { h, Fragment, render } from './vendor/preact.module.js';
import htm from './vendor/htm.module.js';

export const html = htm.bind(h);
export { h, Fragment, render };
export {
  useCallback, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useReducer, useRef, useState,
} from './vendor/hooks.module.js';
