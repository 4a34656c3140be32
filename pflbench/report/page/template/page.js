/* What came from users (names, reasons, notes) is only ever set as text, never as markup. */

const DATA = JSON.parse(document.getElementById("data").textContent);
const DASH = "\u2013";

const percent = (value) => (known(value) ? (100 * value).toFixed(2) : DASH);
const brief = (value) => (known(value) ? String(Number(value.toPrecision(3))) : DASH);
const sent = (run) => (run.round ? Object.values(run.megabytes).reduce((sum, value) => sum + value, 0) : null);

/* Light and dark: as the system has it until the reader chooses. */

function themed() {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const named = () => { button.textContent = dark() ? "Light" : "Dark"; };
  try { root.dataset.theme = localStorage.getItem("pflbench-theme") || ""; } catch { /* a page from disk may have no storage */ }
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("pflbench-theme", root.dataset.theme); } catch { /* then it is not remembered */ }
    named();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", named);
  named();
}

/* Tables: by number where a cell has one, else by text; what has no number stays last. A third click restores. */

function sortable(table) {
  const heads = [...table.querySelectorAll("th:has(.sort)")];
  const rows = [...table.tBodies[0].rows];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const numeric = rows.some((row) => "n" in row.cells[column].dataset);
    const turns = numeric ? ["descending", "ascending"] : ["ascending", "descending"];
    const turn = turns[turns.indexOf(head.getAttribute("aria-sort")) + 1];
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    if (turn) head.setAttribute("aria-sort", turn);
    table.tBodies[0].append(...(turn ? [...rows].sort(by(column, numeric, turn === "ascending" ? 1 : -1)) : rows));
  }));
}

function by(column, numeric, sign) {
  return (one, other) => {
    const [a, b] = [one.cells[column], other.cells[column]];
    if (!numeric) return sign * a.textContent.localeCompare(b.textContent, undefined, { numeric: true });
    if ("n" in a.dataset && "n" in b.dataset) return sign * (Number(a.dataset.n) - Number(b.dataset.n));
    return ("n" in b.dataset) - ("n" in a.dataset);
  };
}

function filterable(input, table, found, also = () => true) {
  const rows = [...table.tBodies[0].rows];
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const text = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
      row.hidden = !(words.every((word) => text.includes(word)) && also(row));
    }
    const shown = rows.filter((row) => !row.hidden).length;
    found.hidden = shown === rows.length;
    found.textContent = `${shown} of ${rows.length} rows`;
  };
  input.addEventListener("input", apply);
  return apply;
}

/* Copies and files. */

function say(button, text) {
  const before = button.dataset.label || button.textContent;
  button.dataset.label = before;
  button.textContent = text;
  document.getElementById("announcement").textContent = text;
  clearTimeout(button.timer);
  button.timer = setTimeout(() => { button.textContent = before; }, 1500);
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { /* not allowed, or an old browser */
    const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    button.focus();
    if (!done) return say(button, "Not copied");
  }
  say(button, "Copied");
}

function save(name, address) {
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

function saveText(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  save(name, address);
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

const ENDINGS = { latex: ".tex", csv: ".csv", markdown: ".md" };
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const { copy: form, copyText, save: kind, table, picture, run } = button.dataset;
  const section = button.closest("section");
  if (form) copy(DATA.files[section.id][table][form], button);
  if (copyText) copy(copyText, button);
  if (kind) saveText(`${section.dataset.name}-${table}${ENDINGS[kind]}`, DATA.files[section.id][table][kind]);
  if (picture) save(`${section.dataset.name}-${picture}.png`, button.closest("figure").querySelector("img").src);
  if (run) show(run);
});

/* The list of single runs, made when it is opened. */

const COLUMNS = [
  ["Method", (run) => run.method],
  ["Scenario", (run, scenario) => scenario],
  ["Variant", (run, scenario, variant) => variant],
  ["Seed", (run) => String(run.config.seed), (run) => run.config.seed],
  ["Status", (run) => run.status],
  ["Accuracy %", (run) => percent(run.accuracy), (run) => run.accuracy],
  ["Std over clients", (run) => percent(run.std), (run) => run.std],
  ["Rounds", (run) => `${run.round} of ${run.config.rounds}`, (run) => run.round],
  ["MB per round", (run) => brief(sent(run)), sent],
  ["Seconds per round", (run) => brief(run.seconds.wall), (run) => run.seconds.wall],
];

