// Uses a CPU in a function that is compiled soon, as often as the first argument says, or until it
// is killed.
"use strict";

function hot_inner(rounds) {
  let sum = 0;
  for (let i = 0; i < rounds; i++) sum += Math.sqrt(i);
  return sum;
}

function hot_outer() {
  return hot_inner(1e5);
}

const times = Number(process.argv[2] ?? Infinity);
console.log("ready");
for (let i = 0; i < times; i++) hot_outer();
