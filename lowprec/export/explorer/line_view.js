"use strict";
// The number line. Places on the screen are approximate; each tick is a code.

const DRAWN = 400, MOST_ZOOM = 40, HEIGHT = 96;

// The place of a value on the axis; logarithmic: in binades from zero, both ways, with zero in the middle.
function axisOf(fmt) {
  const place = (value) => approximate(isFraction(value) ? value : ZERO);
  if (state.scale === "linear") return place;
  const least = log2(decode(codeAt(firstPositive(fmt, finiteCount(fmt)), fmt), fmt));
  return (value) => {
    if (!isFraction(value) || value.n === 0n) return 0;
    const binades = Math.max(log2(magnitude(value)) - least + 1, 0);
    return value.n < 0n ? -binades : binades;
  };
}

function log2(value) {
  const k = floorLog2(value);
  return Number(k) + Math.log2(approximate(multiply(value, twoTo(-k))));
}

function bisect(count, isBelow) {
  let low = 0, high = count;
  while (low < high) {
    const half = Math.floor((low + high) / 2);
    if (isBelow(half)) low = half + 1;
    else high = half;
  }
  return low;
}

function firstPositive(fmt, count) {
  return Math.min(bisect(count, (place) => decode(codeAt(place, fmt), fmt).n <= 0n), count - 1);
}

function viewOf(fmt, axis) {
  const count = finiteCount(fmt), ends = [axis(decode(codeAt(0, fmt), fmt)), axis(decode(codeAt(count - 1, fmt), fmt))];
  const whole = (ends[1] - ends[0]) * 0.53;
  const half = whole * 2 ** -Number(state.zoom);
  const center = state.center === "" ? (ends[0] + ends[1]) / 2 : Math.min(Math.max(Number(state.center), ends[0]), ends[1]);
  return { low: center - half, high: center + half, center, half, ends };
}

function showLine() {
  const fmt = currentFormat(), axis = axisOf(fmt), view = viewOf(fmt, axis), count = finiteCount(fmt);
  const width = Math.max(byId("line").clientWidth, 280);
  const x = (at) => (at - view.low) / (view.high - view.low) * width;
  const at = (place) => axis(decode(codeAt(place, fmt), fmt));
  const first = bisect(count, (place) => at(place) < view.low);
  const last = bisect(count, (place) => at(place) <= view.high);
  const stride = Math.max(Math.ceil((last - first) / DRAWN), 1);
  const drawn = [];
  for (let place = first; place < last; place += stride) drawn.push(place);
  const shapes = [element("line", "", { x1: 0, x2: width, y1: 56, y2: 56, class: "axis" })];
  shapes.push(...intervalShape(fmt, axis, x, width));
  shapes.push(...drawn.map((place) => {
    const code = codeAt(place, fmt), left = x(at(place));
    return element("line", "", { x1: left, x2: left, y1: 44, y2: 68, class: classOf(code, fmt), "data-code": hexCode(code, fmt) });
  }), ...labels(drawn, fmt, (place) => x(at(place)), width));
  const typed = parse(state.number), value = decode(state.code, fmt);
  if (typed !== null && isFraction(typed)) shapes.push(...mark(x(axis(typed)), width, "typed", 12, `typed ${shortText(typed, [value])}`));
  if (isFraction(value) || value === "-0") shapes.push(...mark(x(axis(value)), width, "chosen", 28, codeText(state.code, fmt)));
  const drawing = byId("drawing");
  drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  drawing.replaceChildren(...shapes);
  const inView = last - first;
  const said = stride > 1 ? `, one in ${stride.toLocaleString("en")} drawn` : "";
  byId("line-said").textContent = `${inView.toLocaleString("en")} of ${count.toLocaleString("en")} values in view${said}.`;
  byId("line").lastView = { fmt, view, width, at, count };
  setField("line-scale", state.scale);
  byId("zoom-out").disabled = state.zoom === "0";
  byId("zoom-in").disabled = Number(state.zoom) >= MOST_ZOOM;
}

function intervalShape(fmt, axis, x, width) {
  const interval = intervalOf(state.code, fmt, MODES[state.mode]);
  if (interval === null) return [];
  const clip = (at) => Math.min(Math.max(at, 0), width);
  const left = interval.low === null ? 0 : clip(x(axis(interval.low.at)));
  const right = interval.high === null ? width : clip(x(axis(interval.high.at)));
  return [element("rect", "", { x: left, width: Math.max(right - left, 0), y: 36, height: 40, class: "interval" })];
}

function mark(left, width, name, y, text) {
  if (left < 0 || left > width) return [];
  const anchor = left < 60 ? "start" : left > width - 60 ? "end" : "middle";
  return [
    element("line", "", { x1: left, x2: left, y1: y + 4, y2: 68, class: name }),
    element("text", text, { x: left, y, class: name, "text-anchor": anchor }),
  ];
}

// As many values below the axis as there is space for.
function labels(drawn, fmt, x, width) {
  const made = [];
  let free = 0;
  for (const place of drawn) {
    const text = codeText(codeAt(place, fmt), fmt).replace("≈", ""), half = text.length * 4 + 6, left = x(place);
    if (left - half < free || left + half > width) continue;
    made.push(element("text", text, { x: left, y: 86, class: "label", "text-anchor": "middle" }));
    free = left + half;
  }
  return made;
}

function moveLine(zoom, shift, about) {
  const fmt = currentFormat(), view = viewOf(fmt, axisOf(fmt));
  const next = Math.min(Math.max(Number(state.zoom) + zoom, 0), MOST_ZOOM);
  const center = (about ?? view.center) + shift * view.half;
  const inside = Math.min(Math.max(center, view.ends[0]), view.ends[1]);
  update({ zoom: String(next), center: next === 0 ? "" : String(Number(inside.toPrecision(12))) });
}

function chosenPlace() {
  const fmt = currentFormat(), value = decode(state.code, fmt);
  return isFraction(value) ? axisOf(fmt)(value) : undefined;
}

function listenToLine() {
  byId("line-scale").onchange = (event) => update({ scale: event.target.value, zoom: "0", center: "" });
  const moves = {
    "zoom-in": [1, 0, true], "zoom-out": [-1, 0, false], "line-left": [0, -0.5, false], "line-right": [0, 0.5, false],
  };
  for (const [id, [zoom, shift, chosen]] of Object.entries(moves)) {
    byId(id).onclick = () => moveLine(zoom, shift, chosen && state.center === "" ? chosenPlace() : undefined);
  }
  byId("line-center").onclick = () => moveLine(state.zoom === "0" ? 3 : 0, 0, chosenPlace());
  byId("line-whole").onclick = () => update({ zoom: "0", center: "" });
  byId("drawing").onclick = (event) => {
    const { fmt, view, width, at, count } = byId("line").lastView, box = byId("drawing").getBoundingClientRect();
    const wanted = view.low + (event.clientX - box.left) / box.width * (view.high - view.low);
    const above = Math.min(bisect(count, (place) => at(place) < wanted), count - 1), below = Math.max(above - 1, 0);
    update({ code: codeAt(wanted - at(below) < at(above) - wanted ? below : above, fmt) });
  };
  byId("line").onkeydown = (event) => {
    if (event.target !== byId("line")) return;
    const press = { "+": "zoom-in", "=": "zoom-in", "-": "zoom-out", 0: "line-whole" }[event.key];
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (press) byId(press).click();
    else if (step) {
      const code = neighbour(state.code, currentFormat(), step);
      if (code !== null) update({ code });
    } else return;
    event.preventDefault();
  };
  new ResizeObserver(showLine).observe(byId("line"));
}

VIEWS.push(showLine);
