// SPDX-License-Identifier: Apache-2.0
// The page: every view shows the rows that pass the filters, and all share one chosen row.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { columns, rows } = data;
  const COLOURS = ["#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#57534e", "#0891b2"];
  const TABLE_ROWS = 200;
  const filters = {};
  const state = { chosen: null, kept: [], sorted: null, descending: false };
  const numeric = columns.map((c, i) => i).filter((i) => columns[i].numeric);
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

  function select(id, options, initial, change) {
    const list = $(id);
    options.forEach((i) => list.append(make("option", { value: i }, columns[i].name)));
    list.value = String(initial);
    list.addEventListener("change", change);
    return list;
  }

  const goals = data.objectives.map((o) => named[o.name]);
  const texts = columns.map((c, i) => i).filter((i) => !columns[i].numeric);
  const xList = select("x", numeric, goals[0], drawScatter);
  const yList = select("y", numeric, goals[1] ?? goals[0], drawScatter);
  const colourList = select("colour", [...texts, ...numeric], texts[0] ?? numeric[0], redraw);
  for (const [id, list] of [["xlog", xList], ["ylog", yList]]) {
    const range = Logic.extent(rows, Number(list.value));
    $(id).checked = Boolean(range) && range[0] > 0 && range[1] / range[0] > 30;
    $(id).addEventListener("change", drawScatter);
  }

  function colourOf() {
    const column = Number(colourList.value);
    if (columns[column].numeric) {
      const range = Logic.extent(rows, column);
      if (!range) return () => COLOURS[0];
      const map = Logic.scale(range, false);
      return (row) =>
        row[column] === null ? "#999" : `hsl(${250 - 210 * map(row[column])} 70% 45%)`;
    }
    const values = [...new Set(rows.map((row) => row[column]))];
    return (row) => COLOURS[values.indexOf(row[column]) % COLOURS.length];
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
        "aria-label": `${columns[column].name} ${which}`, class: which, oninput: update,
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
    const title = make("div", { class: "title" }, columns[column].name, label);
    return { element: make("div", { class: "filter" }, title, low, high), reset };
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
    const title = make("div", { class: "title" }, columns[column].name);
    return { element: make("div", { class: "filter" }, title, ...labels), reset };
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

  const WIDTH = 640;
  const HEIGHT = 420;
  const MARGIN = { left: 64, right: 16, top: 12, bottom: 44 };
  let circles = [];

  function drawScatter() {
    const plot = $("scatter");
    plot.replaceChildren();
    const sides = [[xList, "xlog"], [yList, "ylog"]].map(([list, box]) => {
      const column = Number(list.value);
      const range = Logic.extent(rows, column) ?? [0, 1];
      const log = $(box).checked;
      return { column, range, log, map: Logic.scale(range, log) };
    });
    const [x, y] = sides;
    const px = (value) => MARGIN.left + x.map(value) * (WIDTH - MARGIN.left - MARGIN.right);
    const py = (value) =>
      HEIGHT - MARGIN.bottom - y.map(value) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    const base = HEIGHT - MARGIN.bottom;
    for (const t of Logic.ticks(x.range, x.log)) {
      plot.append(
        make("line", { x1: px(t), x2: px(t), y1: MARGIN.top, y2: base, class: "grid" }),
        make("text", { x: px(t), y: base + 16, "text-anchor": "middle" }, Logic.text(t)),
      );
    }
    for (const t of Logic.ticks(y.range, y.log)) {
      plot.append(
        make("line", {
          x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: py(t), y2: py(t), class: "grid",
        }),
        make("text", { x: MARGIN.left - 6, y: py(t) + 4, "text-anchor": "end" }, Logic.text(t)),
      );
    }
    plot.append(
      make("text", { x: WIDTH / 2, y: HEIGHT - 6, "text-anchor": "middle" }, columns[x.column].name),
      make("text", {
        x: 14, y: HEIGHT / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${HEIGHT / 2})`,
      }, columns[y.column].name),
    );
    circles = rows.map((row, index) => {
      if (row[x.column] === null || row[y.column] === null) return null;
      const circle = make("circle", {
        cx: px(row[x.column]), cy: py(row[y.column]), r: 4, "data-row": index,
        onclick: () => choose(index),
      });
      plot.append(circle);
      return circle;
    });
    paint();
  }

  function paint() {
    const colour = colourOf();
    const kept = new Set(state.kept);
    circles.forEach((circle, index) => {
      if (!circle) return;
      circle.style.display = kept.has(index) ? "" : "none";
      circle.setAttribute("fill", colour(rows[index]));
      circle.classList.toggle("chosen", index === state.chosen);
    });
    const chosen = circles[state.chosen];
    if (chosen) chosen.parentNode.append(chosen); // above the others
  }

  // -- parallel coordinates -----------------------------------------------------------------

  const lanes = columns
    .map((c, i) => i)
    .filter((i) => columns[i].lane)
    .filter((i) => new Set(rows.map((row) => row[i])).size > 1);

  function drawParallel() {
    const canvas = $("parallel");
    const ratio = window.devicePixelRatio || 1;
    const width = Math.max(canvas.parentNode.clientWidth, lanes.length * 96);
    const height = 260;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    const [top, bottom] = [48, height - 18];
    const axes = lanes.map((column, place) => {
      const at = ((place + 0.5) * width) / lanes.length;
      if (columns[column].numeric) {
        const range = Logic.extent(rows, column) ?? [0, 1];
        const log = range[0] > 0 && range[1] / range[0] > 100;
        const map = Logic.scale(range, log);
        return { column, at, ends: range.map(Logic.text), y: (c) => bottom - map(c) * (bottom - top) };
      }
      const values = [...new Set(rows.map((row) => String(row[column])))].sort();
      const last = Math.max(values.length - 1, 1);
      return {
        column, at, ends: [values[0], values[values.length - 1]],
        y: (c) => bottom - (values.indexOf(String(c)) / last) * (bottom - top),
      };
    });
    const colour = colourOf();
    const path = (index) => {
      pen.beginPath();
      let open = false;
      for (const axis of axes) {
        const cell = rows[index][axis.column];
        if (cell === null) { open = false; continue; }
        if (open) pen.lineTo(axis.at, axis.y(cell));
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
      pen.strokeStyle = "#111";
      pen.lineWidth = 2.5;
      path(state.chosen);
      pen.lineWidth = 1;
    }
    pen.fillStyle = "#333";
    pen.strokeStyle = "#888";
    axes.forEach((axis, place) => {
      pen.beginPath();
      pen.moveTo(axis.at, top);
      pen.lineTo(axis.at, bottom);
      pen.stroke();
      pen.fillText(columns[axis.column].name, axis.at, place % 2 ? 12 : 28, width / lanes.length * 1.9);
      pen.fillText(axis.ends[0], axis.at, height - 4);
      pen.fillText(axis.ends[1], axis.at, 44);
    });
  }

  // -- table and details --------------------------------------------------------------------

  const listed = columns
    .map((c, i) => i)
    .filter((i) => columns[i].listed && rows.some((row) => row[i] !== null));

  function drawTable() {
    const head = make("tr", {}, ...listed.map((column) => {
      const arrow = state.sorted === column ? (state.descending ? " ▼" : " ▲") : "";
      return make("th", {
        onclick: () => {
          state.descending = state.sorted === column && !state.descending;
          state.sorted = column;
          drawTable();
        },
      }, columns[column].name + arrow);
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
    if (file) parts.push(make("code", {}, `hwgen build --config configs/${file}`));
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
      parts.push(make("h3", {}, whole), bar, legend);
    }
    const cells = columns
      .map((c, i) => i)
      .filter((i) => !columns[i].part && row[i] !== null && columns[i].name !== "config")
      .map((i) => make("tr", {}, make("th", {}, columns[i].name), make("td", {}, Logic.text(row[i]))));
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
    drawParallel();
    drawTable();
  }

  function refresh() {
    state.kept = Logic.select(rows, filters);
    $("count").textContent = `${state.kept.length} of ${rows.length} points`;
    redraw();
  }

  drawScatter();
  refresh();
  drawDetails();
  window.addEventListener("resize", drawParallel);
})();
