// SPDX-License-Identifier: Apache-2.0
// The page: every view shows the rows that pass the filters, and all share one chosen row.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { columns, rows } = data;
  const COLOURS = ["#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#57534e", "#0891b2"];
  const TABLE_ROWS = 200;
  const HIDDEN = ["index", "pareto", "config", "costs_of"]; // about points, not about hardware
  const filters = {};
  const state = { chosen: null, kept: [], sorted: null, descending: false };
  const varied = columns.map((c, i) => i).filter((i) => !Logic.isConstant(rows, i));
  const numeric = varied.filter((i) => columns[i].numeric);
  const named = Object.fromEntries(columns.map((c, i) => [c.name, i]));
  const $ = (id) => document.getElementById(id);

  function make(tag, attributes = {}, ...children) {
    const svg = ["svg", "circle", "line", "text", "g", "polyline", "rect"].includes(tag);
    const element = svg
      ? document.createElementNS("http://www.w3.org/2000/svg", tag)
      : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (value !== false) element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
  }

  // -- choices ------------------------------------------------------------------------------

  /** Label of a column with its unit. */
  const title = (i) => (columns[i].unit ? `${columns[i].label} (${columns[i].unit})` : columns[i].label);
  /** A colour of the style sheet: it follows the light or dark mode. */
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#888";

  function select(id, options, initial, change) {
    const list = $(id);
    options.forEach((i) => list.append(make("option", { value: i }, title(i))));
    list.value = String(initial);
    list.addEventListener("change", change);
    return list;
  }

  const every = rows.map((row, index) => index);
  const goals = data.objectives.map((o) => ({ column: named[o.name], sign: o.maximise ? -1 : 1 }));
  const signs = Object.fromEntries(goals.map(({ column, sign }) => [column, sign]));
  const parameters = varied.filter((i) => columns[i].parameter);
  const grouping = data.group_by.map((name) => named[name]);
  const axes = [...new Set([...goals.map(({ column }) => column), ...numeric])];
  const across = goals[0].column;
  const up = goals[1]?.column ?? numeric.find((i) => i !== across && columns[i].lane) ?? across;
  const first = grouping[0] ?? (parameters.length ? Logic.mostVaried(rows, parameters) : named.family);
  const xList = select("x", axes, across, () => setLog("xlog", xList));
  const yList = select("y", axes, up, () => setLog("ylog", yList));
  const colours = [...new Set([first, ...varied.filter((i) => !HIDDEN.includes(columns[i].name))])];
  const colourList = select("colour", colours, first, redraw);
  for (const [id, list] of [["xlog", xList], ["ylog", yList]]) {
    $(id).checked = Logic.asksForLog(Logic.extent(rows, Number(list.value)));
    $(id).addEventListener("change", drawScatter);
  }
  function setLog(id, list) {
    $(id).checked = Logic.asksForLog(Logic.extent(rows, Number(list.value)));
    drawScatter();
  }
  $("constants").textContent = columns
    .map((c, i) => ({ ...c, cell: Logic.firstKnown(rows, i), varies: varied.includes(i) }))
    .filter((c) => (c.parameter || c.listed) && !c.varies && c.cell !== null && !HIDDEN.includes(c.name))
    .map((c) => `${c.label} ${Logic.text(c.cell)}${c.unit ? ` ${c.unit}` : ""}`)
    .join(", ");

  function colourOf() {
    const column = Number(colourList.value);
    const few = new Set(rows.map((row) => row[column])).size <= COLOURS.length;
    if (columns[column].numeric && !few) {
      const range = Logic.extent(rows, column);
      if (!range) return () => COLOURS[0];
      const map = Logic.scale(range, false);
      return (row) =>
        row[column] === null ? "#999" : `hsl(${250 - 210 * map(row[column])} 70% 45%)`;
    }
    const values = valuesOf(column);
    return (row) => COLOURS[values.indexOf(row[column]) % COLOURS.length];
  }

  /** The different values of a column, in order. */
  function valuesOf(column) {
    const values = [...new Set(rows.map((row) => row[column]))];
    return values.sort((a, b) => (columns[column].numeric ? a - b : String(a).localeCompare(String(b))));
  }

  function drawLegend() {
    const column = Number(colourList.value);
    const colour = colourOf();
    const values = valuesOf(column).filter((value) => value !== null);
    const shown = values.length <= COLOURS.length ? values : [values[0], values[values.length >> 1], values.at(-1)];
    const sample = (value) => colour(rows.find((row) => row[column] === value));
    $("legend").replaceChildren(`${title(column)}: `, ...shown.map((value) =>
      make("span", { class: "entry", style: `--c:${sample(value)}` }, Logic.text(value))));
  }

  // -- filters ------------------------------------------------------------------------------

  function rangeFilter(column) {
    const range = Logic.extent(rows, column);
    if (!range || range[0] === range[1]) return null;
    const map = Logic.scale(range, range[0] > 0 && range[1] / range[0] > 100);
    const label = make("output");
    const slider = (which, value) =>
      make("input", {
        type: "range", min: 0, max: 1000, value, "data-column": columns[column].name,
        "aria-label": `${columns[column].label} ${which}`, class: which, oninput: update,
      });
    const [low, high] = [slider("least", 0), slider("most", 1000)];
    function update() {
      const [a, b] = [Number(low.value), Number(high.value)];
      if (a <= 0 && b >= 1000) delete filters[column];
      else {
        filters[column] = {
          low: a <= 0 ? range[0] : map.invert(a / 1000),
          high: b >= 1000 ? range[1] : map.invert(b / 1000),
          unknown: false,
        };
      }
      show();
      refresh();
    }
    function show() {
      const filter = filters[column] ?? { low: range[0], high: range[1] };
      label.textContent = `${Logic.text(filter.low)} … ${Logic.text(filter.high)}`;
    }
    show();
    const reset = () => {
      [low.value, high.value] = [0, 1000];
      delete filters[column];
      show();
    };
    const head = make("div", { class: "title" }, title(column), label);
    return { element: make("div", { class: "filter" }, head, low, high), reset };
  }

  function valueFilter(column) {
    const values = [...new Set(rows.map((row) => String(row[column])))].sort();
    if (values.length < 2) return null;
    const boxes = values.map((value) =>
      make("input", {
        type: "checkbox", checked: "", value, "data-column": columns[column].name,
        onchange: update,
      }),
    );
    function update() {
      const on = boxes.filter((box) => box.checked).map((box) => box.value);
      if (on.length === values.length) delete filters[column];
      else filters[column] = { values: on };
      refresh();
    }
    const reset = () => {
      boxes.forEach((box) => (box.checked = true));
      delete filters[column];
    };
    const labels = boxes.map((box) => make("label", {}, box, ` ${box.value}`));
    const head = make("div", { class: "title" }, title(column));
    return { element: make("div", { class: "filter" }, head, ...labels), reset };
  }

  const controls = columns
    .map((c, i) => (c.filter ? (c.numeric ? rangeFilter(i) : valueFilter(i)) : null))
    .filter((control) => control);
  $("filters").append(...controls.map((control) => control.element));
  $("reset").addEventListener("click", () => {
    controls.forEach((control) => control.reset());
    refresh();
  });

  // -- scatter ------------------------------------------------------------------------------

  const MARGIN = { left: 64, right: 16, top: 12, bottom: 44 };
  const SMALL = { left: 62, right: 10, top: 22, bottom: 38 };
  const technology = varied.includes(named["target.technology"]) ? named["target.technology"] : null;
  let charts = []; // the large one, then one for each technology

  /** Axes of all charts: the ranges of all points. */
  function axesShown() {
    return [[xList, "xlog"], [yList, "ylog"]].map(([list, box]) => {
      const column = Number(list.value);
      const range = Logic.extent(rows, column) ?? [0, 1];
      const log = $(box).checked;
      return { column, range, log, map: Logic.scale(range, log) };
    });
  }

  /** Draw axes and points; return what `paint` needs. */
  function drawChart(plot, width, height, margin, [x, y], members, radius) {
    plot.replaceChildren();
    plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const px = (value) => margin.left + x.map(value) * (width - margin.left - margin.right);
    const base = height - margin.bottom;
    const py = (value) => base - y.map(value) * (base - margin.top);
    const apart = (ticks) => (width < 420 && ticks.length > 5 ? ticks.filter((t, i) => i % 2 === 0) : ticks);
    for (const t of apart(Logic.ticks(x.range, x.log))) {
      plot.append(
        make("line", { x1: px(t), x2: px(t), y1: margin.top, y2: base, class: "grid" }),
        make("text", { x: px(t), y: base + 16, "text-anchor": "middle", class: "tick" }, Logic.text(t)),
      );
    }
    for (const t of apart(Logic.ticks(y.range, y.log))) {
      plot.append(
        make("line", { x1: margin.left, x2: width - margin.right, y1: py(t), y2: py(t), class: "grid" }),
        make("text", { x: margin.left - 6, y: py(t) + 4, "text-anchor": "end", class: "tick" }, Logic.text(t)),
      );
    }
    const middle = (margin.top + base) / 2;
    plot.append(
      make("text", { x: (margin.left + width - margin.right) / 2, y: height - 6, "text-anchor": "middle" }, title(x.column)),
      make("text", {
        x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})`,
      }, title(y.column)),
    );
    const lines = make("g", { class: "fronts" });
    plot.append(lines);
    const circles = new Map();
    for (const index of members) {
      const row = rows[index];
      if (row[x.column] === null || row[y.column] === null) continue;
      const circle = make("circle", {
        cx: px(row[x.column]), cy: py(row[y.column]), r: radius, "data-row": index,
        onclick: () => choose(index),
      });
      plot.append(circle);
      circles.set(index, circle);
    }
    return { circles, lines, x: x.column, y: y.column, px, py };
  }

  function drawScatter() {
    const sides = axesShown();
    const plot = $("scatter");
    // Drawn at the size at which it is shown, so that texts can be read on a phone.
    const width = Math.max(300, plot.parentNode.clientWidth - 24);
    const height = Math.round(Math.min(520, Math.max(300, 0.62 * width)));
    charts = [drawChart(plot, width, height, MARGIN, sides, every, 4), ...drawMultiples(sides)];
    paint();
  }

  /** Draw a small chart for each technology, where there are several; axes are common. */
  function drawMultiples(sides) {
    const box = $("multiples");
    if (technology === null) {
      box.parentNode.hidden = true;
      return [];
    }
    const whole = Math.max(300, box.parentNode.clientWidth - 24);
    const values = valuesOf(technology);
    const across = Math.min(values.length, Math.max(1, Math.floor(whole / 300)));
    const width = Math.min(440, Math.floor((whole - 12 * (across - 1)) / across));
    box.style.gridTemplateColumns = `repeat(${across}, ${width}px)`;
    const plots = values.map((value) => {
      const members = every.filter((index) => rows[index][technology] === value);
      const label = `${value}: ${members.length} point${members.length === 1 ? "" : "s"}`;
      const plot = make("svg", { class: "multiple", role: "img", "aria-label": label, "data-technology": value });
      const chart = drawChart(plot, width, Math.round(0.72 * width), SMALL, sides, members, 3);
      plot.append(make("text", { x: SMALL.left, y: 14, class: "name" }, label));
      return [plot, chart];
    });
    box.replaceChildren(...plots.map(([plot]) => plot));
    return plots.map(([, chart]) => chart);
  }

  function paint() {
    const colour = colourOf();
    const kept = new Set(state.kept);
    for (const chart of charts) {
      for (const [index, circle] of chart.circles) {
        circle.style.display = kept.has(index) ? "" : "none";
        circle.setAttribute("fill", colour(rows[index]));
        circle.classList.toggle("chosen", index === state.chosen);
      }
      drawFronts(chart, colour);
      const chosen = chart.circles.get(state.chosen);
      if (chosen) chosen.parentNode.append(chosen); // above the others
    }
  }

  /** The Pareto line of the rows shown, one for each group, where both axes are objectives. */
  function drawFronts({ circles, lines, x, y, px, py }, colour) {
    lines.replaceChildren();
    if (signs[x] === undefined || signs[y] === undefined || x === y) return;
    const groups = new Map();
    for (const index of state.kept) {
      if (!circles.has(index)) continue;
      const value = grouping.map((i) => Logic.text(rows[index][i])).join(", ");
      if (!groups.has(value)) groups.set(value, []);
      groups.get(value).push(index);
    }
    for (const [value, members] of groups) {
      const best = Logic.front(rows, members, [x, y], [signs[x], signs[y]]);
      const points = best.flatMap((index, place) => {
        const [a, b] = [px(rows[index][x]), py(rows[index][y])];
        return place ? [`${a},${py(rows[best[place - 1]][y])}`, `${a},${b}`] : [`${a},${b}`];
      });
      const byGroup = grouping.includes(Number(colourList.value));
      const line = make("polyline", {
        class: "front", points: points.join(" "), "data-group": value, "data-points": best.length,
      });
      if (byGroup && best.length) line.style.stroke = colour(rows[best[0]]);
      lines.append(line);
    }
  }

  // -- parallel coordinates -----------------------------------------------------------------

  const [LANE, ROW] = [88, 260]; // least width of a lane, height of a row of them
  const lanes = varied.filter((i) => columns[i].lane);

  function drawParallel() {
    const canvas = $("parallel");
    const ratio = window.devicePixelRatio || 1;
    const width = Math.max(280, canvas.parentNode.clientWidth - 24); // without its padding
    // Lanes that do not fit stand in further rows, each of which begins with the last lane before.
    const most = Math.max(2, Math.floor(width / LANE));
    const groups = Math.max(1, Math.ceil((lanes.length - 1) / (most - 1)));
    const each = Math.ceil((lanes.length - 1) / groups);
    const height = ROW * groups;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    const placed = Array.from({ length: groups }, (_, row) =>
      lanes.slice(row * each, row * each + each + 1).map((column, place) => ({ column, place, row }))).flat();
    const step = width / (Math.min(each, lanes.length - 1) + 1);
    const sides = placed.map(({ column, place, row }) => {
      const at = (place + 0.5) * step;
      const [top, bottom] = [row * ROW + 48, row * ROW + ROW - 18];
      if (columns[column].numeric) {
        const range = Logic.extent(rows, column) ?? [0, 1];
        const log = range[0] > 0 && range[1] / range[0] > 100;
        const map = Logic.scale(range, log);
        return { column, at, place, top, bottom, ends: range.map(Logic.text), y: (c) => bottom - map(c) * (bottom - top) };
      }
      const values = [...new Set(rows.map((row) => String(row[column])))].sort();
      const last = Math.max(values.length - 1, 1);
      return {
        column, at, place, top, bottom, ends: [values[0], values[values.length - 1]],
        y: (c) => bottom - (values.indexOf(String(c)) / last) * (bottom - top),
      };
    });
    const colour = colourOf();
    const path = (index) => {
      pen.beginPath();
      let open = false;
      for (const axis of sides) {
        const cell = rows[index][axis.column];
        if (cell === null) { open = false; continue; }
        if (open && axis.place) pen.lineTo(axis.at, axis.y(cell));
        else pen.moveTo(axis.at, axis.y(cell));
        open = true;
      }
      pen.stroke();
    };
    pen.globalAlpha = Math.max(0.08, Math.min(0.7, 60 / state.kept.length));
    for (const index of state.kept) {
      pen.strokeStyle = colour(rows[index]);
      path(index);
    }
    pen.globalAlpha = 1;
    if (state.chosen !== null) {
      pen.strokeStyle = ink("--ink");
      pen.lineWidth = 2.5;
      path(state.chosen);
      pen.lineWidth = 1;
    }
    pen.fillStyle = ink("--ink");
    pen.strokeStyle = ink("--soft");
    for (const { column, at, place, top, bottom, ends } of sides) {
      pen.beginPath();
      pen.moveTo(at, top);
      pen.lineTo(at, bottom);
      pen.stroke();
      // Names stand in two lines, alternately; one at a side begins or ends there.
      const widest = Math.min(step * 1.9, 2 * Math.min(at, width - at) + step * 0.8);
      const half = Math.min(widest, pen.measureText(title(column)).width) / 2;
      const centre = Math.min(Math.max(at, half + 2), width - half - 2);
      pen.fillText(title(column), centre, top - (place % 2 ? 36 : 20), widest);
      pen.fillText(ends[0], at, bottom + 14, step);
      pen.fillText(ends[1], at, top - 4, step);
    }
  }

  // -- table and details --------------------------------------------------------------------

  const listed = varied.filter((i) => columns[i].listed && rows.some((row) => row[i] !== null));

  function drawTable() {
    const head = make("tr", {}, ...listed.map((column) => {
      const arrow = state.sorted === column ? (state.descending ? " ▼" : " ▲") : "";
      return make("th", {
        onclick: () => {
          state.descending = state.sorted === column && !state.descending;
          state.sorted = column;
          drawTable();
        },
      }, title(column) + arrow);
    }));
    const order = state.sorted === null
      ? state.kept
      : Logic.sort(rows, state.kept, state.sorted, state.descending);
    const body = order.slice(0, TABLE_ROWS).map((index) =>
      make("tr", {
        "data-row": index, class: index === state.chosen ? "chosen" : "",
        onclick: () => choose(index),
      }, ...listed.map((column) =>
        make("td", { class: columns[column].numeric ? "number" : "" }, Logic.text(rows[index][column])))));
    $("table").replaceChildren(make("thead", {}, head), make("tbody", {}, ...body));
    $("cut").textContent = order.length > TABLE_ROWS
      ? `The first ${TABLE_ROWS} of ${order.length}; narrow the filters to see others.` : "";
  }

  function drawDetails() {
    const box = $("details");
    if (state.chosen === null) {
      box.replaceChildren(make("p", { class: "hint" }, "Click a point for its details."));
      return;
    }
    const row = rows[state.chosen];
    const file = named.config === undefined ? null : row[named.config];
    const parts = [make("h2", {}, file ?? `point ${Logic.text(row[named.index])}`)];
    if (state.chosen === state.preselected) {
      parts.push(make("p", { class: "hint" }, "Preselected: nearest to the best of every objective. Click another point."));
    }
    if (file) parts.push(make("code", {}, `hwgen build --config ${data.folder}${file}`));
    for (const [whole, names] of Object.entries(data.breakdowns)) {
      const shares = Logic.breakdown(row, names.map((n) => ({ name: n.part, column: named[n.name] })));
      if (!shares.length) continue;
      const bar = make("div", { class: "bar" }, ...shares.map((part, i) =>
        make("span", {
          style: `width:${100 * part.share}%;background:${COLOURS[i % COLOURS.length]}`,
          title: `${part.name}: ${Logic.text(part.value)}`,
        })));
      const legend = make("ul", {}, ...shares.map((part, i) =>
        make("li", { style: `--c:${COLOURS[i % COLOURS.length]}` },
          `${part.name} ${Logic.text(part.value)} (${(100 * part.share).toFixed(1)} %)`)));
      parts.push(make("h3", {}, named[whole] === undefined ? whole : title(named[whole])), bar, legend);
    }
    const cells = columns
      .map((c, i) => i)
      .filter((i) => !columns[i].part && row[i] !== null && columns[i].name !== "config")
      .map((i) => make("tr", {}, make("th", {}, title(i)), make("td", {}, Logic.text(row[i]),
        ...(columns[i].note ? [make("div", { class: "hint" }, columns[i].note)] : []))));
    parts.push(make("table", {}, ...cells));
    box.replaceChildren(...parts);
  }

  // -- all together -------------------------------------------------------------------------

  function choose(index) {
    state.chosen = index;
    redraw();
    drawDetails();
  }

  function redraw() {
    paint();
    drawLegend();
    drawParallel();
    drawTable();
  }

  function refresh() {
    state.kept = Logic.select(rows, filters);
    $("count").textContent = `${state.kept.length} of ${rows.length} points`;
    redraw();
  }

  const optimal = every.filter((index) => named.pareto === undefined || rows[index][named.pareto] === true);
  state.preselected = state.chosen = Logic.nearest(rows, optimal, goals);
  state.kept = every;
  drawScatter();
  refresh();
  drawDetails();
  const draw = () => {
    drawScatter();
    redraw();
  };
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
