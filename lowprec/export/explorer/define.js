"use strict";
// Formats and codebooks that are defined on the page: text of the address, checked as the package checks.

const SIGNS = DATA.signs;

// "binary,4,3,7,magnitude,1,finite,zero,subnormals" or "codebook,even,0 1 2 3"; throws Refused.
function definedFormat(text) {
  const [kind, ...rest] = text.split(",");
  if (kind === "binary") return definedBinary(rest);
  if (kind === "codebook") return definedCodebook(rest[0], rest.slice(1).join(" "));
  throw new Refused("a definition begins with binary or codebook");
}

// The definition of a format; null where there is none, as of codebooks with thresholds of their own.
function definitionOf(fmt) {
  if (fmt.kind === "binary") {
    const marks = { infinity: fmt.infinity, no_negative_zero: !fmt.negative_zero, no_subnormals: !fmt.subnormals };
    const fields = [fmt.e, fmt.t, fmt.biased, fmt.sign, fmt.nanCount];
    return ["binary", ...fields, ...Object.keys(marks).filter((mark) => marks[mark])].join(",");
  }
  const ties = Object.keys(DATA.ties).find((name) => DATA.ties[name].name === fmt.tie_mode.name);
  const text = `codebook,${ties},${fmt.values.map(hexText).join(" ")}`;
  const rays = ({ rays }) => JSON.stringify(rays, (_, each) => (typeof each === "bigint" ? each.toString() : each));
  return isAccepted(text) && rays(definedFormat(text)) === rays(fmt) ? text : null;
}

function definedBinary([e, t, bias, sign, nans, ...marks]) {
  const integer = (name, said) => {
    if (!/^-?\d{1,10}$/.test(said ?? "")) throw new Refused(`${name} must be an integer`);
    return Number(said);
  };
  const data = {
    name: DATA.own, source: "", sign,
    exponent_bits: integer("exponent bits", e), trailing_bits: integer("trailing bits", t),
    bias: integer("bias", bias), nans: integer("NaN codes", nans),
    infinity: marks.includes("infinity"), negative_zero: !marks.includes("no_negative_zero"),
    subnormals: !marks.includes("no_subnormals"),
  };
  checkBinary(data);
  return binaryFormat(data);
}

function checkBinary(data) {
  const refuse = (why) => { throw new Refused(why); };
  if (!SIGNS.includes(data.sign)) refuse(`sign must be one of ${SIGNS.join(", ")}`);
  for (const name of ["exponent_bits", "trailing_bits", "nans"]) {
    if (data[name] < 0) refuse(`${name.replace("_", " ")} cannot be negative`);
  }
  const width = data.exponent_bits + data.trailing_bits + (data.sign === "unsigned" ? 0 : 1);
  if (width < 2 || width > 32) refuse(`that makes ${width} bits in all; use 2 to 32`);
  if (data.sign === "twos_complement") {
    if (data.exponent_bits) refuse("two's complement takes no exponent; use 0 exponent bits");
    if (data.nans || data.infinity) refuse("in two's complement every code is a number: no NaN, no infinity");
  }
  if (!data.negative_zero && data.sign !== "magnitude") refuse("only formats with a sign bit have a code of −0 to spend");
  if (!data.subnormals && !data.exponent_bits) refuse("without exponent bits, no subnormals means no values");
  if (!data.subnormals && !data.negative_zero) refuse("a format without subnormals has no zero, so no −0 to spend");
  const fmt = binaryFormat(data);
  if (fmt.last < (data.subnormals ? 1n : 0n)) refuse("that leaves no finite number but zero; use fewer NaN codes");
  if (significandOf(0n, fmt)[1] < -1074n) refuse("the smallest step is below 2^-1074, that of float64; reduce exponent bits or bias");
  const extreme = fmt.last + (data.sign === "twos_complement" ? 1n : 0n);
  if (significandOf(extreme, fmt)[1] > 1023n || floorLog2(valueOf(extreme, fmt)) > 1023n) refuse("the largest value is above float64's range; reduce exponent bits or increase the bias");
}

