"use strict";
// Blocks: a scale from the largest magnitude by a rule, and elements divided by it.

const makeBlock = (data) => ({
  ...data,
  element: BLOCK_PARTS[data.element],
  scale: BLOCK_PARTS[data.scale],
  elements: makeProjection(data.elements),
  scales: makeProjection(data.scales),
  min_scale: fromData(data.min_scale),
  smallest_divides_as: data.smallest_divides_as && fromData(data.smallest_divides_as),
});
const makeRule = (data) => ({ ...data, threshold: data.threshold && parse(data.threshold) });
const BLOCK_PARTS = byName(DATA.block_parts);
const BLOCKS = Object.fromEntries(Object.entries(DATA.blocks).map(([name, of]) => [name, makeBlock(of)]));
const RULES = Object.fromEntries(DATA.rules.map((of) => [of.name, makeRule(of)]));
const SINGLE = BLOCK_PARTS[DATA.single];
const SATURATING = { ...DEFAULT, saturation: "finite" };

// Rounded to binary32, to nearest even; what is too large stops at the largest number.
function single(value) {
  const result = decode(project(value, SINGLE, SATURATING), SINGLE);
  return isFraction(result) ? result : ZERO;
}

function over(value, by) {
  if (by.n) return single(divide(value, by));
  const sign = value.n > 0n ? 1n : value.n < 0n ? -1n : 0n;
  return multiply(fraction(sign), maxFinite(SINGLE));
}

const amaxOf = (values) => values.filter(isFraction).map(magnitude).reduce(larger, ZERO);

// {value, inverse} of the scale of a whole tensor.
function tensorScale(values, block) {
  const amax = amaxOf(values);
  if (block.tensor_scale === "none" || amax.n === 0n) return { value: ONE, inverse: ONE };
  const most = multiply(maxFinite(block.element), maxFinite(block.scale)), least = twoTo(-149n);
  if (block.tensor_scale === "divide") {
    const value = larger(single(divide(amax, most)), least);
    return { value, inverse: single(divide(ONE, value)) };
  }
  const inverse = larger(single(divide(most, larger(single(amax), least))), least);
  return { value: larger(single(divide(ONE, inverse)), least), inverse };
}

// {scale, codes} of one block under a rule.
function encodeBlock(given, block, rule, tensor) {
  let values = given, amax = amaxOf(values);
  if (block.flush_subnormals && compare(amax, twoTo(-126n)) < 0) {
    values = values.map((each) => (isFraction(each) ? zeroLike(each) : each));
    amax = ZERO;
  }
  const blocked = values.some(isNan) && block.nan !== "elements";
  const policy = blocked ? block.nan : values.some(isInfinite) ? block.infinity : "elements";
  if (["block", "scale", "all"].includes(policy)) {
    return { scale: project("NaN", block.scale, block.scales), codes: underNan(values, block, blocked ? policy : "block") };
  }
  let scale;
  if (policy === "largest") scale = project("+Inf", block.scale, SATURATING);
  else scale = scaleOf(policy === "power" ? twoTo(128n) : amax, block, rule, tensor);
  let by = decode(scale, block.scale);
  if (by === "-0") by = ZERO;
  if (!isFraction(by)) return { scale, codes: underNan(values, block, block.nan === "elements" ? "block" : block.nan) };
  const smallest = decode(0n, block.scale);
  if (block.smallest_divides_as && isFraction(smallest) && compare(by, smallest) === 0) by = block.smallest_divides_as;
  const codes = values.map((each) => project(dividedBy(each, by, tensor, block), block.element, block.elements));
  return { scale, codes };
}

function scaleOf(amax, block, rule, tensor) {
  if (amax.n === 0n && block.zero === "smallest") return 0n;
  if (amax.n === 0n && block.zero === "one") return project(ONE, block.scale, block.scales);
  let wanted = quotient(amax, block, rule, tensor);
  if (rule.powers !== "none" && wanted.n) wanted = powerOf(wanted, amax, rule, block.element);
  return project(larger(wanted, block.min_scale), block.scale, block.scales);
}

function quotient(amax, block, rule, tensor) {
  const most = maxFinite(block.element);
  const by = { one: ONE, maximum: most, binade: twoTo(floorLog2(most)) }[rule.divisor];
  if (block.arithmetic === "exact") return divide(amax, multiply(by, tensor.value));
  const top = single(amax), low = single(by);
  if (block.arithmetic === "product") return over(top, single(multiply(low, tensor.value)));
  if (block.arithmetic === "reciprocal") {
    return single(multiply(top, single(multiply(tensor.inverse, over(ONE, low)))));
  }
  return single(divide(over(top, low), tensor.value));
}

function powerOf(wanted, amax, rule, element) {
  const below = twoTo(floorLog2(wanted)), above = multiply(below, fraction(2n));
  const position = divide(wanted, below);
  if (rule.powers === "up") return compare(wanted, below) === 0 ? below : above;
  if (rule.powers === "nearest") {
    const up = rule.threshold
      ? compare(position, rule.threshold) >= 0
      : compare(multiply(position, position), fraction(2n)) >= 0;
    return up ? above : below;
  }
  if (rule.powers === "even") {
    if (element.kind === "codebook") throw new Refused("this rule asks for a precision, and codebooks have none");
    const precision = element.t + (element.e ? 1n : 0n);
    const units = add(divide(amax, twoTo(floorLog2(amax) - precision + 1n)), fraction(1n, 2n));
    return bitLength(units.n / units.d) > precision ? above : below;
  }
  return below;
}

function dividedBy(value, by, tensor, block) {
  if (!isFraction(value)) return value;
  const whole = multiply(by, tensor.value);
  if (block.arithmetic === "exact") return whole.n ? divide(value, whole) : zeroLike(value);
  const short = single(value);
  let result;
  if (block.arithmetic === "product") result = over(short, single(whole));
  else if (block.arithmetic === "reciprocal") result = single(multiply(short, over(ONE, single(whole))));
  else result = single(multiply(short, over(over(ONE, tensor.value), by)));
  return result.n ? result : zeroLike(value);
}

function underNan(values, block, policy) {
  if (policy === "block") return values.map(() => 0n);
  const left = (each) => (policy === "all" ? "NaN" : isNan(each) ? each : zeroLike(each));
  return values.map((each) => project(left(each), block.element, block.elements));
}
