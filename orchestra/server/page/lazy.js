// Views that are loaded when they are shown first.
import { html, useEffect, useState } from './html.js';
import { Failure, Loading } from './ui.js';

/**
 * Returns a component that loads another one.
 * @param {() => Promise<Record<string, any>>} load imports a module
 * @param {string} name the name of the component in the module
 */
export function lazy(load, name) {
  let View = null;
  return function Lazy(props) {
    const [, loaded] = useState(false);
    const [error, setError] = useState(null);
    const begin = () => {
      setError(null);
      load().then((module) => {
        View = module[name];
        loaded(true);
      }, () => setError({ message: 'A part of the page could not be loaded.', help: 'Check that `orchestra serve` still runs, then reload the page.' }));
    };
    useEffect(() => {
      if (!View) begin();
    }, []);
    if (View) return html`<${View} ...${props} />`;
    return error ? html`<div class="page"><${Failure} error=${error} retry=${() => location.reload()} /></div>` : html`<div class="page"><${Loading} /></div>`;
  };
}
