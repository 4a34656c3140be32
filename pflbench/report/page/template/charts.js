"use strict";
/* Charts as SVG, drawn as wide as their box, so that text keeps its size on any screen. */

const HEIGHT = 210;
const [LEFT, RIGHT, TOP, BOTTOM] = [40, 10, 8, 36];
const COLOURS = ["var(--accent)", "var(--second)", "var(--third)", "var(--fourth)"];

function filled(node, attributes, content) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...content);
  return node;
}
const el = (tag, attributes = {}, ...content) => filled(document.createElement(tag), attributes, content);
const drawn = (tag, attributes = {}, ...content) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, content);
const known = (value) => value !== null && value !== undefined;

function ticks(low, high, number) {
  const power = 10 ** Math.floor(Math.log10((high - low) / number));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= (high - low) / number);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) found.push(Number((k * step).toPrecision(12)));
  return found;
}

/* Axes; `x` and `y` give the place of a value. */
function frame(box, [left, right], [low, high], label, said) {
  const width = Math.max(240, box.clientWidth);
  const x = (value) => LEFT + ((value - left) / (right - left || 1)) * (width - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low || 1)) * (HEIGHT - TOP - BOTTOM);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img", "aria-label": said, tabindex: "0" });
  for (const value of ticks(low, high, 4)) {
    svg.append(drawn("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
      drawn("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, String(value)));
  }
  for (const value of ticks(left, Math.max(right, left + 1), Math.min(6, width / 70)).filter((v) => Number.isInteger(v) && v <= right)) {
    svg.append(drawn("text", { x: x(value), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, String(value)));
  }
  svg.append(drawn("text", { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, label));
  return { svg, x, y, width };
}

/* Calls `mark` with the place that the pointer or the arrow keys are at, and with null when they leave. */
function follow(svg, xs, mark) {
  let at = null;
  const go = (place) => { at = place; mark(place); };
  const nearest = (x) => xs.reduce((best, other, place) => (Math.abs(other - x) < Math.abs(xs[best] - x) ? place : best), 0);
  svg.addEventListener("pointermove", (event) => go(nearest(event.clientX - svg.getBoundingClientRect().left)));
  svg.addEventListener("pointerleave", () => go(null));
  svg.addEventListener("blur", () => go(null));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    go(Math.min(xs.length - 1, Math.max(0, at === null ? (step > 0 ? 0 : xs.length - 1) : at + step)));
  });
}

function path(xs, ys) {
  let pen = "M";
  return xs.map((x, place) => {
    if (!known(ys[place])) { pen = "M"; return ""; }
    const step = `${pen}${x.toFixed(1)} ${ys[place].toFixed(1)}`;
    pen = "L";
    return step;
  }).join("");
}

/* A line for every series, that named `first` on top; values times `factor`. */
function curves(box, rounds, series, first, factor, digits) {
  const names = Object.keys(series).filter((name) => series[name].some(known)).sort((a, b) => (b === first) - (a === first));
  const scaled = Object.fromEntries(names.map((name) => [name, series[name].map((v) => (known(v) ? factor * v : null))]));
  const values = names.flatMap((name) => scaled[name]).filter(known);
  if (!values.length) return box.replaceChildren(el("p", { class: "soft" }, "No numbers."));
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = 0.04 * (high - low) || 0.5;
  const last = (name) => scaled[name].filter(known).at(-1);
  const said = names.map((name) => `${name}: ${last(name).toFixed(digits)} at the end`).join(", ");
  const { svg, x, y } = frame(box, [rounds[0], rounds.at(-1)], [low - room, high + room], "round", said);
  const xs = rounds.map(x);
  [...names].reverse().forEach((name) => {
    const colour = COLOURS[names.indexOf(name) % COLOURS.length];
    svg.append(drawn("path", { class: "line", style: `stroke: ${colour}`, d: path(xs, scaled[name].map((v) => (known(v) ? y(v) : null))) }));
    if (rounds.length === 1) svg.append(drawn("circle", { cx: xs[0], cy: y(last(name)), r: 3, style: `fill: ${colour}` }));
  });
  const cross = drawn("line", { class: "cross", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  svg.append(cross);
  const legend = el("p", { class: "legend" });
  const mark = (place) => {
    cross.setAttribute("visibility", place === null ? "hidden" : "visible");
    if (place !== null) filled(cross, { x1: xs[place], x2: xs[place] }, []);
    const number = (name) => (place === null ? last(name) : scaled[name][place]);
    legend.replaceChildren(el("span", {}, `round ${rounds[place ?? rounds.length - 1]}`), ...names.map((name, turn) =>
      el("span", {}, el("i", { style: `background: ${COLOURS[turn % COLOURS.length]}` }), `${name} ${known(number(name)) ? number(name).toFixed(digits) : "\u2013"}`)));
  };
  mark(null);
  follow(svg, xs, mark);
  box.replaceChildren(svg, legend);
}

/* A bar for every client, in percent, and their mean. */
function bars(box, values, sizes, accuracy) {
  const mean = 100 * accuracy;
  const { svg, x, y, width } = frame(box, [-0.5, values.length - 0.5], [0, 100], "client", `${values.length} clients, mean ${mean.toFixed(2)} %`);
  const step = (width - LEFT - RIGHT) / values.length;
  const rects = values.map((value, client) => drawn("rect", {
    class: "client", x: x(client) - 0.4 * step, width: 0.8 * step, y: y(100 * (value ?? 0)), height: y(0) - y(100 * (value ?? 0)),
  }));
  svg.append(...rects, drawn("line", { class: "cross", x1: LEFT, x2: width - RIGHT, y1: y(mean), y2: y(mean) }));
  const legend = el("p", { class: "legend" });
  const mark = (client) => {
    rects.forEach((rect, place) => rect.classList.toggle("chosen", place === client));
    if (client === null) return legend.replaceChildren(`mean ${mean.toFixed(2)}; move over a bar, or use the arrow keys`);
    const its = known(values[client]) ? `${(100 * values[client]).toFixed(2)} %` : "no test samples";
    const samples = `${sizes.train[client]} training and ${sizes.test[client]} test samples`;
    return legend.replaceChildren(`client ${client}: ${its}; ${samples}`);
  };
  mark(null);
  follow(svg, values.map((_, client) => x(client)), mark);
  box.replaceChildren(svg, legend);
}
