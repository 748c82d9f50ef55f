"use strict";
// Values in order: neighbours, ulps, and the numbers that are rounded to a value.

// How many finite values a format has, -0 not counted; places 0, 1, 2 ... ascend in value.
function finiteCount(fmt) {
  if (fmt.kind === "codebook") return sortedCodes(fmt).length;
  return Number(negativeCount(fmt) + fmt.last + 1n);
}

function negativeCount(fmt) {
  if (fmt.sign === "unsigned") return 0n;
  if (fmt.sign === "twos_complement") return fmt.last + 1n;
  return fmt.last + (fmt.subnormals ? 0n : 1n);
}

// The codes of a codebook's finite values, ascending.
function sortedCodes(fmt) {
  fmt.sorted ??= [...fmt.values.keys()].filter((code) => isFraction(fmt.values[code]))
    .sort((a, b) => compare(fmt.values[a], fmt.values[b])).map(BigInt);
  return fmt.sorted;
}

function codeAt(place, fmt) {
  if (fmt.kind === "codebook") return sortedCodes(fmt)[place];
  const above = BigInt(place) - negativeCount(fmt);
  if (above >= 0n) return above;
  if (fmt.sign === "twos_complement") return (1n << fmt.width) + above;
  return fmt.signCode | (fmt.subnormals ? -above : -above - 1n);
}

// The place of a finite code; -0 has that of zero.
function placeOf(code, fmt) {
  if (fmt.kind === "codebook") {
    const value = fmt.values[Number(code)];
    return sortedCodes(fmt).findIndex((each) => compare(fmt.values[Number(each)], isFraction(value) ? value : ZERO) === 0);
  }
  const count = negativeCount(fmt);
  if (!(code & fmt.signCode)) return Number(count + code);
  if (fmt.sign === "twos_complement") return Number(count - ((1n << fmt.width) - code));
  const m = code & ~fmt.signCode;
  return Number(count - m - (fmt.subnormals ? 0n : 1n));
}

function infinityOf(negative, fmt) {
  if (fmt.kind === "codebook") return fmt.infinityCodes[negative ? 1 : 0];
  if (fmt.infinityCode === null || (negative && fmt.sign === "unsigned")) return null;
  return fmt.infinityCode | (negative ? fmt.signCode : 0n);
}

// The code of the next value up (step 1) or down (step -1); null where there is none.
function neighbour(code, fmt, step) {
  const value = decode(code, fmt), count = finiteCount(fmt);
  if (isNan(value)) return null;
  let place;
  if (value === "+Inf") place = count + step;
  else if (value === "-Inf") place = -1 + step;
  else place = placeOf(code, fmt) + step;
  if (place === count || place === -1) return infinityOf(place === -1, fmt);
  if (place > count || place < -1) return null;
  const found = codeAt(place, fmt);
  const minusZero = isNegative(value) && fmt.hasNegativeZero && decode(found, fmt).n === 0n;
  if (!minusZero) return found;
  return fmt.kind === "codebook" ? BigInt(fmt.values.indexOf("-0")) : fmt.signCode;
}

// A code's value, told apart from those of its neighbours.
function codeText(code, fmt) {
  const near = [-1, 1].map((step) => neighbour(code, fmt, step)).filter((each) => each !== null);
  return shortText(decode(code, fmt), near.map((each) => decode(each, fmt)));
}

// The gap from a value to the next one farther from zero; null of infinities and NaNs.
function ulpOf(code, fmt) {
  const value = decode(code, fmt);
  if (!isFraction(value) && value !== "-0") return null;
  if (fmt.kind === "codebook") {
    const ray = fmt.rays[isNegative(value) ? 1 : 0];
    const sizes = ray.beyond === null ? ray.sizes : [...ray.sizes, ray.beyond];
    const nearer = Math.max(lastNotAbove(isFraction(value) ? magnitude(value) : ZERO, sizes), 0);
    const place = Math.min(nearer, sizes.length - 2);
    return subtract(sizes[place + 1], sizes[place]);
  }
  let m = code;
  if (code & fmt.signCode) m = fmt.sign === "twos_complement" ? (1n << fmt.width) - code : code & ~fmt.signCode;
  return subtract(valueOf(m + 1n, fmt), valueOf(m, fmt));
}

// The numbers that become a code: {low, high}, each {at, closed}, or null where there is no end.
function intervalOf(code, fmt, rounding) {
  const value = decode(code, fmt);
  if (!isFraction(value) && value !== "-0") return null;
  return { low: endOf(code, fmt, rounding, -1), high: endOf(code, fmt, rounding, 1) };
}

function endOf(code, fmt, rounding, step) {
  const how = { ...DEFAULT, rounding };
  const becomes = (number) => {
    try { return project(number, fmt, how) === code; } catch (error) {
      if (error instanceof Refused) return false;
      throw error;
    }
  };
  const given = decode(code, fmt), value = isFraction(given) ? given : ZERO;
  const between = gapBeside(code, value, fmt, step);
  if (between === null) return null;
  const { next, threshold } = between;
  const far = fraction(BigInt(step) << 1100n);
  if (becomes(far) && becomes(next)) return null;
  const changes = [threshold];
  if (value.n * next.n < 0n && compare(threshold, ZERO)) changes.push(ZERO);
  changes.sort((one, other) => compare(one, other) * step);
  let end = { at: value, closed: true };
  for (const at of [...changes, next]) {
    if (!becomes(middle(end.at, at))) return end;
    end = { at, closed: becomes(at) };
    if (!end.closed) return end;
  }
  return end;
}

const middle = (a, b) => multiply(add(a, b), fraction(1n, 2n));

// The number beside a value, and the threshold between them; null where a codebook's values never overflow.
function gapBeside(code, value, fmt, step) {
  const place = placeOf(code, fmt) + step, outside = place < 0 || place >= finiteCount(fmt);
  if (fmt.kind === "codebook" && !(outside && step < 0 && fmt.sign === "unsigned")) {
    const side = fmt.rays.find((ray, negative) => {
      const size = negative ? negate(value) : value;
      const at = lastNotAbove(size, ray.sizes), outward = (step < 0) === (negative === 1);
      return at >= 0 && compare(ray.sizes[at], size) === 0 && (outward ? true : at > 0);
    });
    const negative = side === fmt.rays[1], size = negative ? negate(value) : value;
    const at = lastNotAbove(size, side.sizes), outward = (step < 0) === negative;
    const threshold = side.thresholds[outward ? at : at - 1];
    const next = outward && at + 1 === side.sizes.length ? side.beyond : side.sizes[outward ? at + 1 : at - 1];
    if (next === null || threshold === null) return null;
    return negative ? { next: negate(next), threshold: negate(threshold) } : { next, threshold };
  }
  let next;
  if (!outside) next = decode(codeAt(place, fmt), fmt);
  else if (fmt.sign === "unsigned" && step < 0) next = value.n > 0n ? ZERO : negate(ulpOf(code, fmt));
  else next = add(value, multiply(fraction(BigInt(step)), ulpOf(code, fmt)));
  return { next, threshold: middle(value, next) };
}
