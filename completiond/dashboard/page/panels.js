// The tiles at the top and the cards below: what the figures of the record become.

import { bars, histogram, mark, overTime, shares, table } from './charts.js';
import { $, empty, h, put } from './elements.js';
import { KINDS, MEASURED, OUTCOMES, STAGES, bytes, colour, count, kind, percent, reason, span, time } from './words.js';

const FREE = ['typed', 'reuse', 'ahead', 'joined'];
const into = (id, ...what) => put($(`#${id} .drawing`), ...what);

export function cards(found) {
  tiles(found);
  into('over-time', overTime(found.points));
  into('histogram', histogram(found.bars));
  into('stages', stages(found.stages));
  into('sources', sources(found));
  into('kinds', kinds(found));
  into('reasons', reasons(found));
  into('outcomes', outcomes(found));
}

function tiles({ totals, stages: found, kinds: by, sources: rates }) {
  const of = (name) => found.find((one) => one.stage === name);
  const total = of('total') ?? of('daemon');
  const [free, first] = [of('free'), of('text')];
  const quick = FREE.reduce((sum, name) => sum + (by[name] ?? 0), 0);
  const drafted = rates.reduce((sum, one) => sum + one.drafted, 0);
  const held = rates.reduce((sum, one) => sum + one.held, 0);
  put('#tiles',
    tile('Half of the keys', total ? time(total.p50) : '–', total ? `90 % ${time(total.p90)} · 99 % ${time(total.p99)}` : 'none yet'),
    tile('First text of a run', first ? time(first.p50) : '–', first ? `90 % ${time(first.p90)} · 99 % ${time(first.p99)}` : 'no run yet'),
    tile('Without a new run', percent(quick, totals.keys), `of ${count(totals.keys)} keys`),
    tile('Tokens a pass', totals.wrote ? totals.tokens_per_pass.toFixed(2) : '–', drafted ? `${percent(held, drafted)} of drafts held` : 'nothing drafted'),
    tile('Taken', percent(totals.taken, totals.answers), `of ${count(totals.answers)} shown, by hand too`),
    tile('Cancel to free', free ? time(free.p50) : '–', free ? `99 % ${time(free.p99)}` : 'nothing cancelled'));
}

const tile = (name, value, more) =>
  h('div', { class: 'tile' }, h('h2', {}, name), h('p', { class: 'value' }, value), h('p', { class: 'dim' }, more));

function stages(found) {
  if (!found.length) return empty('No key of this time.');
  const most = Math.max(...found.filter((one) => STAGES[one.stage]).map((one) => one.p90), 1);
  return h('table', { class: 'figures spread' },
    h('thead', {}, h('tr', {}, ['', '', 'half', '90 %', '99 %'].map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', {}, found.map((one) => h('tr', { title: `${MEASURED[one.stage]}: ${count(one.keys)} keys`, class: STAGES[one.stage] ? null : 'sum' },
      h('th', { scope: 'row' }, one.stage),
      h('td', { class: 'track' }, STAGES[one.stage] && [
        h('span', { class: 'reach', style: { width: `${(100 * one.p90) / most}%`, background: colour('stage', one.stage) } }),
        h('span', { style: { width: `${(100 * one.p50) / most}%`, background: colour('stage', one.stage) } })]),
      ['p50', 'p90', 'p99'].map((name) => h('td', {}, time(one[name])))))));
}

function sources({ sources: rates, totals, reused, choices }) {
  if (!totals.passes) return empty('The model was not asked in this time.');
  const rows = rates.map((one) => ({
    name: one.source,
    title: `${count(one.held)} of ${count(one.drafted)} tokens held`,
    value: one.drafted, part: one.held,
    colour: `color-mix(in srgb, ${colour('source', one.source)} 28%, transparent)`, inner: colour('source', one.source),
    text: `${percent(one.held, one.drafted)} of ${count(one.drafted)}`,
  }));
  return [
    worth(choices),
    h('p', { class: 'dim' }, `In all ${count(totals.generated)} tokens in ${count(totals.wrote)} passes that wrote and ${count(Math.max(0, totals.passes - totals.wrote))} that only read prompts; ${percent(reused, totals.prompt)} of the prompts were in the KV cache.`),
    rates.length ? bars(rows) : empty('Nothing was drafted.'),
    choices.passes > 0 && chosen(choices),
  ];
}

/** Only passes that wrote something say what drafts are worth. */
function worth({ runs, passes, written }) {
  if (!passes) return null;
  const saved = written - passes;
  const without = saved > 0 ? `: ${percent(saved, written)} fewer passes than without drafts` : ': no drafts held';
  return h('p', {}, `${count(written)} tokens in ${count(passes)} passes that wrote, in the last ${count(runs)} runs${without}.`);
}

