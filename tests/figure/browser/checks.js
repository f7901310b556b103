// Looks at the page it runs in and returns a list of what is wrong. Details are opened first.
(leastElements) => {
  const problems = [];
  const say = (words) => problems.push(words);
  const name = (e) => e.tagName.toLowerCase() + (e.id ? '#' + e.id : '') + (typeof e.className === 'string' && e.className ? '.' + e.className : '') + ' "' + (e.textContent || '').trim().slice(0, 40) + '"';
  for (const d of document.querySelectorAll('details')) d.open = true;

  const isScroller = (e) => e.tabIndex === 0 && e.getAttribute('role') === 'region' && e.hasAttribute('aria-label') && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
  const inScroller = (e) => { for (; e; e = e.parentElement) if (isScroller(e)) return true; return false; };

  // Nothing wider than the page, nothing clipped.
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) say(`the page overflows sideways: ${document.documentElement.scrollWidth} > ${width}`);
  for (const e of document.body.querySelectorAll('*')) {
    if (e.closest('svg') || e.clientWidth === 0) continue;
    const place = e.getBoundingClientRect();
    if (isScroller(e) && (place.left < 4 || place.right > width - 4)) say(`scroll box at the page's edge: ${name(e)}`);
    if (!isScroller(e) && e.scrollWidth > e.clientWidth + 1) say(`overflows: ${name(e)}, ${e.scrollWidth} > ${e.clientWidth}`);
    const style = getComputedStyle(e);
    if (['hidden', 'clip'].includes(style.overflowY) && e.scrollHeight > e.clientHeight + 1) say(`is cut off below: ${name(e)}, ${e.scrollHeight} > ${e.clientHeight}`);
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const visibleTexts = [];
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const parent = n.parentElement;
    if (!n.data.trim() || parent.closest('svg,script,style')) continue;
    const range = document.createRange();
    range.selectNodeContents(n);
    const box = range.getBoundingClientRect();
    if (box.width === 0) { say(`text is not shown: ${name(parent)}`); continue; }
    visibleTexts.push(parent);
    if (!inScroller(parent) && (box.left < 4 || box.right > width - 4)) say(`text at or beyond the page's edge: ${name(parent)}, ${box.left} to ${box.right}`);
  }

  // Contrast of text against the nearest ground.
  const channels = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
  const luminance = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = channels(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0.99) return c;
    }
    return [255, 255, 255];
  };
  const ratio = (a, b) => { const [x, y] = [luminance(a), luminance(b)]; return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
  const contrast = (e, colour) => { const r = ratio(channels(colour), ground(e)); if (r < 4.5) say(`contrast ${r.toFixed(2)}: ${name(e)}`); };
  for (const e of visibleTexts) contrast(e, getComputedStyle(e).color);

  // Pictures.
  for (const svg of document.querySelectorAll('svg[role=img]')) {
    const frame = svg.getBoundingClientRect();
    const label = (svg.getAttribute('aria-labelledby') || '').split(' ').map((id) => document.getElementById(id)).filter((e) => e && e.textContent.trim());
    const title = label.length ? label[0].textContent : '(no name)';
    const drawn = [...svg.querySelectorAll('rect,line,polyline,polygon,path,circle,text')].filter((e) => !e.closest('defs'));
    if (label.length < 2) say(`a figure without title and description: ${title}`);
    if (frame.width < 20 || frame.height < 20) say(`figure is empty: ${title}, ${frame.width} × ${frame.height}`);
    if (drawn.length < leastElements) say(`figure has ${drawn.length} elements: ${title}`);
    for (const e of drawn) {
      const b = e.getBoundingClientRect();
      if (e.tagName !== 'text' && (b.left < frame.left - 2 || b.right > frame.right + 2 || b.top < frame.top - 2 || b.bottom > frame.bottom + 2)) say(`${e.tagName} leaves figure "${title}"`);
    }
    const texts = [...svg.querySelectorAll('text')].filter((t) => t.textContent.trim()).map((t) => ({ t, b: t.getBoundingClientRect() }));
    for (const { t, b } of texts) {
      if (b.left < frame.left - 1 || b.right > frame.right + 1 || b.top < frame.top - 2 || b.bottom > frame.bottom + 2) say(`text leaves figure "${title}": ${name(t)}`);
      if (parseFloat(getComputedStyle(t).fontSize) * (frame.width / svg.viewBox.baseVal.width) < 9) say(`text is too small in figure "${title}": ${name(t)}`);
      contrast(t, getComputedStyle(t).fill);
    }
    for (let i = 0; i < texts.length; ++i)
      for (let j = 0; j < i; ++j) {
        const [a, b] = [texts[i].b, texts[j].b];
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left), down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 0.3 * Math.min(a.height, b.height)) say(`texts overlap in figure "${title}": ${name(texts[i].t)} and ${name(texts[j].t)}`);
      }
  }

  // Structure.
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) say(`id twice: ${id}`);
  for (const e of document.querySelectorAll('[aria-labelledby]'))
    for (const id of e.getAttribute('aria-labelledby').split(' ')) if (!document.getElementById(id)) say(`aria-labelledby names no element: ${id}`);
  if (!document.documentElement.lang) say('the page has no lang');
  if (!document.title) say('the page has no title');
  if (document.querySelectorAll('main').length !== 1) say('not one main');
  let level = 0;
  for (const h of document.querySelectorAll('h1,h2,h3,h4,h5,h6')) {
    const next = Number(h.tagName[1]);
    if (next > level + 1) say(`heading skips a level: ${name(h)}`);
    level = next;
  }
  if (document.querySelectorAll('h1').length !== 1) say('not one h1');
  for (const t of document.querySelectorAll('table')) {
    if (!t.caption || !t.caption.textContent.trim()) say(`a table without a caption: ${name(t)}`);
    for (const h of t.querySelectorAll('th')) if (!h.scope) say(`a table head without scope: ${name(h)}`);
  }
  return problems;
}
