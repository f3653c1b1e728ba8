// The events of a run, as they are stored.
import { get, paths } from '../api.js';
import { html, useEffect, useMemo, useRef, useState } from '../html.js';
import { clock, number } from '../format.js';
import { setQuery } from '../router.js';
import { Command, Empty, Failure, Loading, Search, Select, VirtualList } from '../ui.js';

/** Fields that every event has. */
const COMMON = new Set(['schema', 'seq', 'time', 'run', 'event']);

/** Loads the events after those that are known, whenever the run has more. */
function useEvents(id, total) {
  const [state, setState] = useState({ events: [], error: null, loaded: false });
  const known = useRef({ id: null, events: [], busy: false });
  useEffect(() => {
    let over = false;
    if (known.current.id !== id) known.current = { id, events: [], busy: false };
    const load = async () => {
      if (known.current.busy) return;
      known.current.busy = true;
      try {
        for (let next = 0; next !== null && !over;) {
          const { events } = known.current;
          const page = await get(paths.events(id, events.length ? events[events.length - 1].seq : 0));
          if (page.events.length) known.current.events = [...events, ...page.events];
          next = page.next;
          if (!over) setState({ events: known.current.events, error: null, loaded: next === null });
        }
      } catch (error) {
        if (!over) setState((before) => ({ ...before, error, loaded: true }));
      }
      known.current.busy = false;
    };
    load();
    return () => { over = true; known.current.busy = false; };
  }, [id, total]);
  return state;
}

const nodeOf = (event) => event.node || event.from || '';

/** Returns the fields of an event as one line. */
function summary(event) {
  const parts = [];
  for (const [key, field] of Object.entries(event)) {
    if (COMMON.has(key) || key === 'node' || field === null || field === '') continue;
    parts.push(`${key}=${typeof field === 'object' ? JSON.stringify(field) : field}`);
  }
  return parts.join('  ').slice(0, 400);
}

/** The tab Log. */
export function Log({ model, id, node, query }) {
  const { events, error, loaded } = useEvents(id, model.run.events);
  const kinds = useMemo(() => [...new Set(events.map((event) => event.event))].sort(), [events]);
  const text = (query.text || '').toLowerCase();
  const rows = useMemo(() => events.filter((event) =>
    (!query.kind || event.event === query.kind) && (!node || nodeOf(event) === node)
    && (!text || JSON.stringify(event).toLowerCase().includes(text))), [events, query.kind, node, text]);
  const at = query.event ? rows.findIndex((event) => event.seq === Number(query.event)) : -1;
  const nodes = useMemo(() => [...new Set(events.map(nodeOf).filter(Boolean))].sort(), [events]);
  const line = (event) => html`<span class="num muted log-seq">${event.seq}</span><span class="num muted">${clock(event.time, true)}</span>
    <span class="log-kind">${event.event}</span><span class="clip grow">${nodeOf(event) && html`<strong>${nodeOf(event)}</strong> `}<span class="muted">${summary(event)}</span></span>`;
  return html`<div class="stack fill">
    <div class="filters">
      <${Search} value=${query.text} name="text" label="Search in events" />
      <${Select} label="Kind" value=${query.kind || ''} options=${[['', 'All kinds'], ...kinds.map((kind) => [kind, kind])]} onChange=${(kind) => setQuery({ kind: kind || null })} />
      <${Select} label="Node" value=${node || ''} options=${[['', 'All nodes'], ...nodes.map((name) => [name, name])]} onChange=${(name) => setQuery({ node: name || null })} />
      <span class="muted num" role="status">${loaded ? '' : 'Loading: '}${number(rows.length)} of ${number(loaded ? events.length : model.run.events)} events</span>
    </div>
    ${error && html`<${Failure} error=${error} />`}
    ${!loaded && !events.length && html`<${Loading} label="Loading events" />`}
    ${loaded && !rows.length ? html`<${Empty} title="No event matches">Remove a filter to see all events.<//>`
      : html`<${VirtualList} rows=${rows} height=${28} row=${line} keyOf=${(event) => event.seq} selected=${at} onSelect=${(index) => setQuery({ event: rows[index].seq })} label="Events" follow=${at < 0} />`}
    ${at >= 0 && html`<pre class="text details" tabindex="0">${JSON.stringify(rows[at], null, 2)}</pre>`}
    <${Command} text=${model.commands.attach || model.commands.status} />
  </div>`;
}
