"use strict";
// The whole table of codes, a page at a time, with a search in what each row says.

const PAGE_ROWS = 64, SEARCHED_BITS = 16n;

function rowText(code, fmt) {
  const value = decode(code, fmt);
  return [hexCode(code, fmt), bitsOf(code, fmt), decimalText(value), hexText(value), classOf(code, fmt)];
}

// Codes whose row has the words; formats too wide to search have the one code or number that is typed.
function foundCodes(fmt) {
  const count = 1n << fmt.width, wanted = state.search.trim().toLowerCase().replace("−", "-");
  if (!wanted) return { count: Number(count), at: BigInt };
  if (fmt.width > SEARCHED_BITS) {
    const code = /^0x[0-9a-f]{1,8}$/.test(wanted) ? BigInt(wanted) : codeOfNumber(wanted, fmt);
    const found = code !== null && code < count ? [code] : [];
    return { count: found.length, at: (place) => found[place] };
  }
  const key = `${state.definition} ${state.format} ${wanted}`;
  if (foundCodes.key !== key) {
    const found = [];
    for (let code = 0n; code < count; code++) {
      if (rowText(code, fmt).some((cell) => cell.toLowerCase().includes(wanted))) found.push(code);
    }
    Object.assign(foundCodes, { key, found });
  }
  const { found } = foundCodes;
  return { count: found.length, at: (place) => found[place] };
}

function codeOfNumber(text, fmt) {
  const value = parse(text);
  if (value === null) return null;
  try { return project(value, fmt, DEFAULT); } catch (error) {
    if (error instanceof Refused) return null;
    throw error;
  }
}

function showTable() {
  const fmt = currentFormat(), { count, at } = foundCodes(fmt);
  const start = Math.min(Number(state.start), Math.max(count - 1, 0));
  const first = start - (start % PAGE_ROWS), last = Math.min(first + PAGE_ROWS, count);
  const held = document.activeElement?.dataset?.row;
  const rows = [];
  for (let place = first; place < last; place++) {
    const code = at(place), [hex, bits, value, ...cells] = rowText(code, fmt);
    const shown = value.length > 24 ? codeText(code, fmt) : value;
    const button = element("button", hex, {
      type: "button", class: "jump", "data-row": place, tabindex: place === first ? 0 : -1,
      ...(code === state.code ? { "aria-current": "true" } : {}),
    });
    button.onclick = () => update({ code });
    rows.push([button, bits, shown, ...cells]);
  }
  table("codes", `Codes of ${state.format}`, ["code", "bits", "value", "hexadecimal", "class"], rows);
  const wide = fmt.width > SEARCHED_BITS ? " This format is too wide to search: type a code (0x…) or a number." : "";
  const range = count ? `${(first + 1).toLocaleString("en")} to ${last.toLocaleString("en")} of ${count.toLocaleString("en")} codes.` : "No code found.";
  byId("codes-said").textContent = range + wide;
  byId("page-back").disabled = first === 0;
  byId("page-on").disabled = last >= count;
  if (document.activeElement !== byId("search")) setField("search", state.search);
  if (held !== undefined) byId("codes").querySelector(`[data-row="${held}"]`)?.focus();
}

function listenToTable() {
  const turn = (by) => () => update({ start: String(Math.max(Number(state.start) + by * PAGE_ROWS, 0)) });
  byId("page-back").onclick = turn(-1);
  byId("page-on").onclick = turn(1);
  byId("search").oninput = (event) => update({ search: event.target.value, start: "0" });
  byId("codes").onkeydown = (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key], row = event.target.dataset.row;
    if (!step || row === undefined) return;
    byId("codes").querySelector(`[data-row="${Number(row) + step}"]`)?.focus();
    event.preventDefault();
  };
}

VIEWS.push(showTable);
