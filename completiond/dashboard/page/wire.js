// Talks to the dashboard's own server and to nobody else. The token comes in the link's fragment,
// which no browser sends anywhere, and is kept by this tab alone.

const KEPT = 'completiond.token';
const SILENT_MS = 10000;
const AGAIN_MS = [300, 700, 1500, 3000];

function taken() {
  const given = location.hash.slice(1);
  if (/^[\w-]{20,}$/.test(given)) {
    sessionStorage.setItem(KEPT, given);
    history.replaceState(null, '', '/');
  }
  return sessionStorage.getItem(KEPT) ?? '';
}

const token = taken();
const headers = { Authorization: `Bearer ${token}` };

export class Refused extends Error {}

async function said(response) {
  const told = await response.json().catch(() => ({}));
  return told.error || `The server says ${response.status}.`;
}

async function get(path, query = {}, signal = undefined) {
  const asked = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  const response = await fetch(`${path}?${asked}`, { headers, signal });
  if (response.status === 401) throw new Refused(await said(response));
  if (!response.ok) throw new Error(await said(response));
  return response;
}

export const ask = async (path, query, signal) => (await get(path, query, signal)).json();

/** Saves what the server makes of it under the name that the server says. */
export async function save(query) {
  const response = await get('/api/export', query);
  const name = /filename="([^"]+)"/.exec(response.headers.get('Content-Disposition'))?.[1];
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await response.blob());
  link.download = name ?? 'completiond';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Tells `on.record`, `on.daemon` and `on.state('live' | 'lost' | 'refused', words)` for ever. */
export async function listen(on) {
  for (let tries = 0; ; tries += 1) {
    try {
      await stream(on, () => { tries = 0; });
      on.state('lost', 'The dashboard’s server has ended.');
    } catch (error) {
      if (error instanceof Refused) return on.state('refused', error.message);
      on.state('lost', 'The dashboard’s server does not answer.');
    }
    await new Promise((done) => setTimeout(done, AGAIN_MS[Math.min(tries, AGAIN_MS.length - 1)]));
  }
}

async function stream(on, heard) {
  const stop = new AbortController();
  let silent = setTimeout(() => stop.abort(), SILENT_MS);
  try {
    const response = await get('/api/live', {}, stop.signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(silent);
      silent = setTimeout(() => stop.abort(), SILENT_MS);
      text += value;
      const events = text.split('\n\n');
      text = events.pop();
      events.forEach((event) => tell(on, heard, event));
    }
  } finally {
    clearTimeout(silent);
    stop.abort();
  }
}

function tell(on, heard, event) {
  const name = /^event: (\w+)$/m.exec(event)?.[1];
  const data = JSON.parse(/^data: (.*)$/m.exec(event)?.[1] ?? '{}');
  if (name === 'hello') { heard(); on.state('live', ''); }
  if (name === 'record') on.record();
  if (name === 'daemon') on.daemon(data);
}
