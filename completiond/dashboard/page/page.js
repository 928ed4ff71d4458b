// The page: what is asked for, when, and where it is put. Drawn by waterfall.js and panels.js.

import { $, empty, h, put } from './elements.js';
import { cards, engine } from './panels.js';
import { detail, draw, legend, none, onKey } from './waterfall.js';
import { Refused, ask, listen, save } from './wire.js';
import { MEASURED } from './words.js';

const THEME = 'completiond.theme';
const CHARTS_MS = 1000;
const ABOUT_MS = 5000;
const now = { keys: [], chosen: 0, daemon: { status: null, trouble: '' }, served: [], link: 'loading' };

const filters = () => Object.fromEntries([...new FormData($('#filters'))].filter(([, value]) => value));

// -- asking ----------------------------------------------------------------------------------------

/** Calls at once, and while it is called again too early, once more when the time has come. */
function seldom(call, every) {
  let [at, timer] = [-Infinity, 0];
  return () => {
    clearTimeout(timer);
    timer = setTimeout(() => { at = performance.now(); call(); }, Math.max(0, at + every - performance.now()));
  };
}

/** An answer that comes behind a newer question is dropped. */
function newest(call) {
  let number = 0;
  return async (...given) => {
    const mine = ++number;
    try {
      await call(() => mine === number, ...given);
      if (mine === number) notice('');
    } catch (error) {
      if (mine === number) wrong(error);
    }
  };
}

const keys = newest(async (current) => {
  const found = await ask('/api/keys', filters());
  if (!current()) return;
  now.keys = found.keys ?? [];
  draw(now.keys, now.chosen, choose);
  if (!now.keys.length) put('#waterfall', h('li', {}, nothing(found)));
});

const charts = newest(async (current) => {
  const found = await ask('/api/charts', { ...filters(), stage: $('#stage').value });
  if (!current()) return;
  $('#main').removeAttribute('aria-busy');
  document.body.classList.toggle('without', Boolean(found.empty));
  if (!found.empty) cards(found);
});

const about = newest(async (current) => {
  const found = await ask('/api/about');
  if (!current() || found.empty) return;
  now.served = found.served;
  for (const [name, texts] of Object.entries(found.names)) options(name, texts);
  $('[data-form=trace]').title = found.text ? '' : 'Needs completiond serve --record-text';
  engine(now.daemon, now.served);
});

const one = newest(async (current, number) => {
  const found = await ask(`/api/key/${number}`);
  if (current() && number === now.chosen) detail(found, () => choose(0));
});

const drawCharts = seldom(charts, CHARTS_MS);
const drawAbout = seldom(about, ABOUT_MS);

function refresh() {
  keys();
  drawCharts();
  drawAbout();
  if (now.chosen) one(now.chosen);
}

// -- what a person does ----------------------------------------------------------------------------

function choose(number) {
  const before = now.chosen;
  now.chosen = number === before ? 0 : number;
  draw(now.keys, now.chosen, choose);
  if (now.chosen) return one(now.chosen);
  none();
  $(`[data-key="${before}"]`)?.focus({ preventScroll: true });
}

function filtered() {
  $('#clear').hidden = !['language', 'editor', 'path'].some((name) => filters()[name]);
  keys();
  charts();
}

async function exported(form) {
  $('#save').open = false;
  const path = filters().path || now.keys.find((key) => key.key === now.chosen)?.path || now.keys[0]?.path;
  const asked = form === 'trace' ? { ...filters(), path } : { ...filters(), many: 100000 };
  try {
    await save({ ...asked, form });
    notice('');
  } catch (error) {
    wrong(error);
  }
}

function themed(theme) {
  document.documentElement.dataset.theme = theme;
  $('#theme').setAttribute('aria-pressed', String(theme === 'dark'));
}

// -- states ----------------------------------------------------------------------------------------

function notice(words) {
  $('#notice').textContent = words;
  $('#notice').hidden = !words;
}

function wrong(error) {
  if (error instanceof Refused) return linked('refused', error.message);
  if (error instanceof TypeError) return undefined; // no connection: the live link says so
  $('#main').removeAttribute('aria-busy');
  return notice(error.message);
}

function nothing(found) {
  if (found.empty) return empty('Nothing has been recorded yet. Start the daemon with completiond serve, connect an editor and type: each key appears here.');
  return empty('No key fits these filters.');
}

function linked(link, words) {
  now.link = link;
  document.body.dataset.link = link;
  if (link === 'refused') { notice(words); $('#main').removeAttribute('aria-busy'); }
  state(words);
}

/** Beside the title: the link to the server first, then the daemon. */
function state(words = '') {
  const { status } = now.daemon;
  const daemon = status ? status.state : 'no daemon';
  const said = { live: daemon === 'ready' ? 'live' : daemon, lost: 'connection lost', refused: 'no access', loading: 'loading …' }[now.link];
  const looks = now.link === 'live' ? (daemon === 'ready' ? 'good' : 'waits') : now.link === 'loading' ? 'waits' : 'bad';
  $('#state').className = looks;
  if ($('#state .words').textContent !== said) $('#state .words').textContent = said;
  $('#state').title = now.link === 'live' ? now.daemon.trouble : words;
  const of = status?.engine ?? now.served[0];
  put('#serves', of ? [of.model ?? status?.model, of.kernel, of.device].filter(Boolean).join(' · ') : '');
}

function options(name, texts) {
  const select = $(`#filters [name=${name}]`);
  if (!select || select.dataset.texts === JSON.stringify(texts)) return;
  const chosen = select.value;
  const kept = chosen && !texts.includes(chosen) ? [chosen] : [];
  put(select, h('option', { value: '' }, 'all'), [...kept, ...texts].map((text) => h('option', { value: text }, text)));
  select.value = chosen;
  select.dataset.texts = JSON.stringify(texts);
}

// -- the beginning ---------------------------------------------------------------------------------

const dark = matchMedia('(prefers-color-scheme: dark)');
themed(localStorage.getItem(THEME) ?? (dark.matches ? 'dark' : 'light'));
dark.addEventListener('change', () => localStorage.getItem(THEME) ?? themed(dark.matches ? 'dark' : 'light'));
$('#theme').addEventListener('click', () => {
  const theme = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
  localStorage.setItem(THEME, theme);
  themed(theme);
});
put('#stage', Object.entries(MEASURED).map(([name, words]) => h('option', { value: name }, words)));
$('#stage').addEventListener('change', charts);
$('#filters').addEventListener('change', filtered);
$('#filters').addEventListener('reset', () => setTimeout(filtered));
$('#filters').addEventListener('submit', (event) => event.preventDefault());
$('#waterfall').addEventListener('keydown', onKey);
document.addEventListener('keydown', ({ key }) => {
  if (key !== 'Escape') return;
  if ($('#save').open) $('#save').open = false;
  else if (now.chosen) choose(0);
});
document.addEventListener('click', ({ target }) => { if (!$('#save').contains(target)) $('#save').open = false; });
for (const button of document.querySelectorAll('[data-form]')) button.addEventListener('click', () => exported(button.dataset.form));

legend();
none();
refresh();
listen({
  record: refresh,
  daemon(said) {
    now.daemon = said;
    engine(said, now.served);
    state();
  },
  state: linked,
});
