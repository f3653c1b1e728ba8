// The rows of a workflow version as they are edited: every value is text until it is saved.

/** The attribute values of rows are JSON; a text is written without quotes where it cannot be mistaken for something else. */
function shown(value) {
  if (typeof value !== 'string') return JSON.stringify(value);
  return value !== '' && value === value.trim() && !value.includes('\n') && readJson(value) === undefined ? value : JSON.stringify(value);
}

function readJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns attributes as lines `name=value`. @param {Record<string, unknown>} [attributes] */
export const linesOf = (attributes = {}) => Object.entries(attributes).map(([name, value]) => `${name}=${shown(value)}`).join('\n');

/** A row that cannot be sent; `null` for the graph. */
class RowError extends Error {
  constructor(row, message, help) {
    super(message);
    this.row = row && row.key;
    this.help = help;
    this.diagnostics = [];
  }
}

function attributesOf(row, text) {
  const attributes = {};
  for (const line of text.split('\n').filter((one) => one.trim())) {
    const at = line.indexOf('=');
    if (at < 1) throw new RowError(row, `${row ? nameOf(row) : 'the workflow'}: \`${line.trim()}\` is not name=value`, 'Write one attribute a line, as in shape=diamond.');
    const value = line.slice(at + 1).trim();
    attributes[line.slice(0, at).trim()] = readJson(value) ?? value;
  }
  return attributes;
}

let latestKey = 0;
const newKey = () => {
  latestKey += 1;
  return latestKey;
};

/** Returns a station without values. */
export const newStation = (node) => ({ key: newKey(), node, name: '', type: '', prompt: '', keys: '', more: '' });

/** Returns a transition without values. */
export const newTransition = (source) => ({ key: newKey(), source, target: '', label: '', type: '', value: '', condition: '', revisit: false, max: '', more: '' });

/** Returns rows of the server for editing. */
export function edited(rows) {
  return {
    graph: rows.graph || '',
    more: linesOf(rows.attributes),
    stations: rows.stations.map((row) => ({
      key: newKey(), node: row.node, name: row.name || '', type: row.type || '', prompt: row.prompt || '',
      keys: (row.output_context_keys || []).join(', '), more: linesOf(row.attributes),
    })),
    transitions: rows.transitions.map((row) => ({
      key: newKey(), source: row.source, target: row.target, label: row.label || '', type: row.condition_type || '', value: row.condition_value || '',
      condition: row.condition || '', revisit: !!row.allow_revisit, max: row.max_revisits === null || row.max_revisits === undefined ? '' : String(row.max_revisits), more: linesOf(row.attributes),
    })),
  };
}

/** Returns the text by which two states of edited rows are compared, and in which a draft is stored. */
export const textOf = (rows) => JSON.stringify(rows, (name, value) => (name === 'key' ? undefined : value));

/** Returns the rows of a stored draft. */
export function ofText(text) {
  const rows = readJson(text);
  if (!rows) return null;
  [...rows.stations, ...rows.transitions].forEach((row) => { row.key = newKey(); });
  return rows;
}

/** The name of a row in messages, as the server writes it. */
export const nameOf = (row) => (row.node === undefined ? `transition \`${row.source} -> ${row.target}\`` : `station \`${row.node}\``);

/** Leaves out what is empty. */
const given = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== '' && value !== false && value !== null && !(Array.isArray(value) && !value.length)));

/** Returns edited rows as the server takes them. Throws an error that names a row which cannot be sent. */
export function sent(rows) {
  return {
    graph: rows.graph.trim(),
    attributes: attributesOf(null, rows.more),
    stations: rows.stations.map((row) => ({
      node: row.node.trim(),
      ...given({ name: row.name, type: row.type.trim(), prompt: row.prompt, output_context_keys: row.keys.split(/[\s,]+/).filter(Boolean) }),
      attributes: attributesOf(row, row.more),
    })),
    transitions: rows.transitions.map((row, index) => {
      if (!row.source || !row.target) throw new RowError(row, `transition ${index + 1} needs a source and a target`, 'Choose both, or remove the row.');
      const max = row.max.trim();
      if (max && !/^\d{1,9}$/.test(max)) throw new RowError(row, `${nameOf(row)}: \`${max}\` is not a number of revisits`, 'Write a whole number, or leave it empty for no limit.');
      return {
        source: row.source,
        target: row.target,
        ...given({ label: row.label, condition: row.condition, condition_type: row.type, condition_value: row.value, allow_revisit: row.revisit, max_revisits: max ? Number(max) : null }),
        attributes: attributesOf(row, row.more),
      };
    }),
  };
}

/** Renames a station, and lets the transitions follow it. */
export function renamed(rows, index, node) {
  const before = rows.stations[index].node;
  const isOnly = before && rows.stations.filter((row) => row.node === before).length === 1;
  const follow = (end) => (isOnly && end === before ? node : end);
  return {
    ...rows,
    stations: rows.stations.map((row, at) => (at === index ? { ...row, node } : row)),
    transitions: rows.transitions.map((row) => (row.source === before || row.target === before ? { ...row, source: follow(row.source), target: follow(row.target) } : row)),
  };
}

/** Returns a list in which a row has moved by a step. */
export function moved(list, index, step) {
  const to = index + step;
  if (to < 0 || to >= list.length) return list;
  const next = [...list];
  [next[index], next[to]] = [next[to], next[index]];
  return next;
}

/** The rows with which a workflow begins. */
export const FIRST_ROWS = {
  attributes: { routing: 'first_match' },
  stations: [
    { node: 'start', name: 'Start', attributes: { shape: 'Mdiamond' } },
    { node: 'first', name: 'First station', prompt: 'Describe the work of this station.' },
    { node: 'exit', name: 'Exit', attributes: { shape: 'Msquare' } },
  ],
  transitions: [{ source: 'start', target: 'first' }, { source: 'first', target: 'exit' }],
};
