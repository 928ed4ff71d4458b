// Runs in the page: what each frame shows at the cursor, and when keys were pressed.
// `before`, `ghost`, `after` are the cursor's line; `more` are the ghost's lines below it.
(() => {
  const log = { keys: [], frames: [] };
  window.completiondLog = log;
  const EDITOR = '.editor-group-container.active .monaco-editor';
  const BELOW = '.view-zones .view-line, .suggest-preview-text .view-line';

  const clean = (text) => text.replace(/\u00a0/g, ' ').replace(/[\u200b\u200c]/g, '');
  const isGhost = (node) => /ghost-text/.test(node.className);

  function parts(line) {
    const found = { before: '', ghost: '', after: '' };
    for (const span of line.querySelectorAll('span > span')) {
      const place = isGhost(span) ? 'ghost' : found.ghost ? 'after' : 'before';
      found[place] += clean(span.textContent);
    }
    return found;
  }

  function look() {
    const editor = document.querySelector(EDITOR);
    const cursor = editor?.querySelector('.cursors-layer .cursor');
    if (!cursor) return null;
    const lines = [...editor.querySelectorAll('.lines-content > .view-lines > .view-line')];
    const here = lines.find((line) => line.style.top === cursor.style.top);
    const below = [...editor.querySelectorAll(BELOW)].filter((line) => line.querySelector('[class*=ghost-text]'));
    return { ...(here ? parts(here) : { before: '', ghost: '', after: '' }), more: below.map((line) => clean(line.textContent)) };
  }

  let last = '';
  function frame(now) {
    const seen = look();
    const text = JSON.stringify(seen);
    if (seen && text !== last) log.frames.push({ at: now, ...seen });
    last = text;
    requestAnimationFrame(frame);
  }
  requestAnimationFrame(frame);
  addEventListener('keydown', ({ timeStamp, key }) => log.keys.push({ at: timeStamp, key }), true);
})();
