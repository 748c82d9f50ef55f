"use strict";
// The format, one of its codes, and what is near its value.

const signField = (place, fmt) => BigInt(place) === fmt.width - 1n && fmt.signCode;

function fieldOf(place, fmt) {
  if (fmt.kind === "codebook") return "code";
  if (signField(place, fmt)) return "sign";
  return BigInt(place) >= fmt.t ? "exponent" : "trailing";
}

const FIELD_NAMES = { code: "code", sign: "sign", exponent: "exponent field", trailing: "trailing significand" };

function bitGroups(fmt) {
  const groups = [];
  for (let place = Number(fmt.width) - 1; place >= 0; place--) {
    const field = fieldOf(place, fmt);
    if (groups.at(-1)?.field !== field) groups.push({ field, places: [] });
    groups.at(-1).places.push(place);
  }
  return groups;
}

function showBits(fmt) {
  const held = document.activeElement?.dataset?.bit;
  byId("bits").replaceChildren(...bitGroups(fmt).map(({ field, places }) => {
    const group = element("div", "", { class: `field ${field}`, role: "group", "aria-label": FIELD_NAMES[field] });
    const buttons = element("div", "", { class: "buttons" });
    buttons.append(...places.map((place) => {
      const on = (state.code >> BigInt(place)) & 1n;
      const button = element("button", on.toString(), {
        type: "button", "data-bit": place, "aria-pressed": on === 1n, "aria-label": `bit ${place}, ${FIELD_NAMES[field]}`,
      });
      button.onclick = () => update({ code: state.code ^ (1n << BigInt(place)) });
      return button;
    }));
    group.append(buttons, element("span", FIELD_NAMES[field], { "aria-hidden": "true" }));
    return group;
  }));
  if (held !== undefined) byId("bits").querySelector(`[data-bit="${held}"]`)?.focus();
}

function summaryOf(fmt) {
  const [least, most] = extremes(fmt);
  const parts = [`${fmt.width} bits`];
  if (fmt.kind === "codebook") parts.push(`codebook of ${fmt.values.length} values`);
  else if (fmt.e) parts.push(`exponent field ${fmt.e} bits, bias ${fmt.biased}`, `${fmt.t} trailing bits`);
  else parts.push("fixed point", `step ${shortText(valueOf(1n, fmt))}`);
  parts.push(`${shortText(least)} to ${shortText(most)}`);
  const infinities = [false, true].filter((side) => infinityOf(side, fmt) !== null).length;
  parts.push(infinities ? `${infinities === 2 ? "±infinity" : "infinity"}` : "no infinity");
  parts.push(fmt.nanCode === null ? "no NaN" : "NaN");
  return parts.join(" · ");
}

function intervalText(interval, value) {
  if (interval === null) return "none";
  const { low, high } = interval, near = [value, low?.at, high?.at].filter(Boolean);
  const left = low === null ? "(−∞" : (low.closed ? "[" : "(") + shortText(low.at, near);
  const right = high === null ? "∞)" : shortText(high.at, near) + (high.closed ? "]" : ")");
  return `${left}, ${right}`;
}

function stepButton(code, fmt) {
  if (code === null) return element("span", "none");
  const button = element("button", `${codeText(code, fmt)}  ${hexCode(code, fmt)}`, { type: "button", class: "jump" });
  button.onclick = () => update({ code });
  return button;
}

function showCode() {
  const fmt = currentFormat(), value = decode(state.code, fmt), ulp = ulpOf(state.code, fmt);
  setField("format", state.format);
  setField("mode", state.mode);
  byId("summary").textContent = summaryOf(fmt);
  showBits(fmt);
  if (document.activeElement !== byId("hex")) setField("hex", hexCode(state.code, fmt));
  if (document.activeElement !== byId("integer")) setField("integer", state.code.toString());
  byId("value").textContent = codeText(state.code, fmt);
  const facts = [
    ["class", classOf(state.code, fmt)], ["decimal", decimalText(value)], ["hexadecimal", hexText(value)],
    ["fraction", fractionText(value)],
    ["next below", stepButton(neighbour(state.code, fmt, -1), fmt)],
    ["next above", stepButton(neighbour(state.code, fmt, 1), fmt)],
    ["ulp", ulp === null ? "none" : `${shortText(ulp)}  ${hexText(ulp)}`],
    ["numbers rounded to it", intervalText(intervalOf(state.code, fmt, MODES[state.mode]), value)],
  ];
  const held = document.activeElement?.closest?.("dd")?.dataset.fact;
  byId("facts").replaceChildren(...facts.flatMap(([name, content]) => {
    const made = element("dd", "", { "data-fact": name });
    made.append(content);
    return [element("dt", name), made];
  }));
  if (held) byId("facts").querySelector(`[data-fact="${held}"] button`)?.focus();
}

