"use strict";
// Exact numbers: a fraction of BigInts {n, d}, or the name of what is no fraction:
// "-0", "+Inf", "-Inf", "NaN", "-NaN". Nothing here is a floating-point number.

const abs = (n) => (n < 0n ? -n : n);
const bitLength = (n) => BigInt(n === 0n ? 0 : n.toString(2).length);

function gcd(a, b) {
  while (b) [a, b] = [b, a % b];
  return a;
}

function fraction(n, d = 1n) {
  if (d < 0n) [n, d] = [-n, -d];
  const common = gcd(abs(n), d);
  return common > 1n ? { n: n / common, d: d / common } : { n, d };
}

const ZERO = fraction(0n);
const ONE = fraction(1n);
const isFraction = (value) => typeof value === "object";
const isNan = (value) => value === "NaN" || value === "-NaN";
const isInfinite = (value) => value === "+Inf" || value === "-Inf";
const isNegative = (value) => (isFraction(value) ? value.n < 0n : value.startsWith("-"));
const zeroLike = (value) => (isNegative(value) ? "-0" : ZERO);

const scaled = (n, exponent) => (exponent >= 0n ? fraction(n << exponent) : fraction(n, 1n << -exponent));
const twoTo = (exponent) => scaled(1n, exponent);
const add = (a, b) => fraction(a.n * b.d + b.n * a.d, a.d * b.d);
const subtract = (a, b) => fraction(a.n * b.d - b.n * a.d, a.d * b.d);
const multiply = (a, b) => fraction(a.n * b.n, a.d * b.d);
const divide = (a, b) => fraction(a.n * b.d, a.d * b.n);
const negate = (a) => ({ n: -a.n, d: a.d });
const magnitude = (a) => ({ n: abs(a.n), d: a.d });
const compare = (a, b) => {
  const difference = a.n * b.d - b.n * a.d;
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
};
const larger = (a, b) => (compare(a, b) < 0 ? b : a);

// The integer k with 2**k <= value < 2**(k + 1), of a positive value.
function floorLog2(value) {
  const k = bitLength(value.n) - bitLength(value.d);
  return compare(twoTo(k), value) <= 0 ? k : k - 1n;
}

// [significand, exponent] of the page's data to a fraction; text stands for itself.
const fromData = (data) => (typeof data === "string" ? data : scaled(BigInt(data[0]), BigInt(data[1])));

// Bits of a power, and characters of a number: with longer ones the page would stand still.
const MOST_BITS = 8000n, MOST_TYPED = 2000;

// What people type: decimal, hexadecimal float, fraction, inf, nan. Null for what is no number, or too long.
function parse(text) {
  if (text.length > MOST_TYPED) return null;
  const said = text.trim().toLowerCase().replace(/[_\s]/g, "").replace("−", "-");
  const special = /^([+-]?)(inf|infinity|nan)$/.exec(said);
  if (special) {
    const negative = special[1] === "-";
    return special[2] === "nan" ? (negative ? "-NaN" : "NaN") : negative ? "-Inf" : "+Inf";
  }
  const parts = said.split("/");
  if (parts.length > 2) return null;
  const [over, under] = parts.map(parseSimple);
  if (over === null || under === null) return null;
  if (under === undefined) return over;
  if (!isFraction(under) || under.n === 0n) return null;
  return isFraction(over) ? divide(over, under) : over;
}

