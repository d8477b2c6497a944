// A model fitted by skinnytrees, as plain JavaScript without dependencies, for Node.js and browsers.
//     const { predict } = require("./model.js");
//     predict({ age: 51, city: "Paris", weight: null });   // null, undefined and NaN are missing values
// gives { prediction: [...] }, or for classes { label: ..., probabilities: [...] } in the order of model.labels.
"use strict";

const skinnytrees = (() => {
  const model = @MODEL@;
  const [W, b, O] = [model.W, model.b, model.O].map((numbers) => Float32Array.from(numbers));
  const nNodes = model.nNodes, nOutputs = model.base.length;
  const nColumns = W.length / b.length, nTrees = b.length / nNodes;

  const isMissing = (x) => x === null || x === undefined || Number.isNaN(x);

  // Height at x of the piecewise-linear curve through the points, constant beyond the first and the last one.
  function heightAt(x, knots, heights) {
    let low = 0, high = knots.length - 1;
    if (x <= knots[low]) return heights[low];
    if (x >= knots[high]) return heights[high];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (knots[middle] <= x) low = middle; else high = middle;
    }
    return heights[low] + ((x - knots[low]) / (knots[high] - knots[low])) * (heights[high] - heights[low]);
  }

  function check(input, x) {
    if (isMissing(x)) return null;
    if (input.kind === "text") return String(x);
    if (typeof x === "boolean") return Number(x);
    if (typeof x !== "number" || !Number.isFinite(x)) {
      throw new TypeError(`Column "${input.name}" must be a finite number or missing, but is ${JSON.stringify(String(x))}.`);
    }
    return x;
  }

  // The design columns of one input.
  function encode(input, value) {
    const x = check(input, value), missing = x === null, columns = [];
    if (input.value) {
      const { mean, scale, farthest } = input.value;
      columns.push(missing ? 0 : Math.max(-farthest, Math.min(farthest, (x - mean) / scale)));
    }
    if (input.hasMissingColumn) columns.push(Number(missing));
    for (const heights of input.curves) columns.push(missing ? 0 : heightAt(x, input.knots, heights));
    input.levels.forEach((level, l) => {
      if (level === null) columns.push(Number(missing));
      else if (input.kind === "text") columns.push(Number(x === level));
      else columns.push(Number(!missing && Math.abs(x - level) <= input.tolerances[l]));
    });
    return columns;
  }

  // What each input adds to the score of each split, tree after tree. Scores are sums of these, so that a page which compares
  // rows that differ in a few inputs need not start anew.
  function scoreParts(row) {
    let first = 0;
    return model.inputs.map((input) => {
      const part = new Float64Array(b.length), columns = encode(input, row[input.name]);
      columns.forEach((d, k) => {
        if (d === 0) return;
        for (let t = 0; t < nTrees; t++) {
          const at = (t * nColumns + first + k) * nNodes;
          for (let i = 0; i < nNodes; i++) part[t * nNodes + i] += d * W[at + i];
        }
      });
      first += columns.length;
      return part;
    });
  }

  // Fraction of a row that goes left at a split of score z.
  function routing(z) {
    let t = z / model.theta;
    if (model.routing === "sigmoid") return 1 / (1 + Math.exp(-t));
    t = Math.max(-1, Math.min(1, t));
    return 0.5 + 0.25 * t * (3 - t * t);
  }

  // Level after level, all left children come before all right ones.
  function rawOutputs(scores) {
    const out = model.base.slice(), reach = new Float64Array(2 * nNodes + 1);
    for (let t = 0; t < nTrees; t++) {
      reach[0] = 1;
      for (let at = 0, width = 1; at < nNodes; at += width, width *= 2) {
        for (let i = at; i < at + width; i++) {
          reach[i + width] = reach[i] * routing(scores[t * nNodes + i]);
          reach[i + 2 * width] = reach[i] - reach[i + width];
        }
      }
      for (let c = 0; c < nOutputs; c++) {
        const at = (t * nOutputs + c) * (nNodes + 1);
        for (let i = 0; i <= nNodes; i++) out[c] += reach[nNodes + i] * O[at + i];
      }
    }
    return out;
  }

  function applyLink(raw) {
    if (model.link === "exp") return raw.map(Math.exp);
    if (model.link !== "softmax") return raw;
    const top = Math.max(...raw), powers = raw.map((r) => Math.exp(r - top));
    const total = powers.reduce((sum, power) => sum + power, 0);
    return powers.map((power) => power / total);
  }

  function outputs(row) {
    const scores = Float64Array.from(b);
    for (const part of scoreParts(row)) part.forEach((value, n) => { scores[n] += value; });
    return applyLink(rawOutputs(scores));
  }

  function predict(row) {
    const values = outputs(row);
    if (model.labels.length === 0) return { prediction: values };
    return { label: model.labels[values.indexOf(Math.max(...values))], probabilities: values };
  }

  return { predict, outputs, scoreParts, rawOutputs, applyLink, biases: b, model };
})();

if (typeof module !== "undefined") module.exports = { predict: skinnytrees.predict, model: skinnytrees.model };
