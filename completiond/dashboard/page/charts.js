// Drawings: lines over time, bars, stacked shares. They know numbers and names, no question.

import { empty, h, s } from './elements.js';
import { clock, count, percent, time } from './words.js';

const WIDTH = 560;
const HEIGHT = 190;
const LEFT = 64;
const FOOT = 22;
const LEAST_OCTAVES = 3;
const LINES = [['p99', '99 %'], ['p90', '90 %'], ['p50', 'half']];
const TICKS = [1, 2, 5].flatMap((d) => [0, 1, 2, 3, 4, 5, 6, 7].map((e) => d * 10 ** e)).sort((a, b) => a - b);

const frame = (label, ...children) =>
  s('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': label }, ...children);

/** Ticks of a logarithmic axis from low to high: decades, and halves where there is room. */
function ticks(low, high) {
  const inside = TICKS.filter((us) => us >= low && us <= high);
  return inside.length > 5 ? inside.filter((us) => String(us)[0] === '1') : inside;
}

export function overTime(points) {
  if (!points.length) return empty('No key of this time has it.');
  const low = Math.max(1, Math.min(...points.map((p) => p.p50)) / 1.5);
  const high = Math.max(low * 4, Math.max(...points.map((p) => p.p99)) * 1.3);
  const [first, last] = [points[0].at_ms, points.at(-1).at_ms];
  const x = (at) => LEFT + ((WIDTH - LEFT - 12) * (at - first)) / Math.max(1, last - first);
  const y = (us) => 8 + (HEIGHT - FOOT - 8) * (1 - Math.log(Math.max(us, low) / low) / Math.log(high / low));
  const grid = ticks(low, high).map((us) => [
    s('line', { class: 'grid', x1: LEFT, x2: WIDTH - 12, y1: y(us), y2: y(us) }),
    s('text', { x: LEFT - 6, y: y(us) + 4, 'text-anchor': 'end' }, time(us)),
  ]);
  const drawn = LINES.map(([name]) => [
    s('polyline', { class: `line ${name}`, points: points.map((p) => `${x(p.at_ms)},${y(p[name])}`).join(' ') }),
    points.length < 60 && points.map((p) => s('circle', { class: name, cx: x(p.at_ms), cy: y(p[name]), r: 2.2 })),
  ]);
  const slot = (WIDTH - LEFT) / points.length;
  const hover = points.map((p) =>
    s('rect', { class: 'hover', x: x(p.at_ms) - slot / 2, y: 0, width: slot, height: HEIGHT - FOOT },
      s('title', {}, `${clock(p.at_ms)}, ${count(p.keys)} keys\nhalf ${time(p.p50)}, 90 % ${time(p.p90)}, 99 % ${time(p.p99)}`)));
  const foot = [[first, 'start', LEFT], [last, 'end', WIDTH - 12]].slice(0, first === last ? 1 : 2);
  const dates = foot.map(([at, anchor, place]) => s('text', { x: place, y: HEIGHT - 5, 'text-anchor': anchor }, clock(at)));
  const end = points.at(-1);
  const label = `Latency over time; lately half took up to ${time(end.p50)}, 90 % up to ${time(end.p90)}, 99 % up to ${time(end.p99)}`;
  const legend = h('p', { class: 'legend' }, LINES.toReversed().map(([name, words]) => h('span', {}, h('i', { class: name }), words)));
  return [frame(label, grid, drawn, hover, dates), legend];
}

export function histogram(bars) {
  if (!bars.length) return empty('No key of this time has it.');
  const most = Math.max(...bars.map((bar) => bar.keys));
  const all = bars.reduce((sum, bar) => sum + bar.keys, 0);
  const ends = [Math.log(Math.max(1, bars[0].low_us)), Math.log(bars.at(-1).high_us)];
  const room = Math.max(0, LEAST_OCTAVES * Math.LN2 - (ends[1] - ends[0])) / 2;  // few bars stay narrow
  const [low, high] = [Math.max(0, ends[0] - room), ends[1] + room];
  const x = (us) => 10 + ((WIDTH - 20) * (Math.log(Math.max(1, us)) - low)) / Math.max(1e-9, high - low);
  const y = (keys) => (HEIGHT - FOOT - 8) * (keys / most);
  const drawn = bars.map((bar) => {
    const width = Math.max(1.5, x(bar.high_us) - x(bar.low_us) - 1);
    const tall = bar.keys ? Math.max(1.5, y(bar.keys)) : 0;
    return s('rect', { class: 'column', x: x(bar.low_us), y: HEIGHT - FOOT - tall, width, height: tall },
      s('title', {}, `${time(bar.low_us)} to ${time(bar.high_us)}: ${count(bar.keys)} keys, ${percent(bar.keys, all)}`));
  });
  const axis = ticks(Math.exp(low), Math.exp(high)).map((us) => [
    s('line', { class: 'tick', x1: x(us), x2: x(us), y1: HEIGHT - FOOT, y2: HEIGHT - FOOT + 4 }),
    s('text', { x: x(us), y: HEIGHT - 5, 'text-anchor': 'middle' }, time(us)),
  ]);
  const ground = s('line', { class: 'grid', x1: 10, x2: WIDTH - 10, y1: HEIGHT - FOOT, y2: HEIGHT - FOOT });
  return frame(`How long ${count(all)} keys took`, drawn, ground, axis);
}

/** Rows of name, bar, value: [{name, title, colour, value, text, part?, dim?}]. */
export function bars(rows) {
  const most = Math.max(1e-9, ...rows.map((row) => row.value));
  return h('table', { class: 'bars' }, h('tbody', {}, rows.map((row) =>
    h('tr', { title: row.title },
      h('th', { scope: 'row' }, row.name),
      h('td', { class: 'track' },
        h('span', { style: { width: `${(100 * row.value) / most}%`, background: row.colour } },
          row.part !== undefined && h('span', { style: { width: `${(100 * row.part) / Math.max(1e-9, row.value)}%`, background: row.inner } }))),
      h('td', {}, row.text)))));
}

/** One bar of shares: [{name, value, colour}]. */
export function shares(parts) {
  const all = parts.reduce((sum, part) => sum + part.value, 0);
  return h('div', { class: 'shares', role: 'img', 'aria-label': parts.map((p) => `${p.name} ${percent(p.value, all)}`).join(', ') },
    parts.map((part) => h('span', { title: `${part.name}: ${count(part.value)}`, style: { width: `${(100 * part.value) / all}%`, background: part.colour } })));
}

export function table(columns, rows) {
  return h('table', { class: 'figures' },
    h('thead', {}, h('tr', {}, columns.map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', {}, rows.map(([first, ...rest]) => h('tr', {}, h('th', { scope: 'row' }, first), rest.map((cell) => h('td', {}, cell))))));
}

/** A small square of a colour, beside a name. */
export const mark = (colour, words) => h('span', { class: 'mark' }, h('i', { style: { background: colour } }), words);
