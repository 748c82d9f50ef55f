"use strict";
// Projection: round, then saturate, then encode. Results are codes; refusals are thrown as Refused.

class Refused extends Error {}

// Whether a mode takes the neighbour farther from zero; tail is in units of the gap.
function isFarther(tail, mode, negative, odd) {
  const limit = mode.thresholds[(negative ? 2 : 0) + (odd ? 1 : 0)];
  const twice = 2n * tail.n;
  switch (limit) {
    case "any": return tail.n > 0n;
    case "half_or_above": return twice >= tail.d;
    case "above_half": return twice > tail.d;
    case "never": return false;
    default: throw new Error(`unknown threshold ${limit}`);
  }
}

const keepsInfinity = (how) => how.saturation !== "finite";

function project(value, fmt, how) {
  for (const stop of how.via) value = decode(project(value, stop, DEFAULT), stop);
  const negative = isNegative(value);
  if (fmt.kind === "codebook") return projectCodebook(value, negative, fmt, how);
  if (isNan(value)) return nanResult(negative, fmt, how);
  if (value === "-0" || (isFraction(value) && value.n === 0n)) return zeroResult(negative, fmt, how);
  const last = lastMagnitude(negative, fmt, how);
  if (isInfinite(value)) {
    return keepsInfinity(how) ? beyond(negative, fmt, how) : signed(last, negative, fmt, how);
  }
  const size = magnitude(value);
  const m = roundMagnitude(size, last, negative, fmt, how);
  if (m > last) {
    return how.saturation === "none" ? beyond(negative, fmt, how) : signed(last, negative, fmt, how);
  }
  const flushes = how.subnormals === "flush_results" || how.subnormals === "flush_both";
  if (flushes && fmt.e && fmt.subnormals && isTiny(size, negative, fmt, how)) return zeroResult(negative, fmt, how);
  return signed(m, negative, fmt, how);
}

function lastMagnitude(negative, fmt, how) {
  return fmt.last + (negative && fmt.sign === "twos_complement" && !how.symmetric ? 1n : 0n);
}

function roundMagnitude(size, last, negative, given, how) {
  const fmt = how.smallest === "zero" && !given.subnormals ? { ...given, subnormals: true } : given;
  if (how.overflow_test !== "after" && compare(size, valueOf(last, fmt)) > 0) {
    const emax = floorLog2(valueOf(given.last, fmt));
    if (how.overflow_test === "before" || compare(size, twoTo(emax + 1n)) >= 0) return last + 1n;
  }
  let nearer = magnitudeBelow(size, fmt);
  if (nearer > last) nearer = last;
  if (nearer < 0n) return 0n;
  const low = valueOf(nearer, fmt);
  const tail = divide(subtract(size, low), subtract(valueOf(nearer + 1n, fmt), low));
  if (nearer === 0n && !given.subnormals && fmt.subnormals && tail.n * 2n === tail.d) {
    if (how.rounding.thresholds[negative ? 2 : 0] === "half_or_above") return 0n;
  }
  return nearer + (isFarther(tail, how.rounding, negative, nearer % 2n === 1n) ? 1n : 0n);
}

function isTiny(size, negative, fmt, how) {
  const first = 1n << fmt.t;
  const normal = valueOf(first, fmt);
  if (how.tininess === "before") return compare(size, normal) < 0;
  const below = subtract(normal, divide(normal, fraction(2n * first)));
  if (compare(size, below) < 0) return true;
  if (compare(size, normal) >= 0) return false;
  const tail = divide(subtract(size, below), subtract(normal, below));
  return !isFarther(tail, how.rounding, negative, (first - 1n) % 2n === 1n);
}

function signed(m, negative, fmt, how) {
  if (!negative) return m;
  if (fmt.sign === "twos_complement") return m ? (1n << fmt.width) - m : 0n;
  if (fmt.sign === "unsigned") return m === 0n && fmt.subnormals ? 0n : negativeOfUnsigned(m, fmt, how);
  return m === 0n && !fmt.negative_zero ? 0n : fmt.signCode | m;
}

function negativeOfUnsigned(m, fmt, how) {
  if (how.negative === "error") throw new Refused("no code for negative numbers");
  if (how.negative === "drop_sign") return m;
  if (how.negative === "nan" && fmt.nanCode !== null) return nanCode(true, fmt.nanCode, fmt, how);
  return zeroResult(false, fmt, how);
}

function beyond(negative, fmt, how) {
  if (negative && fmt.sign === "unsigned" && how.negative !== "drop_sign") return negativeOfUnsigned(0n, fmt, how);
  if (fmt.infinityCode !== null) return fmt.infinityCode | (negative ? fmt.signCode : 0n);
  if (fmt.nanCode !== null) return nanCode(negative, fmt.nanCode, fmt, how);
  return signed(lastMagnitude(negative, fmt, how), negative, fmt, how);
}

function zeroResult(negative, fmt, how) {
  if (fmt.subnormals) return negative && fmt.hasNegativeZero ? fmt.signCode : 0n;
  if (how.zero === "smallest" || fmt.nanCode === null) return negative ? fmt.signCode : 0n;
  return nanCode(negative, fmt.nanCode, fmt, how);
}

