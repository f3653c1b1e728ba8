// One live stream for all tabs. The tab that holds the lock opens it and passes each message on.
import { readEvents } from './event-stream.js';
import { shell } from './store.js';

/** @typedef {{runs: number, gates: number, single: Record<string, number>}} Wants */

const LOCK = 'orchestra.stream';
const EVENTS = new Set(['runs', 'gates', 'run', 'text', 'bye']);
/** Number of runs that the server lets one stream follow. */
const MAX_RUNS = 16;
const FORGET_MS = 150_000;

const self = Math.random().toString(36).slice(2);
const channel = typeof BroadcastChannel === 'function' ? new BroadcastChannel(LOCK) : null;
/** What this tab watches. @type {Wants} */
const own = { runs: 0, gates: 0, single: {} };
const counts = new Map();
/** @type {Map<string, Set<(data: any) => void>>} */
const handlers = new Map();

/** Calls a function for each message of a kind, or `open` after a reconnect. */
export function on(event, handler) {
  if (!handlers.has(event)) handlers.set(event, new Set());
  handlers.get(event).add(handler);
  return () => handlers.get(event).delete(handler);
}

function dispatch(event, data) {
  if (event === 'run' && data.run && data.run.run in own.single) {
    own.single[data.run.run] = Math.max(own.single[data.run.run], data.position);
  }
  if (event === 'state') shell.set({ connection: data });
  (handlers.get(event) || []).forEach((handler) => handler(data));
}

/** Starts to watch the list of runs or the gates. Returns a function that stops it. @param {'runs'|'gates'} kind */
export function watch(kind) {
  own[kind] += 1;
  tell();
  return () => {
    own[kind] -= 1;
    tell();
  };
}

/** Starts to watch a run after a position. Returns a function that stops it. */
export function watchRun(run, position) {
  counts.set(run, (counts.get(run) || 0) + 1);
  own.single[run] = position;
  tell();
  return () => {
    counts.set(run, counts.get(run) - 1);
    if (counts.get(run) <= 0) {
      counts.delete(run);
      delete own.single[run];
      tell();
    }
  };
}

function tell() {
  if (leader) leader.want(self, own);
  else channel?.postMessage({ kind: 'want', from: self, wants: own });
}

/** The tab that owns the stream. */
class Leader {
  /** @type {Map<string, {wants: Wants, at: number}>} */
  tabs = new Map();
  /** The position of each run that the stream follows. */
  positions = new Map();
  key = '';
  delay = 500;
  /** Ends the stream. @type {AbortController|null} */
  source = null;
  timer = 0;
  isLive = false;
  /** The last message about the gates, for tabs that join later. @type {object|null} */
  gates = null;

  constructor() {
    setInterval(() => this.forget(), 30_000);
    addEventListener('online', () => this.source || this.open());
  }

  want(tab, wants) {
    this.tabs.set(tab, { wants: structuredClone(wants), at: Date.now() });
    this.update();
  }

  leave(tab) {
    this.tabs.delete(tab);
    this.update();
  }

  forget() {
    for (const [tab, { at }] of this.tabs) {
      if (tab !== self && Date.now() - at > FORGET_MS) this.tabs.delete(tab);
    }
    this.update();
  }

  /** Opens the stream again if tabs want something else, or know less than it has sent. */
  update() {
    const all = [...this.tabs.values()].map(({ wants }) => wants);
    const wanted = new Map();
    let behind = false;
    for (const wants of all) {
      for (const [run, position] of Object.entries(wants.single)) {
        const known = this.positions.get(run);
        if (known !== undefined && position < known) behind = true;
        wanted.set(run, Math.min(position, wanted.get(run) ?? Infinity));
      }
    }
    const names = [...wanted.keys()].sort().slice(0, MAX_RUNS);
    const watched = ['runs', 'gates'].filter((kind) => all.some((wants) => wants[kind] > 0));
    const key = JSON.stringify([watched, names]);
    if (key === this.key && !behind) return;
    this.key = key;
    this.watched = watched;
    this.positions = new Map(names.map((run) => [run, Math.min(wanted.get(run), this.positions.get(run) ?? Infinity)]));
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), 40);
  }

  open() {
    clearTimeout(this.timer);
    this.source?.abort();
    this.source = null;
    this.isLive = false;
    const parts = [...(this.watched || []), ...[...this.positions].map(([run, at]) => `run:${encodeURIComponent(run)}@${at}`)];
    if (!parts.length || shell.expired) return;
    this.source = new AbortController();
    this.follow(this.source, `/api/v1/stream?watch=${parts.join(',')}`);
  }

  /** Reads a stream until it ends, breaks, or is no longer wanted. */
  async follow(source, path) {
    const opened = () => {
      if (source !== this.source) return;
      this.delay = 500;
      this.isLive = true;
      this.send('state', 'live');
      if (this.broken) this.send('open', null);
      this.broken = false;
    };
    const received = (event, data) => {
      if (source === this.source && EVENTS.has(event)) this.receive(event, data);
    };
    try {
      await readEvents(path, source.signal, { opened, received });
    } catch (error) {
      if ((error.status === 401 || error.code === 'cross_site') && source === this.source) {
        this.source = null;
        this.send('expired', null);
      }
    }
    this.failed(source);
  }

  receive(event, text) {
    if (event === 'bye') {
      this.failed(this.source);
      this.send('state', 'stopped');
      return;
    }
    let data;
    try {
      data = JSON.parse(text);
    } catch {
      return;
    }
    if (event === 'run') this.positions.set(data.run.run, data.position);
    if (event === 'gates') this.gates = data;
    this.send(event, data);
  }

  send(event, data) {
    dispatch(event, data);
    channel?.postMessage({ kind: 'event', event, data });
  }

  failed(source) {
    if (!source || source !== this.source) return;
    source.abort();
    this.source = null;
    this.isLive = false;
    if (!this.broken) this.send('state', 'reconnecting');
    this.broken = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), this.delay * (0.75 + Math.random() / 2));
    this.delay = Math.min(this.delay * 2, 15_000);
  }
}

/** @type {Leader|null} */
let leader = null;

function lead() {
  leader = new Leader();
  leader.want(self, own);
  channel?.postMessage({ kind: 'ask' });
}

/** Joins the other tabs. */
export function start() {
  if (channel) {
    channel.onmessage = ({ data }) => {
      if (data.kind === 'event' && !leader) dispatch(data.event, data.data);
      if (data.kind === 'ask' && !leader) tell();
      if (data.kind === 'want' && leader) {
        // The stream sends the gates when it is opened, which may have been before this tab joined.
        if (!leader.tabs.has(data.from) && leader.gates) channel.postMessage({ kind: 'event', event: 'gates', data: leader.gates });
        leader.want(data.from, data.wants);
        if (leader.isLive) channel.postMessage({ kind: 'event', event: 'state', data: 'live' });
      }
      if (data.kind === 'leave' && leader) leader.leave(data.from);
    };
    addEventListener('pagehide', () => channel.postMessage({ kind: 'leave', from: self }));
    addEventListener('pageshow', (event) => {
      if (!event.persisted) return;
      tell();
      dispatch('open', null);
    });
    setInterval(() => leader || tell(), 30_000);
  }
  if (channel && navigator.locks) {
    navigator.locks.request(LOCK, () => {
      lead();
      return new Promise(() => {});
    });
  } else {
    lead();
  }
}