function listed(box) {
  const places = DATA.experiments[box.dataset.experiment].runs;
  const columns = COLUMNS.filter(([name]) => name !== "Variant" || places.some(([, , variant]) => variant));
  const kind = (number, place) => (place === 0 ? "stuck" : number ? "n" : "text");
  const heads = columns.map(([name, , number], place) =>
    el("th", { scope: "col", class: kind(number, place) }, el("button", { type: "button", class: "sort" }, name)));
  const rows = places.map(([id, scenario, variant]) => {
    const run = DATA.runs[id];
    return el("tr", { "data-status": run.status }, ...columns.map(([name, text, number], place) => {
      const value = number ? number(run) : null;
      const shown = text(run, scenario, variant);
      const content = place === 0 ? [el("button", { type: "button", class: "open", "data-run": id }, shown)]
        : name === "Status" ? [el("span", { class: `dot ${run.status}`, "aria-hidden": "true" }), shown] : [shown];
      return el(place === 0 ? "th" : "td", {
        ...(place === 0 && { scope: "row" }), class: kind(number, place), ...(known(value) && { "data-n": value }),
      }, ...content);
    }));
  });
  const table = el("table", { class: "sortable" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows));
  const input = el("input", { type: "search", placeholder: "words", autocomplete: "off", spellcheck: "false" });
  const states = [...new Set(places.map(([id]) => DATA.runs[id].status))].sort();
  const choice = el("select", {}, el("option", { value: "" }, "all"), ...states.map((state) => el("option", {}, state)));
  const found = el("p", { class: "found soft", role: "status", hidden: "" });
  sortable(table);
  const apply = filterable(input, table, found, (row) => !choice.value || row.dataset.status === choice.value);
  choice.addEventListener("change", apply);
  box.append(
    el("div", { class: "tools" }, el("label", { class: "filter" }, "Filter ", input), el("label", { class: "filter" }, "Status ", choice)),
    found,
    el("div", { class: "scroll", role: "region", "aria-label": "Single runs", tabindex: "0" }, table),
  );
}

/* One run. */

function facts(title, table) {
  const rows = Object.entries(table).filter(([, value]) => known(value) && value !== "").map(([name, value]) =>
    el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, typeof value === "object" ? JSON.stringify(value) : String(value))));
  return rows.length ? [el("article", { class: "block" }, el("h3", {}, title), el("table", { class: "facts" }, el("tbody", {}, ...rows)))] : [];
}

function failure(run) {
  const what = { failed: "It failed", diverged: "It diverged", damaged: "Its records are damaged" }[run.state];
  if (!what) return [];
  const text = run.details ? [el("pre", { tabindex: "0" }, run.details)] : [];
  return [el("article", { class: "block failure" }, el("h3", {}, what), el("p", {}, run.reason || "The reason is not known."), ...text)];
}

function remarks(run) {
  const old = run.status === "outdated" ? ["The method has changed since this run."] : [];
  const all = [...old, ...run.notes];
  return all.length ? [el("ul", { class: "notes", "aria-label": "Notes" }, ...all.map((text) => el("li", {}, text)))] : [];
}

function clientTable(run, sizes) {
  const rows = run.clients.map((value, client) =>
    el("tr", {}, ...[String(client), percent(value), brief(sizes.train[client]), brief(sizes.test[client])].map((text) => el("td", { class: "n" }, text))));
  const heads = ["Client", "Accuracy %", "Training samples", "Test samples"].map((text) => el("th", { scope: "col", class: "n" }, text));
  return el("details", { class: "plain" }, el("summary", {}, "As a table"),
    el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows))));
}

function charted(title, draw, ...more) {
  const plot = el("div", { class: "chart" });
  return { draw: () => draw(plot), box: el("article", { class: "block" }, el("h3", {}, title), plot, ...more) };
}

