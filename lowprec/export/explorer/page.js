"use strict";
// The page: what is chosen, in the fragment of its address, and what is shown of it.

const DATA = JSON.parse(document.getElementById("data").textContent);
const byName = (formats) => Object.fromEntries(Object.entries(formats).map(([name, of]) => [name, makeFormat(of)]));
const FORMATS = byName(DATA.formats);
const STOPS = byName(DATA.stops);
const makeProjection = (how) => ({
  ...how,
  nan_code: how.nan_code === null ? null : BigInt(how.nan_code),
  via: how.via.map((name) => STOPS[name]),
});
const DEFAULT = makeProjection(DATA.default);
const byId = (id) => document.getElementById(id);
const state = { format: DATA.first, code: 0n, number: "0.1" };
Object.assign(state, { block: Object.keys(DATA.blocks)[0], rule: DATA.rules[0].name, values: "0.3 1 -2.5 7" });

const hexCode = (code, fmt) => "0x" + code.toString(16).padStart(Math.ceil(Number(fmt.width) / 4), "0");

function answer(value, fmt, how) {
  try {
    const code = project(value, fmt, how);
    return `${hexCode(code, fmt)}  ${shortText(decode(code, fmt))}`;
  } catch (error) {
    if (error instanceof Refused) return error.message;
    throw error;
  }
}

function fieldOf(place, fmt) {
  if (fmt.kind === "codebook") return "trailing";
  if (BigInt(place) === fmt.width - 1n && fmt.signCode) return "sign";
  return BigInt(place) >= fmt.t ? "exponent" : "trailing";
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function showBits(fmt) {
  const held = document.activeElement?.dataset?.bit;
  const places = [...Array(Number(fmt.width)).keys()].reverse();
  byId("bits").replaceChildren(...places.map((place) => {
    const on = (state.code >> BigInt(place)) & 1n, field = fieldOf(place, fmt);
    const button = element("button", on.toString(), {
      class: field, "data-bit": place, "aria-pressed": on === 1n, "aria-label": `bit ${place}, ${field}`,
    });
    button.onclick = () => update({ code: state.code ^ (1n << BigInt(place)) });
    return button;
  }));
  if (held !== undefined) byId("bits").querySelector(`[data-bit="${held}"]`)?.focus();
}

function table(id, heads, rows) {
  const line = (cells, name) => {
    const row = document.createElement("tr");
    row.append(...cells.map((cell, place) => element(place ? name : "th", cell, place ? {} : { scope: "row" })));
    return row;
  };
  byId(id).replaceChildren(line(heads, "th"), ...rows.map((cells) => line(cells, "td")));
}

function show() {
  const fmt = FORMATS[state.format], value = decode(state.code, fmt), typed = parse(state.number);
  byId("format").value = state.format;
  byId("block").value = state.block;
  byId("rule").value = state.rule;
  showBits(fmt);
  const facts = [
    ["code", hexCode(state.code, fmt)], ["class", classOf(state.code, fmt)], ["value", decimalText(value)],
    ["hexadecimal", hexText(value)], ["fraction", fractionText(value)],
  ];
  byId("facts").replaceChildren(...facts.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
  byId("number").setAttribute("aria-invalid", typed === null);
  if (typed === null) return;
  table("rounded", ["rounding", ...DATA.saturations], DATA.modes.map((rounding) => [
    rounding.name, ...DATA.saturations.map((saturation) => answer(typed, fmt, { ...DEFAULT, rounding, saturation })),
  ]));
  const stacks = Object.entries(DATA.profiles).filter(([, of]) => state.format in of.formats);
  table("profiles", ["profile", "result", "versions"], stacks.map(([name, of]) => [
    name, answer(typed, fmt, makeProjection(of.formats[state.format])), of.versions,
  ]));
  showBlock();
}

function showBlock() {
  const block = BLOCKS[state.block], values = state.values.split(/[\s,;]+/).filter(Boolean).map(parse);
  const wrong = values.length === 0 || values.includes(null);
  byId("values").setAttribute("aria-invalid", wrong);
  if (wrong) return;
  try {
    const tensor = tensorScale(values, block);
    const { scale, codes } = encodeBlock(values, block, RULES[state.rule], tensor);
    const shared = decode(scale, block.scale);
    byId("scale").textContent = `scale ${hexCode(scale, block.scale)}, ${shortText(shared)}`
      + (block.tensor_scale === "none" ? "" : `; scale of the tensor ${shortText(tensor.value)}`);
    table("block-table", ["value", "code", "becomes", "error"], values.map((value, place) => {
      const element = decode(codes[place], block.element);
      const got = isFraction(element) && isFraction(shared) ? multiply(multiply(element, shared), tensor.value) : null;
      const error = got && isFraction(value) ? shortText(subtract(got, value)) : "";
      return [shortText(value), hexCode(codes[place], block.element), got ? shortText(got) : shortText(element), error];
    }));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    byId("scale").textContent = error.message;
    byId("block-table").replaceChildren();
  }
}

function update(changes) {
  Object.assign(state, changes);
  state.code &= (1n << FORMATS[state.format].width) - 1n;
  const said = new URLSearchParams({ f: state.format, c: state.code.toString(16), x: state.number, b: state.block, r: state.rule, v: state.values });
  history.replaceState(null, "", "#" + said);
  show();
}

function restore() {
  const said = new URLSearchParams(location.hash.slice(1)), changes = {};
  if (said.get("f") in FORMATS) changes.format = said.get("f");
  if (/^[0-9a-f]{1,8}$/i.test(said.get("c") ?? "")) changes.code = BigInt("0x" + said.get("c"));
  if (said.get("x")) changes.number = said.get("x");
  if (said.get("b") in BLOCKS) changes.block = said.get("b");
  if (said.get("r") in RULES) changes.rule = said.get("r");
  if (said.get("v")) changes.values = said.get("v");
  byId("values").value = changes.values ?? state.values;
  byId("number").value = changes.number ?? state.number;
  update(changes);
}