// Values as the package takes them from Python: each is the nearest float64.
function definedCodebook(ties, text) {
  const words = text.split(/[\s,;]+/).filter(Boolean);
  const count = words.length;
  if (!has(DATA.ties, ties)) throw new Refused(`ties must be one of ${Object.keys(DATA.ties).join(", ")}`);
  if (count < 4 || count > 256 || count & (count - 1)) {
    throw new Refused(`${count} values; give one for each code: 4, 8, 16, 32, 64, 128 or 256 of them. Unused codes can be nan`);
  }
  const values = words.map((word) => {
    const value = parse(word);
    if (value === null) throw new Refused(`${word} is no number`);
    if (isNan(value)) return "NaN";
    const double = isFraction(value) ? decode(project(value, DOUBLE, DEFAULT), DOUBLE) : value;
    if (isInfinite(double) && isFraction(value)) throw new Refused(`${word} is beyond float64`);
    return double;
  });
  return codebookOf(values, ties);
}

function codebookOf(values, ties) {
  const seen = new Map();
  values.forEach((value, code) => {
    if (value === "NaN") return;
    const key = fractionText(value);
    if (seen.has(key)) throw new Refused(`codes ${seen.get(key)} and ${code} have the same value, ${shortText(value)}; make one of them nan`);
    seen.set(key, code);
  });
  const finite = [...values.keys()].filter((code) => isFraction(values[code])).sort((a, b) => compare(values[a], values[b]));
  const negative = finite.some((code) => values[code].n < 0n), minusZero = values.indexOf("-0");
  if (minusZero >= 0 && !seen.has("0")) throw new Refused("there is −0 but no 0; give that too");
  if (minusZero >= 0 && !negative) throw new Refused("there is −0 but no negative number; give that too");
  if (finite.length < 2 || !finite.some((code) => values[code].n > 0n)) {
    throw new Refused("give at least two finite numbers, one of them positive");
  }
  const first = (name) => (values.includes(name) ? BigInt(values.indexOf(name)) : null);
  const fmt = {
    kind: "codebook", name: DATA.own, source: "", values, width: bitLength(BigInt(values.length)) - 1n,
    sign: negative || minusZero >= 0 ? "magnitude" : "unsigned", tie_mode: DATA.ties[ties],
    subnormals: seen.has("0"), has_negative_zero: minusZero >= 0, hasNegativeZero: minusZero >= 0,
    nanCode: first("NaN"), infinityCodes: [first("+Inf"), first("-Inf")],
  };
  fmt.rays = [false, true].map((side) => rayOf(finite, values, side && fmt.sign === "magnitude", minusZero));
  const significant = ({ n }) => bitLength(abs(n)) - (n ? bitLength(abs(n) & -abs(n)) - 1n : 0n);
  if (fmt.rays.some((ray) => ray.thresholds.some((each) => significant(each) > 120n))) {
    throw new Refused("two values lie so far apart that the middle has more than 120 significant bits");
  }
  return fmt;
}

// One side of the values, from zero outward; one more gap after the extreme value is overflow.
function rayOf(finite, values, negative, minusZero) {
  let codes = finite.map(BigInt), sizes = finite.map((code) => values[code]);
  if (negative) {
    [codes, sizes] = [codes.reverse(), sizes.reverse().map(negate)];
    const zero = sizes.findIndex((size) => size.n === 0n);
    if (minusZero >= 0) codes[zero] = BigInt(minusZero);
  }
  const start = Math.max(sizes.findLastIndex((size) => size.n <= 0n), 0);
  [sizes, codes] = [sizes.slice(start), codes.slice(start)];
  const last = sizes[sizes.length - 1];
  const gap = sizes.length > 1 ? subtract(last, sizes[sizes.length - 2]) : magnitude(last);
  const beyond = add(last, gap), all = [...sizes, beyond];
  return { sizes, codes, thresholds: sizes.map((size, place) => middle(size, all[place + 1])), beyond };
}
