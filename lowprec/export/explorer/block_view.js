"use strict";
// Block mode: rows of values, cut into blocks along one axis or two.

// Blocks in order: {row, column, values} with what each value's place is. Blocks at the edges may be short.
function blocksOf(rows, block) {
  const [down, along] = block.size.length === 2 ? block.size : [1, block.size[0]];
  const made = [];
  const wide = Math.max(...rows.map((row) => row.length));
  for (let row = 0; row < rows.length; row += down) {
    for (let column = 0; column < wide; column += along) {
      const places = [];
      for (let i = row; i < Math.min(row + down, rows.length); i++) {
        for (let j = column; j < Math.min(column + along, wide); j++) places.push({ row: i, column: j });
      }
      made.push({ places, values: places.map(({ row: i, column: j }) => rows[i][j]) });
    }
  }
  return made;
}

function typedRows() {
  return state.values.split("\n").map((line) => line.split(/[\s,;]+/).filter(Boolean).map(parse)).filter((row) => row.length);
}

const MOST_VALUES = 1024;

function refusedRows(rows) {
  if (!rows.length) return "Type at least one value.";
  if (rows.some((row) => row.includes(null))) return "Some of the values are no numbers.";
  if (rows.some((row) => row.length !== rows[0].length)) return "Rows differ in length; give each line as many values.";
  if (rows.length * rows[0].length > MOST_VALUES) return `Give at most ${MOST_VALUES.toLocaleString("en")} values.`;
  return "";
}

function showBlock() {
  const block = BLOCKS[state.block], rows = typedRows(), refused = refusedRows(rows);
  setField("block", state.block);
  setField("rule", state.rule);
  if (document.activeElement !== byId("values")) setField("values", state.values);
  byId("values").setAttribute("aria-invalid", refused !== "");
  byId("block-summary").textContent = `Elements ${block.element.name}, scales ${block.scale.name}, `
    + `${block.size.join(" × ")} values share a scale.`;
  byId("block-table").replaceChildren();
  byId("scale").textContent = refused;
  if (refused) return;
  try { showBlocks(rows, block); } catch (error) {
    if (!(error instanceof Refused)) throw error;
    byId("scale").textContent = error.message;
  }
}

function showBlocks(rows, block) {
  const tensor = tensorScale(rows.flat(), block), cut = blocksOf(rows, block), lines = [];
  const scales = cut.map(({ places, values }, number) => {
    const { scale, codes } = encodeBlock(values, block, RULES[state.rule], tensor);
    const shared = decode(scale, block.scale);
    values.forEach((value, place) => {
      const got = decodedElement(codes[place], shared, block, tensor);
      const error = isFraction(got) && isFraction(value) ? shortText(subtract(got, value)) : "";
      const where = rows.length > 1 ? `${places[place].row + 1}, ${places[place].column + 1}` : `${places[place].column + 1}`;
      lines.push([where, shortText(value, [got]), hexCode(codes[place], block.element), shortText(got, [value]), error, `${number + 1}`]);
    });
    return `block ${number + 1}: scale ${codeText(scale, block.scale)} (${hexCode(scale, block.scale)})`;
  });
  const whole = block.tensor_scale === "none" ? "" : `Scale of the tensor ${shortText(tensor.value)}; `;
  byId("scale").textContent = whole + scales.join(", ");
  table("block-table", "Elements of the blocks", [rows.length > 1 ? "row, column" : "place", "value", "code", "becomes", "error", "block"], lines);
}

// The number that an element stands for: its own value times the scales.
function decodedElement(code, shared, block, tensor) {
  const own = decode(code, block.element);
  if (isNan(own) || !(isFraction(shared) || shared === "-0")) return "NaN";
  if (!isFraction(own)) return own;
  return multiply(multiply(own, isFraction(shared) ? shared : ZERO), tensor.value);
}

// About normal, of three digits; of full blocks where they are small enough to look at.
function randomValues(block) {
  const [down, along] = block.size.length === 2 ? block.size : [1, block.size[0]];
  const number = () => {
    const sum = Array.from({ length: 12 }, Math.random).reduce((a, b) => a + b) - 6;
    return Number(sum.toPrecision(3)).toString();
  };
  const [height, width] = [Math.min(down, 16), Math.min(along, block.size.length === 2 ? 16 : 128)];
  return Array.from({ length: height }, () => Array.from({ length: width }, number).join(" ")).join("\n");
}

function listenToBlock() {
  byId("block").append(...Object.keys(DATA.blocks).map((name) => element("option", name, { value: name })));
  byId("rule").append(...DATA.rules.map(({ name }) => element("option", name, { value: name })));
  byId("block").onchange = (event) => update({ block: event.target.value, rule: DATA.blocks[event.target.value].rule });
  byId("rule").onchange = (event) => update({ rule: event.target.value });
  byId("values").oninput = (event) => update({ values: event.target.value });
  byId("random").onclick = () => update({ values: randomValues(BLOCKS[state.block]) });
}

VIEWS.push(showBlock);
