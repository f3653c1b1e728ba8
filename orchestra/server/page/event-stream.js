// Server-sent events over `fetch`, which sends the key of the page. An event source cannot.
import { request } from './api.js';

/**
 * Reads the events at a path until the stream ends; throws if it breaks.
 * @param {string} path
 * @param {AbortSignal} signal
 * @param {{opened: () => void, received: (event: string, data: string) => void}} listener
 */
export async function readEvents(path, signal, { opened, received }) {
  const response = await request(path, { signal });
  opened();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let event = '';
  let data = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      const [field, text] = [line.split(':', 1)[0], line.slice(line.indexOf(':') + 1).replace(/^ /, '')];
      if (field === 'event') event = text;
      else if (field === 'data') data.push(text);
      else if (line === '') {
        if (data.length) received(event || 'message', data.join('\n'));
        event = '';
        data = [];
      }
    }
  }
}