function typedCode(text, pattern, read) {
  const said = text.trim().toLowerCase();
  if (!pattern.test(said)) return null;
  const code = read(said);
  return code < 1n << currentFormat().width ? code : null;
}

function listenToCode() {
  const readers = {
    hex: (text) => typedCode(text, /^(0x)?[0-9a-f]{1,8}$/, (said) => BigInt(said.startsWith("0x") ? said : "0x" + said)),
    integer: (text) => typedCode(text, /^\d{1,10}$/, BigInt),
  };
  for (const [id, read] of Object.entries(readers)) {
    byId(id).oninput = () => {
      const code = read(byId(id).value);
      byId(id).setAttribute("aria-invalid", code === null);
      byId("code-error").textContent = code === null ? `No code of ${state.format}, whose codes are 0 to ${hexCode((1n << currentFormat().width) - 1n, currentFormat())}.` : "";
      if (code !== null) update({ code });
    };
    byId(id).onblur = () => {
      byId(id).removeAttribute("aria-invalid");
      byId("code-error").textContent = "";
      showCode();
    };
  }
  byId("format").onchange = (event) => update({ format: event.target.value });
  byId("mode").append(...DATA.modes.map(({ name }) => element("option", words(name), { value: name })));
  byId("mode").onchange = (event) => update({ mode: event.target.value });
}

// -- a format of one's own -----------------------------------------------------------------------------

const MARKS = ["infinity", "no_negative_zero", "no_subnormals"];

function definitionText() {
  if (byId("own-kind").value === "codebook") {
    return ["codebook", byId("own-ties").value, byId("own-values").value.trim().split(/[\s,;]+/).join(" ")].join(",");
  }
  const chosen = MARKS.filter((mark) => byId(`own-${mark}`).checked === (mark === "infinity"));
  const fields = ["own-e", "own-t", "own-bias"].map((id) => byId(id).value.trim());
  return ["binary", ...fields, byId("own-sign").value, byId("own-nans").value.trim(), ...chosen].join(",");
}

function showDefinition() {
  const codebook = byId("own-kind").value === "codebook";
  byId("own-binary").hidden = codebook;
  byId("own-codebook").hidden = !codebook;
}

function fillDefinition() {
  const [kind, ...rest] = state.definition.split(",");
  if (!state.definition || byId("definition").contains(document.activeElement)) return;
  byId("own-kind").value = kind;
  if (kind === "codebook") [byId("own-ties").value, byId("own-values").value] = rest;
  else {
    const [e, t, bias, sign, nans, ...marks] = rest;
    Object.entries({ e, t, bias, sign, nans }).forEach(([name, said]) => { byId(`own-${name}`).value = said; });
    for (const mark of MARKS) byId(`own-${mark}`).checked = marks.includes(mark) === (mark === "infinity");
  }
  showDefinition();
}

function listenToDefinition() {
  byId("own-sign").append(...DATA.signs.map((name) => element("option", words(name), { value: name })));
  byId("own-ties").append(...Object.keys(DATA.ties).map((name) => element("option", name, { value: name })));
  byId("own-kind").onchange = showDefinition;
  byId("definition").onsubmit = (event) => {
    event.preventDefault();
    try {
      const definition = definitionText();
      definedFormat(definition);
      byId("own-error").textContent = "";
      update({ definition, format: DATA.own });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      byId("own-error").textContent = `Not a format: ${error.message}.`;
    }
  };
  showDefinition();
}

VIEWS.push(showCode, fillDefinition);
