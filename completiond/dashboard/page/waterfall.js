// The latest keys, one row each, on one scale; and one of them in full.

import { mark } from './charts.js';
import { $, empty, h, put } from './elements.js';
import { OUTCOMES, STAGES, clock, colour, count, kind, percent, reason, span, time } from './words.js';

const SIGNS = { accepted: '✓', partially: '✓', typed: '✓', rejected: '✗', superseded: '↻', shown: '·' };

export function legend() {
  put('#legend', Object.entries(STAGES).map(([name, words]) => {
    const one = mark(colour('stage', name), name);
    one.title = words;
    return one;
  }));
}

/** `chosen` is the number of the key that is shown in full; `choose` is called with another. */
export function draw(keys, chosen, choose) {
  const list = $('#waterfall');
  const focused = document.activeElement?.dataset?.key;
  const most = scale(keys);
  put(list, keys.map((key) => row(key, most, key.key === chosen, choose)));
  if (focused) list.querySelector(`[data-key="${focused}"]`)?.focus({ preventScroll: true });
}

/** The longest of nearly all: one absurd key must not make the others invisible. */
function scale(keys) {
  const took = keys.map((key) => key.took_us).sort((a, b) => a - b);
  return Math.max(1000, took[Math.floor((took.length - 1) * 0.97)] ?? 0);
}

function row(key, most, chosen, choose) {
  const cells = [
    h('time', {}, clock(key.at_ms).split(' ').at(-1)),
    h('span', { class: 'file', title: `${key.path}, ${key.language}` }, key.path.split('/').at(-1) || '–'),
    h('span', { class: 'kind' }, h('i', { style: { background: colour('kind', key.kind) } }), verdict(key)),
    h('span', { class: `bar${key.took_us > most ? ' over' : ''}` }, pieces(key, most)),
    h('span', { class: 'took' }, time(key.took_us)),
    h('span', { class: `sign ${key.outcome}`, title: OUTCOMES[key.outcome] ?? 'nothing was shown' }, SIGNS[key.outcome] ?? ''),
  ];
  const label = `${clock(key.at_ms)}, ${key.path}: ${verdict(key)}, ${time(key.took_us)}${key.outcome ? `, ${OUTCOMES[key.outcome]}` : ''}`;
  return h('li', {}, h('button', {
    type: 'button', 'data-key': key.key, 'aria-label': label, 'aria-pressed': String(chosen), onclick: () => choose(key.key),
  }, cells));
}

const verdict = (key) => (key.reason === 'ok' || !key.reason ? kind(key.kind) : reason(key.why || key.reason));

function pieces(key, most) {
  const room = Math.min(1, most / Math.max(1, key.took_us));
  return Object.entries(key.stages).filter(([, us]) => us > 0).map(([name, us]) =>
    h('i', { style: { width: `${(100 * room * us) / most}%`, background: colour('stage', name) } }));
}

/** Arrows go from row to row, Home and End to the ends. */
export function onKey(event) {
  const all = [...$('#waterfall').querySelectorAll('button')];
  const at = all.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (at < 0 || to === undefined || !all[to]) return;
  event.preventDefault();
  all[to].focus();
}

// -- one key ---------------------------------------------------------------------------------------

export function none() {
  put('#detail', empty('Choose a key to see where its time went, and what became of each draft.'));
  $('#detail').classList.remove('open');
}

export function detail(key, close) {
  $('#detail').classList.add('open');
  if (key.error) return put('#detail', empty(key.error));
  put('#detail',
    h('div', { class: 'head' },
      h('h2', {}, `${verdict(key)}, ${time(key.took_us)}`),
      h('button', { type: 'button', class: 'close', 'aria-label': 'Close', onclick: close }, '×')),
    h('p', { class: 'dim', title: key.path }, about(key)),
    key.words.filter((words) => !words.startsWith('Of that')).map((words) => h('p', {}, words)),
    key.message && h('p', {}, key.message),
    stages(key), tokens(key), strip(key), text(key));
}

function about(key) {
  const file = key.path.split('/').slice(-2).join('/') || 'no path';
  const ask = key.request ? `request ${key.request}` : `key ${key.key}`;
  return [clock(key.at_ms), file, key.language, key.editor, key.trigger, ask].filter(Boolean).join(' · ');
}

