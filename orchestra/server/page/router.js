// The location of the page: a path and parameters behind the hash.
import { useEffect, useState } from './html.js';

/** @typedef {{path: string[], query: Record<string, string>, text: string}} Route */

/** @returns {Route} */
export function parse(hash) {
  const text = hash.replace(/^#/, '') || '/runs';
  const [path, query = ''] = text.split('?');
  const decode = (part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  return {
    path: path.split('/').filter(Boolean).map(decode),
    query: Object.fromEntries(new URLSearchParams(query)),
    text,
  };
}

/**
 * Returns the address of a screen.
 * @param {string[]} path
 * @param {Record<string, string|number|null|undefined>} [query]
 */
export function href(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return `#/${path.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`;
}

const listeners = new Set();
const notify = () => listeners.forEach((listener) => listener(parse(location.hash)));
addEventListener('hashchange', notify);

/** Goes to an address. @param {string} address @param {{replace?: boolean}} [options] */
export function go(address, { replace = false } = {}) {
  if (address === location.hash) return;
  if (replace) {
    history.replaceState(null, '', address);
    notify();
  } else {
    location.hash = address;
  }
}

/** Changes parameters of the present address; a `null` removes one. Does not add to the history. */
export function setQuery(changes) {
  const route = parse(location.hash);
  go(href(route.path, { ...route.query, ...changes }), { replace: true });
}

/** Returns the present route, and renders again when it changes. @returns {Route} */
export function useRoute() {
  const [route, setRoute] = useState(() => parse(location.hash));
  useEffect(() => {
    listeners.add(setRoute);
    setRoute(parse(location.hash));
    return () => listeners.delete(setRoute);
  }, []);
  return route;
}
