// Names of things as a person reads them, their colours, and numbers as text.

export const STAGES = {
  before: 'in the editor’s server',
  there: 'to the daemon',
  lookup: 'looking for an answer',
  prompt: 'prompt',
  queue: 'waiting',
  prefill: 'first token',
  decode: 'further tokens',
  door: 'between processes',
  finish: 'finishing the text',
  back: 'back',
  after: 'to the editor',
};
export const MEASURED = {
  total: 'the whole key',
  daemon: 'the daemon’s part',
  text: 'first text',
  drawn: 'until drawn',
  free: 'cancel to free device',
  ...STAGES,
};
export const KINDS = {
  typed: ['typed through', 'the suggestion that is shown is being typed'],
  reuse: ['kept answer', 'an earlier answer still fits'],
  ahead: ['computed ahead', 'the answer was there before the question'],
  joined: ['run on its way', 'a run for an earlier key answered it'],
  model: ['new run', 'the model was asked'],
  refused: ['not worth a run', 'the gate'],
  none: ['no answer', 'superseded, or an error'],
};
export const OUTCOMES = {
  accepted: 'accepted',
  partially: 'accepted in part',
  typed: 'typed to its end',
  rejected: 'dismissed or typed over',
  superseded: 'replaced by another',
  shown: 'nothing known yet',
};
export const REASONS = {
  ok: 'an answer was shown',
  superseded: 'a newer key came',
  abandoned: 'the editor cancelled it',
  not_asked: 'not worth a run',
  mid_word: 'the cursor is inside a word',
  mid_line: 'text follows on the line',
  statement_end: 'the statement is complete',
  short_document: 'too little text to go on',
  empty: 'the model had nothing to add',
  blank: 'only white space',
  timeout: 'the time was up',
  too_short: 'shorter than min_chars',
  repetition: 'a loop',
  repeats_line: 'the line said it already',
  repeats_suffix: 'it stands right of the cursor',
  repeats_next_lines: 'the lines below say it',
  repeats_above: 'the block above again',
  closes_too_much: 'only closed brackets',
  unfinished: 'the word was not spelled out',
  sentinel: 'a control token',
  loading: 'the model was loading',
  overloaded: 'too many requests',
  switched_off: 'suggestions are off',
  language_off: 'off for this language',
  secret_file: 'a file of secrets',
  several_cursors: 'there are several cursors',
  not_open: 'the editor had not opened it',
  outdated: 'the text had changed',
  none: 'nothing was asked',
};

const PLAIN = new Set(['typed', 'reuse', 'ahead', 'joined', 'model', 'refused', 'none']);
export const kind = (name) => (PLAIN.has(name) ? KINDS[name][0] : name);
export const reason = (name) => REASONS[name] ?? name.replaceAll('_', ' ');
/** A custom property of page.css, or a neutral one for a name that has none. */
export const colour = (family, name) => `var(--${family}-${name}, var(--other))`;

export const count = (n) => Math.round(n).toLocaleString('en-US');
export const percent = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(part && part / whole < 0.1 ? 1 : 0)} %` : '–');

/** Microseconds, to two or three digits that mean something. */
export function time(us) {
  if (us === null || us === undefined) return '–';
  if (us < 2) return '0';  // the record counts less than that as one
  if (us < 1000) return `${Math.round(us)} µs`;
  const ms = us / 1000;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 2 : 0)} s`;
}

export function bytes(n) {
  return n >= 2 ** 30 ? `${(n / 2 ** 30).toFixed(1)} GiB` : `${Math.round(n / 2 ** 20)} MiB`;
}

export function span(seconds) {
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const first = parts.findIndex(([size]) => seconds >= size);
  if (first < 0) return 'a moment';
  const [size, unit] = parts[first];
  const rest = parts[first + 1] && Math.floor((seconds % size) / parts[first + 1][0]);
  return `${Math.floor(seconds / size)} ${unit}${rest && first < 3 ? ` ${rest} ${parts[first + 1][1]}` : ''}`;
}

const pad = (n) => String(n).padStart(2, '0');
export function clock(ms) {
  const at = new Date(ms);
  const of = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  const today = new Date().toDateString() === at.toDateString();
  return today ? of : `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${of}`;
}