function stages(key) {
  const found = Object.entries(key.stages);
  const all = found.reduce((sum, [, us]) => sum + us, 0);
  let at = 0;
  return h('table', { class: 'stages' }, h('tbody', {}, found.map(([name, us]) => {
    const left = (100 * at) / Math.max(1, all);
    at += us;
    const width = `max(${(100 * us) / Math.max(1, all)}%, 1px)`;
    return h('tr', { title: STAGES[name] },
      h('th', { scope: 'row' }, name),
      h('td', { class: 'track' }, h('span', { style: { 'margin-left': `min(${left}%, calc(100% - 1px))`, width, background: colour('stage', name) } })),
      h('td', {}, time(us)));
  })));
}

function tokens(key) {
  if (!key.passes) return null;
  const parts = [
    `${count(key.prompt)} tokens of prompt, ${percent(key.reused, key.prompt)} kept from before, ${count(key.prefilled)} computed`,
    `${count(key.generated)} written in ${count(key.wrote)} of ${count(key.passes)} passes${key.wrote ? `: ${(key.generated / key.wrote).toFixed(1)} a pass` : ''}`,
    key.free_us !== null && `cancelled; the device was free after ${time(key.free_us)}, ${count(key.after_cancel)} tokens later`,
    key.drawn_us !== null && `drawn ${time(key.drawn_us)} after the reply`,
  ];
  return h('p', { class: 'dim' }, `${parts.filter(Boolean).join('; ')}.`);
}

/** Each pass is a group: filled squares are drafted tokens that held, hollow ones did not. */
function strip(key) {
  if (!key.strip.length) return null;
  const sources = [...new Set(key.drafts.map((draft) => draft.source))];
  const spelled = key.strip.some((pass) => pass.words.length);
  const passes = key.strip.map((pass, number) => {
    const squares = pass.drafts.flatMap((draft) => [
      ...Array.from({ length: draft.held }, () => square(draft.source, 'held')),
      ...few(draft.drafted - draft.held).map((words) => square(draft.source, 'lost', words)),
    ]);
    const drafts = pass.drafts.map((draft) => `${draft.held} of ${draft.drafted} by ${draft.source}`).join(', ') || 'no draft';
    const held = pass.drafts.reduce((sum, draft) => sum + draft.held, 0);
    const own = Array.from({ length: Math.max(0, Math.min(4, pass.committed - held)) }, () => h('i', { class: 'own' }));
    const label = `pass ${number + 1}: ${drafts}; ${pass.committed} tokens`;
    return h('li', { title: label, 'aria-label': label }, pass.words.length ? words(pass.words) : [squares, own]);
  });
  return [
    h('h3', {}, 'Drafts, pass by pass'),
    h('ol', { class: spelled ? 'strip spelled' : 'strip' }, passes),
    h('p', { class: 'legend' }, sources.map((name) => mark(colour('source', name), name)), h('span', { class: 'mark' }, h('i', { class: 'own' }), 'the model’s own'), h('span', { class: 'mark' }, h('i', { class: 'lost' }), 'did not hold')),
  ];
}

/** The tokens themselves, where text is recorded. */
function words(spelled) {
  const lost = spelled.filter((one) => !one.held);
  const kept = spelled.filter((one) => one.held).map((one) => word(one, one.source ? 'held' : 'own'));
  const more = lost.length > SHOWN && h('span', { class: 'dim' }, `+${lost.length - SHOWN}`);
  return [kept, lost.slice(0, SHOWN).map((one) => word(one, 'lost')), more];
}

const SIGN = { '\n': '↵', '\t': '→', ' ': '·' };
const seen = (text) => (text === '' ? '∅' : text.replace(/[\n\t]|^ +| +$/g, (blanks) => [...blanks].map((one) => SIGN[one]).join('')));
const word = ({ text, source }, what) =>
  h('code', { class: what, style: { '--of': source ? colour('source', source) : null }, title: source ? `${source}, ${what === 'held' ? 'held' : 'did not hold'}` : 'the model’s own' }, seen(text));

const SHOWN = 8;
/** Of many that did not hold only some are drawn, and a number for the rest. */
const few = (n) => (n <= SHOWN ? Array(n).fill('') : [...Array(SHOWN - 1).fill(''), `+${n - SHOWN + 1}`]);
const square = (source, what, words = '') =>
  h('i', { class: words ? `${what} more` : what, style: { '--of': colour('source', source) } }, words);

function text(key) {
  if (!key.said) return null;
  const [first] = key.said.answers;
  const lines = key.said.before.split('\n').slice(-3).join('\n');
  return [h('h3', {}, 'Text'), h('pre', {}, lines, first ? h('mark', {}, first) : h('span', { class: 'dim' }, ' (no answer)'))];
}

export const ago = (ms) => span(Math.max(0, Date.now() - ms) / 1000);