function charts(run, sizes) {
  const found = [];
  const rounds = run.loss.map(([round]) => round);
  const losses = { loss: run.loss.map(([, loss]) => loss) };
  if (run.evaluated.length) found.push(charted("Accuracy over rounds (%)", (plot) => curves(plot, run.evaluated, run.curves, run.point, 100, 2)));
  if (run.clients.some(known)) found.push(charted("Accuracy per client (%)", (plot) => bars(plot, run.clients, sizes, run.accuracy), clientTable(run, sizes)));
  if (rounds.length) found.push(charted("Training loss over rounds", (plot) => curves(plot, rounds, losses, "loss", 1, 4)));
  return found;
}

/* What the method logged: a small chart for every name. */
function logged(run) {
  const rounds = run.loss.map(([round]) => round);
  return Object.keys(run.logs).map((name) =>
    charted(name, (plot) => curves(plot, rounds, { [name]: run.logs[name] }, name, 1, 4)));
}

function headline(run) {
  const at = known(run.chosen) ? `${run.point}, round ${run.chosen}` : "";
  const facts = [["accuracy", `${percent(run.accuracy)} %`, at], ["std over clients", `${percent(run.std)} %`, at],
    ["rounds", String(run.round), `of ${run.config.rounds}`]];
  return el("ul", { class: "figures" }, ...facts.map(([name, value, more]) => el("li", { class: "soft" }, name, el("b", {}, value), more)));
}

let redraw = () => {};

function show(id) {
  const run = DATA.runs[id];
  if (!run) return;
  const dialog = document.getElementById("run");
  const where = `${run.config.dataset}, ${run.config.partition}, seed ${run.config.seed}`;
  const close = el("button", { type: "button" }, "Close");
  close.addEventListener("click", () => dialog.close());
  const measured = (table, unit) => Object.fromEntries(Object.entries(table).map(([name, value]) => [name, `${brief(value)} ${unit}`]));
  const [plots, logs] = [charts(run, DATA.sizes[run.sizes]), logged(run)];
  dialog.replaceChildren(
    el("div", { class: "run-head" },
      el("div", {}, el("h2", { id: "run-title" }, `${run.method}: ${where}`),
        el("p", { class: "soft" }, el("span", { class: `dot ${run.status}`, "aria-hidden": "true" }), `${run.status} \u00b7 ${id}`)), close),
    el("div", { class: "run-body" }, headline(run), ...remarks(run), ...failure(run), ...plots.map((plot) => plot.box),
      ...(logs.length ? [el("h3", { class: "logged" }, "Logged by the method, mean over clients"), el("div", { class: "pair" }, ...logs.map((plot) => plot.box))] : []),
      el("div", { class: "pair" }, ...facts("Hyperparameters", run.hparams), ...facts("Configuration", { ...run.config, scale: run.scale }),
        ...facts("Sent per client and round", measured(run.megabytes, "MB")), ...facts("Time per round", measured(run.seconds, "s")),
        ...facts("Environment", { ...DATA.environments[run.environment], version: run.version }))));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  redraw = () => [...plots, ...logs].forEach((plot) => plot.draw());
  redraw();
  address(`#run/${encodeURIComponent(id)}`);
}

function address(hash) {
  try { history.replaceState(null, "", hash); } catch { /* not for a page from disk in every browser */ }
}

function linked() {
  if (location.hash.startsWith("#run/")) show(decodeURIComponent(location.hash.slice(5)));
}

document.documentElement.classList.add("js");
themed();
for (const table of document.querySelectorAll(".sortable")) {
  const block = table.closest(".block");
  const input = block.querySelector("input");
  sortable(table);
  if (input) filterable(input, table, block.querySelector(".found"));
}
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll(".fold:not(.runs)")) folded.open = true;
});
for (const box of document.querySelectorAll(".runs")) box.addEventListener("toggle", () => listed(box), { once: true });
document.getElementById("run").addEventListener("close", () => address("#"));
addEventListener("resize", () => redraw());
addEventListener("hashchange", linked);
linked();
