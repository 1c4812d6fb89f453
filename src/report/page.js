// The report page: fills its tables and answers pointer and keys on its charts. Embedded by CMake; keep it ASCII.
// Names come from the user's model: they reach the page through textContent alone.
(() => {
  'use strict';
  const data = JSON.parse(document.getElementById('data').textContent);
  const ROWS_A_PAGE = 25;
  const DASH = '\u2013';

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Numbers

  const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

  function scaled(value, base, units) {
    let unit = 0;
    while (unit + 1 < units.length && Math.abs(value) >= base) {
      value /= base;
      unit += 1;
    }
    return [value, units[unit]];
  }

  function bytesParts(bytes) {
    const [value, unit] = scaled(bytes, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
    return [unit === 'B' ? String(value) : value.toFixed(1), unit];
  }

  function secondsParts(seconds) {
    if (seconds === 0) return ['0', 's'];
    const [value, unit] = seconds < 0.9995 ? scaled(seconds * 1e6, 999.5, ['\u00b5s', 'ms']) : [seconds, 's'];
    return [value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0), unit];
  }

  // Tables

  const GOOD = new Set(['planned', 'yes']);
  const BAD = new Set(['refused', 'no']);

  const writers = {
    text(cell, value) {
      if (value === '') cell.append(element('span', 'none', DASH));
      else cell.textContent = value;
    },
    pill(cell, value) {
      cell.append(element('span', 'pill' + (GOOD.has(value) ? ' good' : BAD.has(value) ? ' bad' : ''), value || DASH));
    },
    bytes(cell, value) {
      const [number, unit] = bytesParts(value);
      cell.append(number, element('span', 'unit', unit));
      cell.title = grouped.format(value) + ' bytes';
    },
    seconds(cell, value) {
      const [number, unit] = secondsParts(value);
      cell.append(number, element('span', 'unit', unit));
      cell.title = value + ' s';
    },
    percent(cell, value) {
      cell.textContent = (100 * value).toFixed(1) + '%';
    },
    count(cell, value) {
      cell.textContent = grouped.format(value);
    },
    number(cell, value) {
      const size = Math.abs(value);
      cell.textContent = size === 0 || (size >= 1e-3 && size < 1e5) ? value.toFixed(4) : value.toExponential(3);
      cell.title = value;
    },
  };

  const collator = new Intl.Collator('en', { numeric: true });

  class Table {
    constructor(box) {
      this.rows = data.tables[box.dataset.table];
      this.noun = box.dataset.noun;
      this.heads = [...box.querySelectorAll('thead th')];
      this.kinds = this.heads.map((head) => head.dataset.kind);
      this.body = box.querySelector('tbody');
      this.count = box.querySelector('.count');
      this.pages = box.querySelector('.pages');
      this.page = 0;
      this.filter = '';
      this.ranks = [];
      this.order = this.rows.map((_, index) => index);
      this.heads.forEach((head, column) => {
        head.classList.add('is-' + head.dataset.kind);
        head.firstElementChild.addEventListener('click', () => this.press(column));
      });
      const input = box.querySelector('input');
      input.addEventListener('input', () => this.search(input.value));
      // What is seen at a glance needs no search.
      input.parentElement.hidden = this.rows.length <= 10;
      const [previous, next] = this.pages.querySelectorAll('button');
      previous.addEventListener('click', () => this.turn(-1));
      next.addEventListener('click', () => this.turn(1));
      const sorted = Number(box.dataset.sorted);
      if (sorted >= 0) this.sort(sorted, box.dataset.descending === 'true');
      this.draw();
    }

    // Each row's place in the order of a column; null is last in both directions. Found once for each column,
    // because comparing texts is what takes the time.
    rank(column) {
      if (!this.ranks[column]) {
        const key = (row) => this.rows[row][column];
        const isText = this.kinds[column] === 'text' || this.kinds[column] === 'pill';
        const compare = isText ? (a, b) => collator.compare(key(a), key(b)) : (a, b) => key(a) - key(b);
        const known = this.rows.map((_, row) => row).filter((row) => key(row) !== null).sort(compare);
        const ranks = new Array(this.rows.length).fill(null);
        known.forEach((row, place) => {
          ranks[row] = place > 0 && compare(known[place - 1], row) === 0 ? ranks[known[place - 1]] : place;
        });
        this.ranks[column] = ranks;
      }
      return this.ranks[column];
    }

    sort(column, descending) {
      const ranks = this.rank(column);
      const sign = descending ? -1 : 1;
      this.order.sort((a, b) => {
        if (ranks[a] === null || ranks[b] === null) return (ranks[a] === null) - (ranks[b] === null) || a - b;
        return sign * (ranks[a] - ranks[b]) || a - b;
      });
      this.heads.forEach((head, index) => {
        head.setAttribute('aria-sort', index !== column ? 'none' : descending ? 'descending' : 'ascending');
      });
    }

    // The first press gives what is usually wanted: large numbers first, texts from A.
    press(column) {
      const now = this.heads[column].getAttribute('aria-sort');
      const isText = this.kinds[column] === 'text' || this.kinds[column] === 'pill';
      this.sort(column, now === 'none' ? !isText : now === 'ascending');
      this.page = 0;
      this.draw();
    }

    search(text) {
      if (!this.texts) {
        this.texts = this.rows.map((row) => row.filter((cell) => cell !== null).join('\n').toLowerCase());
      }
      this.filter = text.trim().toLowerCase();
      this.page = 0;
      this.draw();
    }

    turn(by) {
      this.page += by;
      this.draw();
      this.body.closest('.scroll').scrollIntoView({ block: 'nearest' });
    }

    draw() {
      const found = this.filter ? this.order.filter((row) => this.texts[row].includes(this.filter)) : this.order;
      const first = this.page * ROWS_A_PAGE;
      const shown = found.slice(first, first + ROWS_A_PAGE);
      this.body.replaceChildren(...shown.map((row) => this.rowOf(this.rows[row])));
      if (found.length === 0) {
        const row = element('tr');
        row.append(element('td', 'empty', 'No ' + this.noun + ' has this text.'));
        row.firstChild.colSpan = this.heads.length;
        this.body.append(row);
      }
      const all = grouped.format(this.rows.length) + ' ' + this.noun + (this.rows.length === 1 ? '' : 's');
      this.count.textContent = this.filter ? grouped.format(found.length) + ' of ' + all : all;
      this.pages.hidden = found.length <= ROWS_A_PAGE;
      const [previous, next] = this.pages.querySelectorAll('button');
      previous.disabled = first === 0;
      next.disabled = first + ROWS_A_PAGE >= found.length;
      this.pages.querySelector('p').textContent = grouped.format(first + 1) + DASH +
          grouped.format(first + shown.length) + ' of ' + grouped.format(found.length);
    }

    rowOf(values) {
      const row = element('tr');
      values.forEach((value, column) => {
        const kind = this.kinds[column];
        const cell = element(column === 0 ? 'th' : 'td', 'is-' + kind);
        if (column === 0) cell.scope = 'row';
        if (value === null) cell.append(element('span', 'none', DASH));
        else writers[kind](cell, value);
        // Long words may break; short ones stay on their line.
        if (typeof value === 'string' && value.length > 28) cell.classList.add('wide');
        row.append(cell);
      });
      return row;
    }
  }

  document.querySelectorAll('[data-table]').forEach((box) => new Table(box));

  // Charts: a cursor that follows the pointer or the arrow keys, with what each line says there. Dragging across a
  // stretch, or the key +, looks closer; a double click, Escape or - goes back.

  class Cursor {
    constructor(frame) {
      this.plot = frame.querySelector('.plot');
      this.chart = data.charts[frame.dataset.chart];
      this.readout = frame.querySelector('.readout');
      this.places = [...new Set(this.chart.series.flatMap((line) => line.points.map((point) => point[0])))];
      this.places.sort((a, b) => a - b);
      this.at = -1;
      this.layer = element('div');
      this.layer.setAttribute('aria-hidden', 'true');
      this.plot.append(this.layer);
      this.window = [0, 1];
      this.dragged = null;
      this.picture = this.plot.querySelector('svg');
      // What stands at a place of the x axis, by that place; words before their mark are placed from the right.
      this.placed = [...frame.querySelectorAll('.x-ticks span, .plot .ring, .plot .mark, .plot .band-name')].map((node) => {
        const side = node.style.right ? 'right' : 'left';
        const part = parseFloat(node.style[side]) / 100;
        return { node, side, at: side === 'left' ? part : 1 - part, width: parseFloat(node.style.width) / 100 };
      });
      this.plot.addEventListener('pointermove', (event) => this.point(event));
      this.plot.addEventListener('pointerdown', (event) => {
        this.dragged = this.place(event);
        this.point(event);
      });
      this.plot.addEventListener('pointerup', (event) => this.drop(event));
      this.plot.addEventListener('dblclick', () => this.look(0, 1));
      this.plot.addEventListener('pointerleave', () => {
        this.dragged = null;
        this.hide();
      });
      frame.addEventListener('keydown', (event) => this.key(event));
      frame.addEventListener('blur', () => this.hide());
    }

    // The place of the x axis under the pointer.
    place(event) {
      const box = this.plot.getBoundingClientRect();
      const [from, to] = this.window;
      return from + (to - from) * (event.clientX - box.left) / box.width;
    }

    drop(event) {
      const [from, to] = [this.dragged, this.place(event)].sort((a, b) => a - b);
      const [low, high] = this.window;
      if (this.dragged !== null && to - from > 0.03 * (high - low)) this.look(from, to);
      this.dragged = null;
    }

    // Shows a stretch of the x axis.
    look(from, to) {
      const width = Math.min(1, Math.max(0.01, to - from));
      const start = Math.min(1 - width, Math.max(0, from));
      this.window = [start, start + width];
      this.picture.setAttribute('viewBox', `${1000 * start} 0 ${1000 * width} 1000`);
      this.plot.classList.toggle('close', width < 1);
      for (const { node, side, at, width: own } of this.placed) {
        const end = own > 0 ? at + own : at;
        const left = (Math.max(at, own > 0 ? start : at) - start) / width;
        node.hidden = end < start || at > start + width;
        node.style[side] = 100 * (side === 'left' ? left : 1 - left) + '%';
        if (own > 0) node.style.width = 100 * ((Math.min(end, start + width) - start) / width - left) + '%';
      }
      this.hide();
    }

    point(event) {
      const x = this.place(event);
      let nearest = 0;
      this.places.forEach((place, index) => {
        if (Math.abs(place - x) < Math.abs(this.places[nearest] - x)) nearest = index;
      });
      this.show(nearest);
    }

    key(event) {
      const last = this.places.length - 1;
      // A stride, so that hundreds of points are crossed in a few presses.
      const stride = event.shiftKey ? Math.max(1, Math.round(last / 20)) : 1;
      const to = { ArrowLeft: this.at - stride, ArrowRight: this.at + stride, Home: 0, End: last }[event.key];
      if (event.key === 'Escape') this.look(0, 1);
      if (event.key === '+' || event.key === '-') {
        const [from, to] = this.window;
        const middle = this.at >= 0 ? this.places[this.at] : (from + to) / 2;
        const half = (to - from) * (event.key === '+' ? 0.25 : 1);
        this.look(middle - half, middle + half);
      }
      if (to === undefined) return;
      event.preventDefault();
      this.show(Math.min(last, Math.max(0, to)));
      this.readout.textContent = this.layer.querySelector('.tip').dataset.spoken;
    }

    hide() {
      this.layer.replaceChildren();
    }

    // What a line says at x: its last point so far where it holds, its point right there otherwise.
    pointOf(line, x) {
      let found = null;
      for (const point of line.points) {
        if (point[0] > x) break;
        found = point;
      }
      const isOver = line.points.length > 0 && x > line.points[line.points.length - 1][0];
      return found && (line.steps ? !isOver : found[0] === x) ? found : null;
    }

    show(index) {
      this.at = index;
      const at = this.places[index];
      let [from, to] = this.window;
      if (at < from || at > to) {
        this.look(at - (to - from) / 2, at + (to - from) / 2);
        [from, to] = this.window;
      }
      const x = (at - from) / (to - from);
      const left = 100 * x + '%';
      const cursor = element('div', 'cursor');
      cursor.style.left = left;
      const tip = element('div', 'tip');
      const parts = [cursor, tip];
      let head = null;
      const spoken = [];
      for (const line of this.chart.series) {
        const point = this.pointOf(line, at);
        if (!point) continue;
        if (!head || point[0] === at) head = point[2];
        const dot = element('div', 'dot ' + line.style);
        dot.style.left = left;
        dot.style.bottom = 100 * point[1] + '%';
        parts.push(dot);
        const entry = element('div');
        entry.append(element('span', '', line.name), element('b', '', point[3]));
        tip.append(entry);
        spoken.push(line.name + ' ' + point[3]);
      }
      tip.prepend(element('p', '', this.chart.x + ' ' + head));
      tip.dataset.spoken = this.chart.x + ' ' + head + ': ' + spoken.join(', ');
      this.layer.replaceChildren(...parts);
      // Beside the cursor, on the side with room, and never outside the plot.
      const space = this.plot.clientWidth - tip.offsetWidth;
      const wanted = x * this.plot.clientWidth + (x > 0.5 ? -tip.offsetWidth - 12 : 12);
      tip.style.left = Math.min(Math.max(0, wanted), Math.max(0, space)) + 'px';
    }
  }

  document.querySelectorAll('[data-chart]').forEach((frame) => new Cursor(frame));
})();
