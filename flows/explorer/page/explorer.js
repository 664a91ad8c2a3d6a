// SPDX-License-Identifier: Apache-2.0
// The explorer: controls on the left; messages, cycles, costs and pictures follow them.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const OPEN = ["", "array", "target", "compute", "compute.array"];
  const COSTS_AFTER_MS = 350; // after the last change
  let state = { workload: data.workloads[0], ...data.first, ...stored() };
  let change = 0; // number of the last change; answers to earlier ones are ignored
  let waiting = null;

  function stored() {
    try {
      return JSON.parse(decodeURIComponent(location.hash.slice(1))) ?? {};
    } catch {
      return {};
    }
  }

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (value !== false && value !== undefined) element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
  }

  async function ask(path, more = {}) {
    try {
      const answer = await fetch(path, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ ...state, ...more }),
      });
      if (!answer.ok) return { failed: await answer.text() };
      return await answer.json();
    } catch {
      return { failed: "no connection: hwgen explore has ended; start it again and reload this page" };
    }
  }

  // -- controls -----------------------------------------------------------------------------

  function set(field, value) {
    if (value === undefined) delete state.values[field];
    else state.values[field] = value;
    refresh();
  }

  /** Numbers at which a slider stops: all of a short range, powers of two and thirds of a long one. */
  function stops(low, high, whole) {
    const few = whole && high - low <= 64;
    if (few) return Array.from({ length: high - low + 1 }, (_, i) => low + i);
    const result = new Set([low, high]);
    const least = Math.max(low, whole ? 1 : high / 1e6, 1e-9);
    for (let base = 2 ** Math.floor(Math.log2(least)); base <= high; base *= 2) {
      for (const value of whole ? [base, base * 1.5] : [base, base * 1.25, base * 1.5, base * 1.75]) {
        const stop = whole ? Math.round(value) : Number(value.toPrecision(4));
        if (stop >= low && stop <= high) result.add(stop);
      }
    }
    return [...result].sort((a, b) => a - b);
  }

  function numberControl(control) {
    const points = stops(control.low, control.high, control.whole);
    const nearest = (value) =>
      points.reduce((best, stop, i) => (Math.abs(stop - value) < Math.abs(points[best] - value) ? i : best), 0);
    const known = typeof control.value === "number";
    const box = make("input", {
      type: "number", min: control.low, max: control.high, step: control.whole ? 1 : "any",
      value: known ? control.value : "", "data-field": control.field, "aria-label": control.field,
      placeholder: known ? "" : String(control.value ?? "none"),
      onchange: () => set(control.field, box.value === "" ? undefined : Number(box.value)),
    });
    const slider = make("input", {
      type: "range", min: 0, max: points.length - 1, step: 1, value: nearest(known ? control.value : control.low),
      "data-slider": control.field, "aria-label": `${control.field} slider`,
      oninput: () => {
        box.value = points[Number(slider.value)];
        set(control.field, points[Number(slider.value)]);
      },
    });
    const words = (control.words ?? []).map((word) => {
      const tick = make("input", {
        type: "checkbox", "data-word": control.field,
        onchange: () => set(control.field, tick.checked ? word : undefined),
      });
      tick.checked = control.value === word;
      return make("label", {}, tick, ` ${word}`);
    });
    return [make("div", { class: "row" }, slider, box, ...words)];
  }

  function choiceControl(control) {
    const list = make("select", {
      "data-field": control.field, "aria-label": control.field,
      onchange: () => set(control.field, control.choices[list.selectedIndex].value),
    }, ...control.choices.map(({ value, possible }) =>
      make("option", possible ? {} : { disabled: "" }, `${value ?? "none"}${possible ? "" : " (not with the others)"}`)));
    list.selectedIndex = control.choices.findIndex(({ value }) => value === control.value);
    return [list];
  }

  function otherControl(control) {
    if (control.style === "switch") {
      const tick = make("input", { type: "checkbox", "data-field": control.field, "aria-label": control.field,
        onchange: () => set(control.field, tick.checked) });
      tick.checked = control.value === true;
      return [tick];
    }
    if (control.style === "set") {
      const chosen = new Set(control.value ?? []);
      return control.choices.map((entry) => {
        const tick = make("input", { type: "checkbox", "data-field": control.field, value: entry,
          onchange: () => {
            if (tick.checked) chosen.add(entry); else chosen.delete(entry);
            set(control.field, control.choices.filter((each) => chosen.has(each)));
          } });
        tick.checked = chosen.has(entry);
        return make("span", {}, tick, ` ${entry} `);
      });
    }
    const box = make("input", { type: "text", value: control.value ?? "", "data-field": control.field,
      "aria-label": control.field, onchange: () => set(control.field, box.value === "" ? undefined : box.value) });
    return [box];
  }

  function drawControls(controls, problems) {
    const opened = new Set([...document.querySelectorAll("#groups details[open]")].map((d) => d.dataset.group));
    const drawn = document.querySelector("#groups details") !== null;
    const bad = new Set(problems.map((problem) => problem.field));
    const groups = new Map();
    for (const control of controls) {
      const group = control.field.split(".").slice(0, -1).join(".");
      if (!groups.has(group)) groups.set(group, []);
      const inputs = control.style === "number" ? numberControl(control)
        : control.style === "choice" ? choiceControl(control) : otherControl(control);
      const unit = control.unit ? ` ${control.unit}` : "";
      const range = control.style === "number" ? `${control.low} to ${control.high}${unit}` : "";
      groups.get(group).push(make("div", {
        class: `control${control.said ? " changed" : ""}${bad.has(control.field) ? " bad" : ""}`, title: control.description,
      }, make("label", {}, control.field.split(".").pop()), ...inputs, make("small", {}, range)));
    }
    const order = [...groups].sort(([a], [b]) => OPEN.includes(b) - OPEN.includes(a));
    $("groups").replaceChildren(...order.map(([group, members]) =>
      make("details", { "data-group": group, open: (drawn ? opened.has(group) : OPEN.includes(group)) ? "" : false },
        make("summary", {}, group === "" ? "formats and limits" : group), ...members)));
  }

  // -- results ------------------------------------------------------------------------------

  function list(problems) {
    $("messages").replaceChildren(...problems.map(({ field, message }) =>
      make("li", {}, field ? `${field}: ${message}` : message)));
  }

  /** The control in use stays: a slider must not be replaced while it moves. */
  const inUse = () => $("groups").contains(document.activeElement) && document.activeElement.type === "range";

  function show(answer) {
    const problems = answer.failed ? [{ field: "", message: answer.failed }] : answer.problems;
    list(problems);
    $("legal").textContent = problems.length ? `${problems.length} to correct` : "legal";
    if (answer.controls?.length) {
      if (inUse()) late = answer;
      else drawControls(answer.controls, problems);
    }
    if (answer.text !== undefined) $("yaml").textContent = answer.text;
    return problems.length === 0;
  }

  let late = null;
  document.addEventListener("change", (event) => {
    if (event.target.type !== "range" || late === null) return;
    const answer = late;
    late = null;
    setTimeout(() => drawControls(answer.controls, answer.problems));
  });

  function showCycles(answer) {
    $("cycles").classList.remove("pending");
    const wrong = answer.failed ?? answer.problems?.map((p) => `${p.field}: ${p.message}`).join("; ");
    $("cycles-name").textContent = answer.name ?? state.workload;
    $("cycles-number").textContent = wrong ? "–" : `${answer.text} cycles`;
    $("cycles-note").textContent = wrong ?? [answer.basis, answer.sizes].filter(Boolean).join(", ");
  }

  function showCosts(answer) {
    const wrong = answer.failed ?? answer.problems?.map((p) => (p.field ? `${p.field}: ${p.message}` : p.message)).join("; ");
    $("costs-status").textContent = wrong ?? answer.notes.join("; ");
    for (const id of ["tiles", "diagram", "timing"]) $(id).classList.remove("pending");
    if (wrong) {
      for (const id of ["tiles", "diagram", "timing"]) $(id).replaceChildren();
      return;
    }
    $("tiles").replaceChildren(...answer.tiles.map(([label, value, note]) =>
      make("div", { class: "tile" }, make("span", {}, label), make("b", {}, value), make("small", {}, note))));
    $("diagram").innerHTML = answer.diagram;
    $("timing").innerHTML = answer.timing;
  }

  async function refresh() {
    const number = ++change;
    history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(state))}`);
    clearTimeout(waiting);
    for (const id of ["cycles", "tiles", "diagram", "timing"]) $(id).classList.add("pending");
    $("costs-status").textContent = "pending";
    const answer = await ask("check");
    if (number !== change) return;
    $("summary").textContent = data.families.find(({ name }) => name === state.family)?.summary ?? "";
    $("next").textContent = `hwgen build -c ${state.name || `${state.family}_core`}.yaml`;
    const legal = show(answer);
    buildable = legal;
    enableBuild();
    if (!legal) {
      for (const id of ["tiles", "diagram", "timing"]) $(id).replaceChildren();
      $("costs-status").textContent = "none: the configuration is not legal";
      $("cycles-number").textContent = "–";
      $("cycles-note").textContent = "";
      return;
    }
    ask("cycles").then((result) => {
      if (number === change && !result.superseded) showCycles(result);
    });
    waiting = setTimeout(async () => {
      const result = await ask("costs");
      if (number === change && !result.superseded) showCosts(result);
    }, COSTS_AFTER_MS);
  }

  // -- build --------------------------------------------------------------------------------

  const POLL_MS = 300;
  let buildable = false;
  let building = false;
  let named = false; // whether the directory is the user's

  function enableBuild() {
    $("build").disabled = building || !buildable;
    if (!named) $("directory").value = `build/${state.name || `${state.family}_core`}`;
  }

  function showBuild(answer) {
    const { directory, seconds, text } = answer;
    const running = answer.state === "running";
    const said = {
      running: () => `building ${directory}: ${seconds.toFixed(0)} s`,
      done: () => `${directory} written in ${seconds.toFixed(1)} s`,
      failed: () => `not built: hwgen build has failed after ${seconds.toFixed(1)} s`,
    }[answer.state];
    $("build-status").textContent = answer.failed ?? said?.() ?? "";
    $("build-status").classList.toggle("bad", answer.failed !== undefined || answer.state === "failed");
    $("build-text").textContent = text ?? "";
    $("build-text").hidden = !text;
    building = running;
    enableBuild();
    if (running) setTimeout(async () => showBuild(await ask("progress")), POLL_MS);
  }

  // -- all together -------------------------------------------------------------------------

  $("family").append(...data.families.map(({ name }) => make("option", {}, name)));
  $("workloads").append(...data.workloads.map((value) => make("option", { value })));
  function restore() {
    $("family").value = state.family;
    $("name").value = state.name ?? "";
    $("workload").value = state.workload;
  }
  $("family").addEventListener("change", () => {
    state = { ...state, family: $("family").value, values: {} };
    $("groups").replaceChildren();
    refresh();
  });
  $("name").addEventListener("change", () => {
    state.name = $("name").value;
    refresh();
  });
  $("workload").addEventListener("change", () => {
    state.workload = $("workload").value;
    refresh();
  });
  $("folder").textContent = data.folder;
  $("directory").addEventListener("input", () => {
    named = $("directory").value !== "";
  });
  $("build").addEventListener("click", async () => {
    building = true;
    enableBuild();
    $("build-status").textContent = "pending";
    showBuild(await ask("build", { directory: $("directory").value }));
  });
  $("defaults").addEventListener("click", () => {
    state.values = {};
    refresh();
  });
  $("copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText($("yaml").textContent);
      $("copied").textContent = "copied";
    } catch {
      getSelection().selectAllChildren($("yaml"));
      $("copied").textContent = "selected; copy it with the keyboard";
    }
    setTimeout(() => ($("copied").textContent = ""), 3000);
  });
  restore();
  refresh();
  ask("progress").then(showBuild); // of a page that is loaded again
})();
