// Numbers, times and words as text.

const two = (n) => String(n).padStart(2, '0');

/** Returns a duration such as `1m 20s`. @param {number|null|undefined} ms */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return '–';
  if (ms < 1) return '<1 ms';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h ${two(Math.floor((whole % 3600) / 60))}m`;
  return `${Math.floor(whole / 86400)}d ${Math.floor((whole % 86400) / 3600)}h`;
}

/** Returns a cost such as `$0.42`. @param {number|null|undefined} micros */
export function cost(micros) {
  if (!micros) return micros === 0 ? '$0' : '–';
  const dollars = micros / 1e6;
  if (dollars < 0.001) return '<$0.001';
  return `$${dollars.toFixed(dollars < 0.9995 ? 3 : 2)}`;
}

const whole = new Intl.NumberFormat('en-US');

/** Returns a number with separators. @param {number|null|undefined} n */
export const number = (n) => (n === null || n === undefined ? '–' : whole.format(n));

/** Returns a short number such as `12.3k`. @param {number|null|undefined} n */
export function short(n) {
  if (n === null || n === undefined) return '–';
  if (n < 1000) return String(n);
  if (n < 999_500) return `${(n / 1000).toFixed(n < 9950 ? 1 : 0)}k`;
  return `${(n / 1e6).toFixed(1)}M`;
}

/** Returns a size such as `1.2 KB`. @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 999_500) return `${(bytes / 1000).toFixed(bytes < 9950 ? 1 : 0)} KB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Returns the milliseconds of a time, or `null`. @param {string|null|undefined} time */
export function millis(time) {
  const value = time ? Date.parse(time) : NaN;
  return Number.isNaN(value) ? null : value;
}

/** Returns the time of day with seconds. @param {string|null|undefined} time */
export function clock(time, fraction = false) {
  const value = millis(time);
  if (value === null) return '–';
  const date = new Date(value);
  const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return fraction ? `${text}.${String(date.getMilliseconds()).padStart(3, '0')}` : text;
}

/** Returns the day and time. @param {string|null|undefined} time */
export function date(time) {
  const value = millis(time);
  if (value === null) return '–';
  const day = new Date(value);
  return `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())} ${clock(time)}`;
}

/** Returns how long ago a time is. @param {string|null|undefined} time @param {number} now */
export function ago(time, now = Date.now()) {
  const value = millis(time);
  if (value === null) return '–';
  const seconds = Math.max(0, (now - value) / 1000);
  if (seconds < 5) return 'now';
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

/** Returns `1 stage`, `2 stages`. @param {number} n @param {string} word */
export const count = (n, word, plural = `${word}s`) => `${number(n)} ${n === 1 ? word : plural}`;

/** Returns a word such as `partial_success` for people. @param {string|null|undefined} word */
export const words = (word) => (word || '').replaceAll('_', ' ');

/** Returns the workflow and the number in the file of a run, such as `stations:shop@3`; `null` for another file. */
export function versionOf(file) {
  const match = /^stations:(.*)@(\d+)$/.exec(file || '');
  return match ? { workflow: match[1], version: Number(match[2]) } : null;
}

/** Quotes an argument for a shell if it must be. @param {string} text */
export function quote(text) {
  // Pasted as they are, control characters would work in the terminal.
  if (/[\x00-\x1f\x7f]/.test(text)) return `$'${text.replace(/[\\'\x00-\x1f\x7f]/g, (c) => (c === '\\' || c === "'" ? `\\${c}` : `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`))}'`;
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Returns the value of a key that somebody else chose, such as `constructor`. @param {object|null|undefined} values @param {string} key */
export const own = (values, key) => (values && Object.hasOwn(values, key) ? values[key] : undefined);

/** Returns a context value as text. @param {unknown} value */
export function value(value) {
  if (typeof value === 'string') return value;
  return JSON.stringify(value, null, 2) ?? '';
}
