"use strict";
// Formats from their parameters: codes to values, and the grid that rounding walks along.
// A format here is the page's data with BigInts; nothing about a format is written in this file.

function binaryFormat(data) {
  const fmt = { ...data, kind: "binary", e: BigInt(data.exponent_bits), t: BigInt(data.trailing_bits) };
  fmt.biased = BigInt(data.bias);
  fmt.width = fmt.e + fmt.t + (data.sign === "unsigned" ? 0n : 1n);
  fmt.signCode = data.sign === "unsigned" ? 0n : 1n << (fmt.width - 1n);
  fmt.nanCount = BigInt(data.nans);
  fmt.last = (1n << (fmt.e + fmt.t)) - 1n - fmt.nanCount - (data.infinity ? 1n : 0n);
  fmt.hasSignedNan = data.sign === "magnitude" && fmt.nanCount > 0n && data.negative_zero;
  fmt.hasNegativeZero = data.sign === "magnitude" && data.negative_zero && data.subnormals;
  fmt.infinityCode = data.infinity ? fmt.last + 1n : null;
  fmt.nanCode = nanCodeOf(fmt);
  return fmt;
}

function nanCodeOf(fmt) {
  if (!fmt.negative_zero) return fmt.signCode;
  if (fmt.nanCount === 0n) return null;
  if (fmt.infinity && fmt.t && fmt.nanCount === (1n << fmt.t) - 1n) return fmt.last + 1n + (1n << (fmt.t - 1n));
  return fmt.last + (fmt.infinity ? 1n : 0n) + fmt.nanCount;
}

function codebookFormat(data) {
  const number = (each) => (each === null ? null : fromData(each));
  const ray = (side) => ({
    sizes: side.sizes.map(number),
    codes: side.codes.map(BigInt),
    thresholds: side.thresholds.map(number),
    beyond: number(side.beyond),
  });
  const code = (each) => (each === null ? null : BigInt(each));
  return {
    ...data,
    kind: "codebook",
    width: bitLength(BigInt(data.values.length)) - 1n,
    values: data.values.map(fromData),
    rays: data.rays.map(ray),
    nanCode: code(data.nan_code),
    infinityCodes: data.infinity_codes.map(code),
    hasNegativeZero: data.has_negative_zero,
  };
}

const makeFormat = (data) => (data.values ? codebookFormat(data) : binaryFormat(data));

// [significand, exponent] of a magnitude, on the grid continued past the largest.
function significandOf(m, fmt) {
  const lowest = fmt.subnormals ? 1n : 0n;
  const field = fmt.e ? m >> fmt.t : 0n;
  if (field < lowest) return [m, 1n - fmt.biased - fmt.t];
  return [(m & ((1n << fmt.t) - 1n)) | (1n << fmt.t), field - fmt.biased - fmt.t];
}

const valueOf = (m, fmt) => scaled(...significandOf(m, fmt));

function decode(code, fmt) {
  if (fmt.kind === "codebook") return fmt.values[Number(code)];
  const negative = (code & fmt.signCode) !== 0n;
  if (fmt.sign === "twos_complement") {
    return negative ? negate(valueOf((1n << fmt.width) - code, fmt)) : valueOf(code, fmt);
  }
  const m = code & ~fmt.signCode;
  if (negative && m === 0n && !fmt.negative_zero) return "NaN";
  if (m > fmt.last) {
    if (m === fmt.infinityCode) return negative ? "-Inf" : "+Inf";
    return negative && fmt.hasSignedNan ? "-NaN" : "NaN";
  }
  const value = valueOf(m, fmt);
  if (!negative) return value;
  return value.n ? negate(value) : "-0";
}

// The name of what a code is, in the words of IEEE 754; numbers of codebooks and fixed point are normal.
function classOf(code, fmt) {
  const value = decode(code, fmt);
  if (isNan(value)) return "NaN";
  if (isInfinite(value)) return "infinity";
  if (value === "-0" || value.n === 0n) return "zero";
  if (fmt.kind === "codebook" || !fmt.e) return "normal";
  return fmt.subnormals && (code & ~fmt.signCode) >> fmt.t === 0n ? "subnormal" : "normal";
}

// The last magnitude whose value is not above a positive number; -1 where there is none.
function magnitudeBelow(size, fmt) {
  const step = significandOf(0n, fmt)[1];
  if (!fmt.e) {
    const units = multiply(size, twoTo(-step));
    return units.n / units.d;
  }
  let lead = floorLog2(size);
  const emin = (fmt.subnormals ? 1n : 0n) - fmt.biased;
  if (lead < emin) {
    if (!fmt.subnormals) return -1n;
    const units = multiply(size, twoTo(-step));
    return units.n / units.d;
  }
  const units = multiply(size, twoTo(fmt.t - lead));
  return ((lead + fmt.biased) << fmt.t) + (units.n / units.d - (1n << fmt.t));
}

function extremes(fmt) {
  if (fmt.kind === "codebook") {
    const finite = fmt.values.filter(isFraction);
    return [finite.reduce((a, b) => (compare(a, b) < 0 ? a : b)), finite.reduce(larger)];
  }
  const most = valueOf(fmt.last, fmt);
  if (fmt.sign === "unsigned") return [valueOf(0n, fmt), most];
  const least = fmt.sign === "twos_complement" ? valueOf(fmt.last + 1n, fmt) : most;
  return [negate(least), most];
}
const maxFinite = (fmt) => extremes(fmt)[1];
