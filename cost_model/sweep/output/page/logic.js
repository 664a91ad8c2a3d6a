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
      return found;
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

  /** A cell as text. */
  function text(cell) {
    if (cell === null) return "–";
    if (typeof cell !== "number") return String(cell);
    if (Number.isInteger(cell) && Math.abs(cell) < 1e7) return String(cell);
    return String(Number(cell.toPrecision(4)));
  }

  return { passes, select, extent, scale, ticks, sort, breakdown, text };
})();
