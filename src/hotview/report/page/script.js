"use strict";
(function () {
  const root = document.documentElement;

  function isDark() {
    const chosen = root.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  const theme = document.querySelector("button.theme");
  function nameTheme() {
    theme.textContent = isDark() ? "Light theme" : "Dark theme";
    theme.setAttribute("aria-pressed", String(isDark()));
  }
  theme.addEventListener("click", function () {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
  nameTheme();

  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async function () {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch (error) { // files opened from disk may not write to the clipboard everywhere
        getSelection().selectAllChildren(code);
        button.textContent = "Selected: press Ctrl+C";
      }
    });
  }

  const cloud = document.getElementById("cloud");
  if (!cloud) return;
  const data = JSON.parse(document.getElementById("points").textContent);
  const drawing = cloud.querySelector(".cloud");
  const bond = cloud.querySelector(".bond");
  const tip = cloud.querySelector(".tip");
  const status = cloud.querySelector(".status");
  const marks = [];
  for (const mark of drawing.querySelectorAll("[data-i]")) marks[Number(mark.dataset.i)] = mark;
  const hidden = new Set();
  let places = data.layouts[0];
  let current = -1;

  function peers(i) { // points of the same individual, in views that are shown
    const found = [];
    data.individual.forEach(function (who, j) {
      if (who === data.individual[i] && !hidden.has(data.view[j])) found.push(j);
    });
    return found;
  }

  function describe(i) {
    const lines = [data.ids[data.individual[i]], "view: " + data.views[data.view[i]]];
    if (data.truth[i] >= 0) lines.push("class: " + data.classes[data.truth[i]]);
    if (data.predicted[i] >= 0) lines.push("predicted: " + data.classes[data.predicted[i]]);
    return lines;
  }

  function clear() {
    for (const mark of drawing.querySelectorAll(".on")) mark.classList.remove("on");
    cloud.classList.remove("lit");
    tip.hidden = true;
    current = -1;
  }

  function light(i) {
    if (i === current) return;
    clear();
    current = i;
    const group = peers(i);
    for (const j of group) marks[j].classList.add("on");
    cloud.classList.add("lit");
    const center = places[i];
    bond.setAttribute("d", group.map(function (j) {
      return "M" + center.join(" ") + "L" + places[j].join(" ");
    }).join(""));
    const lines = describe(i);
    tip.textContent = lines.join("\n");
    status.textContent = lines.join(", ") + (data.linked ? ", in " + group.length + " views" : "");
    tip.hidden = false;
    const box = drawing.getBoundingClientRect();
    const unit = box.width / drawing.viewBox.baseVal.width;
    const x = center[0] * unit, y = center[1] * unit;
    tip.style.left = Math.max(0, Math.min(x + 12, box.width - tip.offsetWidth)) + "px";
    tip.style.top = (y + 14 + tip.offsetHeight > box.height ? y - 14 - tip.offsetHeight : y + 14) + "px";
  }

  function nearest(event) {
    const box = drawing.getBoundingClientRect();
    const unit = drawing.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * unit, y = (event.clientY - box.top) * unit;
    let best = -1, least = Math.pow(14 * unit, 2);
    places.forEach(function (place, i) {
      if (hidden.has(data.view[i])) return;
      const far = Math.pow(place[0] - x, 2) + Math.pow(place[1] - y, 2);
      if (far < least) { least = far; best = i; }
    });
    return best;
  }

  function point(event) {
    const i = nearest(event);
    if (i >= 0) light(i); else clear();
  }
  drawing.addEventListener("pointermove", point);
  drawing.addEventListener("pointerdown", point);
  drawing.addEventListener("pointerleave", clear);
  drawing.addEventListener("blur", clear);

  const shown = function (i) { return !hidden.has(data.view[i]); };
  function move(step, sameIndividual) {
    const n = data.view.length;
    let start = current < 0 ? (step > 0 ? -1 : n) : current;
    for (let k = 1; k <= n; k++) {
      const i = ((start + step * k) % n + n) % n;
      const same = current >= 0 && data.individual[i] === data.individual[current];
      const inView = current < 0 || data.view[i] === data.view[current];
      if (shown(i) && (sameIndividual ? same || current < 0 : inView)) return light(i);
    }
  }
  drawing.addEventListener("keydown", function (event) {
    const steps = { ArrowRight: [1, false], ArrowLeft: [-1, false], ArrowDown: [1, true], ArrowUp: [-1, true] };
    if (event.key === "Escape") clear();
    if (!(event.key in steps)) return;
    event.preventDefault();
    move.apply(null, steps[event.key]);
  });

  cloud.addEventListener("change", function (event) {
    const input = event.target;
    clear();
    if (input.name === "color") {
      cloud.classList.remove("by-view", "by-class", "by-predicted");
      cloud.classList.add("by-" + input.value);
    } else if (input.name === "layout") {
      places = data.layouts[Number(input.value)];
      marks.forEach(function (mark, i) { place(mark, places[i], data.layouts[0][i]); });
      for (const note of cloud.querySelectorAll(".axes")) note.hidden = note.dataset.layout !== input.value;
    } else {
      const s = Number(input.value);
      if (input.checked) hidden.delete(s); else hidden.add(s);
      drawing.querySelector(".of-" + s).classList.toggle("off", !input.checked);
    }
  });

  function place(mark, to, from) { // other shapes than circles are moved from where they were drawn
    if (mark.tagName === "circle") {
      mark.setAttribute("cx", to[0]);
      mark.setAttribute("cy", to[1]);
    } else {
      mark.setAttribute("transform", "translate(" + (to[0] - from[0]) + " " + (to[1] - from[1]) + ")");
    }
  }
})();