function parseSimple(said) {
  const hex = /^([+-]?)0x([0-9a-f]*)\.?([0-9a-f]*)(?:p([+-]?\d{1,5}))?$/.exec(said);
  const decimal = /^([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d{1,5}))?$/.exec(said);
  const power = /^([+-]?)(\d+)(?:\^|\*\*)([+-]?\d{1,5})$/.exec(said);
  const powers = [hex && [2n, hex[4]], decimal && [10n, decimal[4]], power && [BigInt(power[2]), power[3]]];
  if (powers.some((each) => each && bitLength(each[0]) * abs(BigInt(each[1] || 0)) > MOST_BITS)) return null;
  let size, sign;
  if (hex && hex[2] + hex[3]) {
    sign = hex[1];
    size = scaled(BigInt("0x" + hex[2] + hex[3]), BigInt(hex[4] || 0) - 4n * BigInt(hex[3].length));
  } else if (decimal && decimal[2] + decimal[3]) {
    sign = decimal[1];
    const exponent = BigInt(decimal[4] || 0) - BigInt(decimal[3].length);
    const digits = BigInt(decimal[2] + decimal[3]);
    size = exponent >= 0n ? fraction(digits * 10n ** exponent) : fraction(digits, 10n ** -exponent);
  } else if (power) {
    sign = power[1];
    const exponent = BigInt(power[3]);
    if (BigInt(power[2]) === 0n && exponent < 0n) return null;
    const base = BigInt(power[2]) ** abs(exponent);
    size = exponent < 0n ? fraction(1n, base) : fraction(base);
  } else return null;
  if (sign !== "-") return size;
  return size.n === 0n ? "-0" : negate(size);
}

// Every digit, where the number is a finite decimal; else the fraction.
function decimalText(value) {
  if (!isFraction(value)) return value;
  let twos = 0n, fives = 0n, rest = value.d;
  while (rest % 2n === 0n) [rest, twos] = [rest / 2n, twos + 1n];
  while (rest % 5n === 0n) [rest, fives] = [rest / 5n, fives + 1n];
  if (rest !== 1n) return fractionText(value);
  const places = twos > fives ? twos : fives;
  const digits = (abs(value.n) * 10n ** places / value.d).toString().padStart(Number(places) + 1, "0");
  const whole = digits.slice(0, digits.length - Number(places));
  const tail = places ? "." + digits.slice(digits.length - Number(places)) : "";
  return (value.n < 0n ? "-" : "") + whole + tail;
}

function fractionText(value) {
  if (!isFraction(value)) return value;
  return value.d === 1n ? value.n.toString() : `${value.n}/${value.d}`;
}

// 0x1.8p+3, of binary fractions.
function hexText(value) {
  if (!isFraction(value)) return value;
  if (value.n === 0n) return "0x0p+0";
  if (value.d & (value.d - 1n)) return fractionText(value);
  const exponent = floorLog2(magnitude(value));
  let digits = abs(value.n), lead = bitLength(digits) - 1n;
  const pad = (4n - (lead % 4n)) % 4n;
  digits = (digits << pad) - (1n << (lead + pad));
  const tail = lead + pad ? digits.toString(16).padStart(Number((lead + pad) / 4n), "0").replace(/0+$/, "") : "";
  return `${value.n < 0n ? "-" : ""}0x1${tail ? "." + tail : ""}p${exponent < 0n ? "" : "+"}${exponent}`;
}

// For drawing and for short labels alone: the nearest float64, or one beside it. No answer depends on it.
function approximate(value) {
  if (!isFraction(value)) return { "-0": -0, "+Inf": Infinity, "-Inf": -Infinity }[value] ?? NaN;
  if (value.n === 0n) return 0;
  const k = floorLog2(magnitude(value));
  const top = multiply(value, twoTo(60n - k));
  return Number(top.n / top.d) * 2 ** -60 * 2 ** Number(k);
}

// About six digits, more where others would read the same; with a sign of approximation where that is not
// the whole number.
function shortText(value, others = []) {
  if (!isFraction(value)) return value.replace("-", "−").replace("+", "");
  const full = decimalText(value);
  if (full.length <= 12 && !full.includes("/")) return full.replace("-", "−");
  const rounded = (each, digits) => approximate(each).toPrecision(digits);
  const near = others.filter((each) => isFraction(each) && compare(each, value) !== 0);
  let digits = 6;
  while (digits < 17 && near.some((each) => rounded(each, digits) === rounded(value, digits))) digits++;
  return "≈" + rounded(value, digits).replace(/(\.\d*?)0+(e|$)/, "$1$2").replace(/\.(e|$)/, "$1").replaceAll("-", "−");
}
