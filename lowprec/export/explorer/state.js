"use strict";
// What is chosen, in the fragment of the page's address; and small helpers to write elements.

const DATA = JSON.parse(document.getElementById("data").textContent);
const byName = (formats) => Object.fromEntries(Object.entries(formats).map(([name, of]) => [name, makeFormat(of)]));
const FORMATS = byName(DATA.formats);
const STOPS = byName(DATA.stops);
const DOUBLE = makeFormat(DATA.double);
const makeProjection = (how) => ({
  ...how,
  nan_code: how.nan_code === null ? null : BigInt(how.nan_code),
  via: how.via.map((name) => STOPS[name]),
});
const DEFAULT = makeProjection(DATA.default);
const MODES = Object.fromEntries(DATA.modes.map((mode) => [mode.name, mode]));
const VIEWS = [];

const has = Object.hasOwn;

// Each choice: its letters in the address, its first value, and what an address may say.
const CHOICES = {
  definition: ["d", "", (said) => isAccepted(said)],
  format: ["f", DATA.first, (said) => has(FORMATS, said)],
  code: ["c", 0n, (said) => /^[0-9a-f]{1,8}$/i.test(said)],
  number: ["x", "0.1", (said) => said.length <= MOST_TYPED],
  mode: ["m", DATA.default.rounding.name, (said) => has(MODES, said)],
  scale: ["l", "linear", (said) => ["linear", "logarithmic"].includes(said)],
  zoom: ["z", "0", (said) => /^\d{1,2}$/.test(said) && Number(said) <= MOST_ZOOM],
  center: ["o", "", (said) => said === "" || Number.isFinite(Number(said))],
  search: ["q", "", (said) => said.length <= 200],
  start: ["s", "0", (said) => /^\d{1,10}$/.test(said)],
  block: ["b", Object.keys(DATA.blocks)[0], (said) => has(DATA.blocks, said)],
  rule: ["r", DATA.rules[0].name, (said) => DATA.rules.some(({ name }) => name === said)],
  values: ["v", "0.3 1 -2.5 7", (said) => said.length <= 20000],
  theme: ["t", "system", (said) => ["system", "light", "dark"].includes(said)],
};
const FIRST = Object.fromEntries(Object.entries(CHOICES).map(([name, [, first]]) => [name, first]));
const state = { ...FIRST };

function isAccepted(text) {
  if (text === "") return true;
  try { definedFormat(text); return true; } catch (error) {
    if (error instanceof Refused) return false;
    throw error;
  }
}

const byId = (id) => document.getElementById(id);
const currentFormat = () => FORMATS[state.format];
const hexCode = (code, fmt) => "0x" + code.toString(16).padStart(Math.ceil(Number(fmt.width) / 4), "0");
const bitsOf = (code, fmt) => code.toString(2).padStart(Number(fmt.width), "0");
const words = (name) => name.replaceAll("_", " ");

function element(name, text, attributes = {}) {
  const made = name in { svg: 0, g: 0, line: 0, rect: 0, text: 0, path: 0 }
    ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// A table with a caption for those who cannot see it; cells are text, or elements.
function table(id, caption, heads, rows) {
  const row = (cells, name) => {
    const line = document.createElement("tr");
    line.append(...cells.map((cell, place) => {
      const made = element(place && name === "td" ? "td" : "th", "", { scope: name === "td" ? "row" : "col" });
      made.append(cell);
      return made;
    }));
    return line;
  };
  const [head, body] = [document.createElement("thead"), document.createElement("tbody")];
  head.append(row(heads, "th"));
  body.append(...rows.map((cells) => row(cells, "td")));
  byId(id).replaceChildren(element("caption", caption, { class: "unseen" }), head, body);
}

// Fields are set only where they differ, so that the cursor stays where it is.
function setField(id, value) {
  if (byId(id).value !== value) byId(id).value = value;
}

function defineAs(text) {
  if (text) FORMATS[DATA.own] = definedFormat(text);
  else delete FORMATS[DATA.own];
  const names = Object.keys(FORMATS);
  byId("format").replaceChildren(...names.map((name) => element("option", name, { value: name })));
}

// Of formats that other pages may lack, the address has the parameters too, as p.
function update(changes, told = "") {
  if ("definition" in changes) defineAs(changes.definition);
  if ("format" in changes || "definition" in changes) Object.assign(state, { zoom: "0", center: "", start: "0" });
  Object.assign(state, changes);
  if (!has(FORMATS, state.format)) state.format = DATA.first;
  state.code &= (1n << currentFormat().width) - 1n;
  const said = new URLSearchParams(), own = DATA.private.includes(state.format) && definitionOf(currentFormat());
  for (const [name, [letter, first]] of Object.entries(CHOICES)) {
    const text = name === "code" ? state.code.toString(16) : state[name];
    if (state[name] !== first || ["format", "code", "number"].includes(name)) said.set(letter, text);
  }
  if (own || state.format === DATA.own) said.set("p", own || state.definition);
  byId("address-said").textContent = told;
  history.replaceState(null, "", "#" + said);
  for (const show of VIEWS) show();
}

function restore() {
  const said = new URLSearchParams(location.hash.slice(1)), changes = { ...FIRST };
  for (const [name, [letter, , accepts]] of Object.entries(CHOICES)) {
    const text = said.get(letter);
    if (name === "format" && text === DATA.own && changes.definition) changes.format = text;
    else if (text !== null && accepts(text)) changes[name] = name === "code" ? BigInt("0x" + text) : text;
  }
  const [wanted, shared] = [said.get("f"), said.get("p")];
  let told = "";
  if (shared && isAccepted(shared) && !(DATA.private.includes(wanted) && definitionOf(FORMATS[wanted]) === shared)) {
    Object.assign(changes, { format: DATA.own, definition: shared });
    if (wanted !== DATA.own) told = `The address defines ${wanted}, which is ${DATA.own} on this page.`;
  } else if (wanted !== null && wanted !== changes.format) {
    told = `This page has no format ${wanted}; it shows ${changes.format}.`;
  }
  update(changes, told);
}
