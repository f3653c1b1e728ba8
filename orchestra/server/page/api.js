// Calls of the HTTP interface.

/** An error reply of the server, or a failure to reach it (status 0). */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {{code?: string, message?: string, help?: string|null, diagnostics?: object[]}} body
   */
  constructor(status, body) {
    super(body.message || `the server answered ${status}`);
    this.status = status;
    this.code = body.code || 'unknown';
    this.help = body.help || null;
    this.diagnostics = body.diagnostics || [];
  }
}

/** @type {Set<() => void>} */
const expired = new Set();

/** Calls a function when the session turns out to be expired. @param {() => void} listener */
export function onExpired(listener) {
  expired.add(listener);
  return () => expired.delete(listener);
}

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

/** Where the key of the session is stored. */
const KEY = 'orchestra.key';

let ownKey = '1';

/** Returns the key of the session. Another tab may have begun a newer one. */
function sessionKey() {
  try {
    return localStorage.getItem(KEY) || ownKey;
  } catch {
    return ownKey;
  }
}

/**
 * Sends a request and returns the response, which is successful.
 * @param {string} path
 * @param {{method?: string, body?: unknown, etag?: string, signal?: AbortSignal, quiet?: boolean}} [options]
 * @returns {Promise<Response>}
 */
export async function request(path, options = {}) {
  const { method = 'GET', body, etag, signal, quiet } = options;
  // Other ports of the machine may see the cookie, but not what this origin stores.
  const headers = { Accept: 'application/json', 'X-Orchestra': sessionKey() };
  if (method !== 'GET') headers['Content-Type'] = 'application/json';
  if (etag) headers['If-Match'] = `"${etag}"`;
  const init = { method, headers, signal, credentials: 'same-origin', cache: 'no-store' };
  if (method !== 'GET') init.body = JSON.stringify(body === undefined ? {} : body);
  for (let tries = 0; ; tries += 1) {
    let response;
    try {
      response = await fetch(path, init);
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new ApiError(0, {
        code: 'unreachable',
        message: 'The server cannot be reached.',
        help: 'Check that `orchestra serve` still runs in its terminal.',
      });
    }
    if (response.ok) return response;
    if (response.status === 429 && method === 'GET' && tries < 3) {
      await wait(1000 * (Number(response.headers.get('Retry-After')) || 1));
      continue;
    }
    const reply = await response.json().catch(() => ({}));
    // A page that does not know the key of its session needs the link again too.
    const isExpired = response.status === 401 || reply.code === 'cross_site';
    if (isExpired && !quiet) expired.forEach((listener) => listener());
    throw new ApiError(response.status, reply);
  }
}

/** Returns the JSON at a path. @param {string} path @param {AbortSignal} [signal] */
export const get = async (path, signal) => (await request(path, { signal })).json();

/** Returns the text at a path. @param {string} path @param {AbortSignal} [signal] */
export const getText = async (path, signal) => (await request(path, { signal })).text();

/** Returns the bytes at a path. @param {string} path @param {AbortSignal} [signal] */
export const getBlob = async (path, signal) => (await request(path, { signal })).blob();

/** Posts JSON and returns the JSON reply, or `null`. @param {string} path @param {unknown} [body] */
export async function post(path, body) {
  const response = await request(path, { method: 'POST', body });
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

/**
 * Changes something that nobody has changed since it had this entity tag, and returns the JSON reply.
 * @param {string} method @param {string} path @param {string} etag @param {unknown} [body]
 */
export const change = async (method, path, etag, body) => (await request(path, { method, etag, body })).json();

const id = encodeURIComponent;

/** Paths of the interface. */
export const paths = {
  run: (run, since = 0) => `/api/v1/runs/${id(run)}${since ? `?since=${since}` : ''}`,
  runs: (query) => `/api/v1/runs?${new URLSearchParams(query)}`,
  events: (run, after, limit = 1000) => `/api/v1/runs/${id(run)}/events?after=${after}&limit=${limit}`,
  scene: (run) => `/pipelines/${id(run)}/graph?format=scene`,
  source: (run) => `/pipelines/${id(run)}/graph?format=source`,
  reachable: (run) => `/api/v1/runs/${id(run)}/reachable`,
  context: (run, at) => `/pipelines/${id(run)}/context${at ? `?at=${id(at)}` : ''}`,
  compare: (run, other) => `/api/v1/runs/${id(run)}/compare?with=${id(other)}`,
  checkpoints: (run) => `/api/v1/runs/${id(run)}/checkpoints`,
  files: (run) => `/api/v1/runs/${id(run)}/files`,
  file: (run, file) => `/api/v1/runs/${id(run)}/files/${id(file)}`,
  action: (run, action) => (action === 'cancel' ? `/pipelines/${id(run)}/cancel` : `/api/v1/runs/${id(run)}/${action}`),
  whatIf: (run, seq) => `/api/v1/runs/${id(run)}/decisions/${seq}/what-if`,
  answer: (run, question) => `/pipelines/${id(run)}/questions/${id(question)}/answer`,
  definition: (name) => `/api/v1/definitions/${id(name)}`,
  workflows: (archived) => `/api/workflows${archived ? '?archived=true' : ''}`,
  workflow: (workflow, ...below) => `/api/workflows/${[workflow, ...below].map(id).join('/')}`,
  difference: (workflow, from, to) => `/api/workflows/${id(workflow)}/versions/${id(to)}/difference?from=${id(from)}`,
  retryStation: (run) => `/api/workflow-executions/${id(run)}/retry-station`,
};

/** Exchanges the token of the printed link for a session. @param {string} token */
export async function signIn(token) {
  const response = await request('/api/v1/session', { method: 'POST', body: { token }, quiet: true });
  ownKey = (await response.json()).key;
  try {
    localStorage.setItem(KEY, ownKey);
  } catch {
    // The key then lasts as long as the page.
  }
}

/** Ends the session. */
export const signOut = () => request('/api/v1/session', { method: 'DELETE' });
