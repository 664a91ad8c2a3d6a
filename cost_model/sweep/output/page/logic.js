// SPDX-License-Identifier: Apache-2.0
// What the report computes, apart from the page: filters, order, scales, breakdowns.
"use strict";

const Logic = (() => {
  /** Whether a cell passes a filter: {low, high} for numbers, {values} for texts. */
  function passes(cell, filter) {
    if (filter.values) return filter.values.includes(String(cell));
    if (cell === null) return filter.unknown !== false;
    return cell >= filter.low && cell <= filter.high;
  }

  /** Indices of the rows that pass every filter; `filters` maps a column's index to its filter. */
  function select(rows, filters) {
    const active = Object.entries(filters).map(([column, filter]) => [Number(column), filter]);
    const kept = [];
    rows.forEach((row, index) => {
      if (active.every(([column, filter]) => passes(row[column], filter))) kept.push(index);
    });
    return kept;
  }

  /** Least and greatest known number of a column, null if there is none. */
  function extent(rows, column) {
    let low = Infinity;
    let high = -Infinity;
    for (const row of rows) {
      const cell = row[column];
      if (cell === null) continue;
      if (cell < low) low = cell;
      if (cell > high) high = cell;
    }
    return low <= high ? [low, high] : null;
  }

  /** A function from [low, high] to [0, 1]; in decades if `log` and every number is positive. */
  function scale([low, high], log) {
    if (log && low > 0) {
      const span = Math.log(high / low);
      const map = (x) => (span ? Math.log(x / low) / span : 0.5);
      map.invert = (t) => low * Math.exp(t * span);
      return map;
    }
    const span = high - low;
    const map = (x) => (span ? (x - low) / span : 0.5);
    map.invert = (t) => low + t * span;
    return map;
  }

  /** Round numbers to mark on an axis. */
  function ticks([low, high], log) {
    if (log && low > 0 && high / low >= 10) {
      const found = [];
      for (let e = Math.ceil(Math.log10(low) - 1e-9); e <= Math.log10(high) + 1e-9; e++) {
        found.push(Number(`1e${e}`));
      }
      if (found.length > 2) return found;
      const first = Math.floor(Math.log10(low));
      return [0, 1, 2, 3]
        .flatMap((e) => [1, 2, 5].map((factor) => Number(`${factor}e${first + e}`)))
        .filter((t) => t >= low * (1 - 1e-9) && t <= high * (1 + 1e-9));
    }
    if (low === high) return [low];
    const rough = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
    const found = [];
    for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-12); i++) {
      found.push(Number((i * step).toPrecision(12)));
    }
    return found;
  }

  /** Row indices in the order of a column; what is not known comes last either way. */
  function sort(rows, indices, column, descending) {
    const sign = descending ? -1 : 1;
    return [...indices].sort((a, b) => {
      const [x, y] = [rows[a][column], rows[b][column]];
      if (x === y) return a - b;
      if (x === null) return 1;
      if (y === null) return -1;
      return x < y ? -sign : sign;
    });
  }

  /** Parts of a whole for one row: {name, value, share}, the largest first. */
  function breakdown(row, parts) {
    const known = parts
      .map(({ name, column }) => ({ name, value: row[column] }))
      .filter(({ value }) => value !== null && value > 0);
    const total = known.reduce((sum, { value }) => sum + value, 0);
    return known
      .map((part) => ({ ...part, share: part.value / total }))
      .sort((a, b) => b.value - a.value);
  }

  /** The first known cell of a column, null if there is none. */
  function firstKnown(rows, column) {
    return rows.find((row) => row[column] !== null)?.[column] ?? null;
  }

  /** Whether all rows with a cell in a column have the same. */
  function isConstant(rows, column) {
    const first = firstKnown(rows, column);
    return rows.every((row) => row[column] === null || row[column] === first);
  }

  /** Whether a range of positive numbers asks for an axis in decades. */
  function asksForLog(range) {
    return Boolean(range) && range[0] > 0 && range[1] / range[0] > 30;
  }

  /**
   * The column of the candidates with the most information: entropy of its values, in bits.
   * Columns that are known of all rows come first.
   */
  function mostVaried(rows, candidates) {
    const whole = candidates.filter((column) => rows.every((row) => row[column] !== null));
    if (whole.length && whole.length < candidates.length) return mostVaried(rows, whole);
    let best = { column: candidates[0], bits: -1 };
    for (const column of candidates) {
      const counts = new Map();
      for (const row of rows) counts.set(row[column], (counts.get(row[column]) ?? 0) + 1);
      let bits = 0;
      for (const count of counts.values()) bits -= (count / rows.length) * Math.log2(count / rows.length);
      if (bits > best.bits + 1e-9) best = { column, bits };
    }
    return best.column;
  }

  /** Pareto-optimal rows of two columns, by the first; `signs` are 1 to minimise, -1 to maximise. */
  function front(rows, indices, [x, y], [signX, signY]) {
    const known = indices.filter((i) => rows[i][x] !== null && rows[i][y] !== null);
    known.sort((a, b) => signX * (rows[a][x] - rows[b][x]) || signY * (rows[a][y] - rows[b][y]));
    let least = Infinity;
    return known.filter((i) => {
      const value = signY * rows[i][y];
      if (value >= least) return false;
      least = value;
      return true;
    });
  }

  /** The row nearest to the best of every goal: {column, sign}; null if none has all figures. */
  function nearest(rows, indices, goals) {
    const maps = goals.map(({ column, sign }) => {
      const range = extent(indices.map((i) => rows[i]), column);
      if (!range) return () => 0;
      const map = scale(range, asksForLog(range));
      return (value) => (range[0] === range[1] ? 0 : sign > 0 ? map(value) : 1 - map(value));
    });
    let best = null;
    let least = Infinity;
    for (const i of indices) {
      if (goals.some(({ column }) => rows[i][column] === null)) continue;
      const far = goals.reduce((sum, { column }, goal) => sum + maps[goal](rows[i][column]) ** 2, 0);
      if (far < least) [best, least] = [i, far];
    }
    return best;
  }

  /** A cell as text. */
  function text(cell) {
    if (cell === null) return "–";
    if (typeof cell !== "number") return String(cell);
    if (Number.isInteger(cell) && Math.abs(cell) < 1e7) return String(cell);
    return String(Number(cell.toPrecision(4)));
  }

  return {
    passes, select, extent, scale, ticks, sort, breakdown, firstKnown, isConstant, asksForLog, mostVaried, front, nearest, text,
  };
})();
