// Elements of the page, made of values; text is always text, never markup.

const SVG = 'http://www.w3.org/2000/svg';

/** h('p', {class: 'dim'}, 'words', child): attributes that are null are left out. */
export function h(name, attributes = {}, ...children) {
  return made(document.createElement(name), attributes, children);
}

export function s(name, attributes = {}, ...children) {
  return made(document.createElementNS(SVG, name), attributes, children);
}

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text ?? '');
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const $ = (selector) => document.querySelector(selector);
export const put = (where, ...children) => (typeof where === 'string' ? $(where) : where).replaceChildren(...children.flat(Infinity).filter(Boolean));
export const empty = (words) => h('p', { class: 'empty' }, words);