/** What the planner did lately: which source it asked, for how many tokens, and what a pass gave. */
function chosen({ passes, plain, sources: found, committed }) {
  const rows = found.map((one) => [
    mark(colour('source', one.source), one.source), percent(one.passes, passes), (one.drafted / one.passes).toFixed(1), (one.held / one.passes).toFixed(2),
  ]);
  const steps = Object.entries(committed).map(([tokens, n]) => ({ name: `${tokens} a pass`, value: n, colour: `var(--gave-${Math.min(5, Number(tokens))})` }));
  return [
    h('h3', {}, 'The planner’s choices in these runs'),
    table(['source', 'of passes', 'drafted', 'held'], [...rows, ['no draft', percent(plain, passes), '–', '–']]),
    h('p', { class: 'dim small' }, 'drafted and held: tokens a pass. Passes by what they gave:'),
    shares(steps),
    h('p', { class: 'legend' }, steps.slice(0, 6).map((step) => mark(step.colour, `${step.name.split(' ')[0]}: ${percent(step.value, passes)}`))),
  ];
}

function kinds({ kinds: by, totals }) {
  if (!totals.keys) return empty('No key of this time.');
  const rows = Object.entries(by).filter(([name]) => name !== 'warm').map(([name, n]) => ({
    name: kind(name), title: KINDS[name]?.[1], value: n, colour: colour('kind', name), text: `${percent(n, totals.keys)} · ${count(n)}`,
  }));
  return bars(rows);
}

function reasons({ reasons: by }) {
  const rows = Object.entries(by).filter(([name]) => name !== 'ok' && name !== '');
  if (!rows.length) return empty('Every key of this time was answered.');
  const all = rows.reduce((sum, [, n]) => sum + n, 0);
  return bars(rows.slice(0, 9).map(([name, n]) => ({ name: reason(name), title: name, value: n, colour: 'var(--other)', text: `${percent(n, all)} · ${count(n)}` })));
}

function outcomes({ outcomes: by, totals, retained }) {
  if (!totals.answers) return empty('No answer was shown in this time.');
  const rows = Object.entries(by).map(([name, n]) => ({ name: OUTCOMES[name] ?? name, value: n, colour: colour('outcome', name), text: `${percent(n, totals.answers)} · ${count(n)}` }));
  const left = retained.filter((one) => one.taken).map((one) => `${percent(one.left, one.taken)} after ${span(one.after_s)}`);
  return [bars(rows), left.length > 0 && h('p', { class: 'dim' }, `Of the characters that were accepted, there are left ${left.join(', ')}.`)];
}

/** The running daemon, or what the record says of the last one. */
export function engine({ status, trouble }, served) {
  const facts = status ? live(status) : last(served);
  into('engine', !status && h('p', { class: 'dim' }, trouble || 'The daemon has not been asked yet.'),
    h('dl', {}, facts.filter(([, value]) => value).map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)])));
}

function live({ model, engine: of, uptime_s, clients, running, waiting, memory }) {
  const kv = of.kv_budget && [
    `${bytes(of.kv_bytes)} of ${bytes(of.kv_budget)}, ${count(of.kv_slots)} ${of.kv_slots === 1 ? 'buffer' : 'buffers'}`,
    h('meter', { min: 0, max: of.kv_budget, value: of.kv_bytes, 'aria-label': 'KV cache in use' }),
  ];
  return [
    ['model', model], ['draft model', of.draft], ...computed(of),
    ['KV cache', kv && h('span', {}, kv)], ['memory', memory && bytes(memory)],
    ['longest pass', of.longest_pass_ms && `${of.longest_pass_ms} ms`],
    ['clients', `${count(clients)} (this page is one)`], ['requests', `${count(of['daemon requests'] ?? 0)} so far; ${running} running, ${waiting} waiting`],
    ['up', span(uptime_s)],
  ];
}

const computed = (of) => [
  ['device', [of.device, of.device === 'cpu' && of.threads && `${of.threads} threads`].filter(Boolean).join(', ')],
  ['kernels', of.kernel],
  ['drafters', (of.drafters ?? []).join(', ') || 'none'],
  ['planner', of.policy && `${of.policy}${of.draft_tokens ? `, at most ${of.draft_tokens} tokens` : ''}`],
  ['a pass takes', Object.entries(of.pass_ms ?? {}).map(([rows, ms]) => `${rows}: ${Math.round(ms)} ms`).join(', ')],
];

const last = (served) => (served[0] ? [['model', served[0].model], ...computed(served[0]), ['version', served[0].version]] : []);