function nanCode(given, own, fmt, how) {
  const negative = given && how.nan_sign !== "positive";
  if (how.nan_code !== null) {
    const takesSign = fmt.sign === "magnitude" && (how.nan_code > 0n || fmt.negative_zero);
    return how.nan_code | (negative && takesSign ? fmt.signCode : 0n);
  }
  return own | (negative && fmt.hasSignedNan ? fmt.signCode : 0n);
}

function nanResult(given, fmt, how) {
  const negative = given && how.nan_sign === "keep";
  const own = fmt.nanCode === null ? how.nan_code : fmt.nanCode;
  if (own !== null) return nanCode(negative, own, fmt, how);
  if (how.nan === "error") throw new Refused("no code for NaN");
  if (how.nan === "max") {
    return signed(lastMagnitude(negative, fmt, how), negative && fmt.sign !== "unsigned", fmt, how);
  }
  return how.nan === "zero" ? zeroResult(negative, fmt, how) : fmt.signCode;
}

// -- codebooks: the same, among values that are looked up ---------------------------------------------

function projectCodebook(value, negative, fmt, how) {
  if (isNan(value)) return nanOfCodebook(negative && how.nan_sign === "keep", fmt, how);
  if (isInfinite(value)) return keepsInfinity(how) ? beyondCodebook(negative, fmt, how) : lastCode(negative, fmt, how);
  if (value === "-0" || value.n === 0n) {
    if (fmt.rays[0].sizes[0].n >= 0n) return zeroOfCodebook(negative, fmt, how);
    [value, negative] = [ZERO, false];
  }
  const ray = fmt.rays[negative ? 1 : 0];
  const place = placeOn(magnitude(value), ray, negative, fmt, how);
  if (place === ray.sizes.length) {
    return how.saturation === "none" ? beyondCodebook(negative, fmt, how) : lastCode(negative, fmt, how);
  }
  if (negative && fmt.sign === "unsigned" && ray.sizes[place].n) return negativeOfBook(ray.codes[place], fmt, how);
  return ray.codes[place];
}

// The index of the last size that is not above a number, -1 where there is none.
function lastNotAbove(size, sizes) {
  let low = 0, high = sizes.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(sizes[middle], size) <= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function placeOn(size, ray, negative, fmt, how) {
  const nearer = Math.max(lastNotAbove(size, ray.sizes), 0), last = ray.sizes.length - 1;
  if (compare(size, ray.sizes[nearer]) <= 0) return nearer;
  const mode = how.rounding.name === "nearest_even" ? fmt.tie_mode : how.rounding;
  const odd = ray.codes[nearer] % 2n === 1n;
  if (nearer === last) {
    if (how.overflow_test === "before") return last + 1;
    if (ray.beyond === null) return last;
    if (compare(size, ray.beyond) >= 0) return last + (isFarther(ONE, mode, negative, odd) ? 1 : 0);
  }
  const side = compare(size, ray.thresholds[nearer]);
  const tail = fraction(BigInt(side + 2), 4n);
  return nearer + (isFarther(tail, mode, negative, odd) ? 1 : 0);
}

function lastCode(negative, fmt, how) {
  const codes = fmt.rays[negative ? 1 : 0].codes;
  const code = codes[codes.length - 1];
  return negative && fmt.sign === "unsigned" ? negativeOfBook(code, fmt, how) : code;
}

const nanOfBook = (fmt, how) => (how.nan_code === null ? fmt.nanCode : how.nan_code);

function beyondCodebook(negative, fmt, how) {
  if (negative && fmt.sign === "unsigned") {
    if (how.negative !== "drop_sign") return negativeOfBook(0n, fmt, how);
    negative = false;
  }
  const infinity = fmt.infinityCodes[negative ? 1 : 0];
  if (infinity !== null) return infinity;
  if (fmt.nanCode !== null) return nanOfBook(fmt, how);
  const codes = fmt.rays[negative ? 1 : 0].codes;
  return codes[codes.length - 1];
}

function negativeOfBook(code, fmt, how) {
  if (how.negative === "error") throw new Refused("no code for negative numbers");
  if (how.negative === "drop_sign") return code;
  if (how.negative === "nan" && fmt.nanCode !== null) return nanOfBook(fmt, how);
  return zeroOfCodebook(false, fmt, how);
}

function zeroOfCodebook(negative, fmt, how) {
  if (fmt.subnormals) return fmt.rays[negative && fmt.hasNegativeZero ? 1 : 0].codes[0];
  if (how.zero === "smallest" || fmt.nanCode === null) return fmt.rays[0].codes[0];
  return nanOfBook(fmt, how);
}

function nanOfCodebook(negative, fmt, how) {
  const own = nanOfBook(fmt, how);
  if (own !== null) return own;
  if (how.nan === "error") throw new Refused("no code for NaN");
  if (how.nan === "max") {
    const codes = fmt.rays[negative && fmt.sign !== "unsigned" ? 1 : 0].codes;
    return codes[codes.length - 1];
  }
  return zeroOfCodebook(negative || how.nan === "negative_zero", fmt, how);
}
