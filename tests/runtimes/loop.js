// Works for 20 ms in each of ten rounds of the event loop, then collects garbage.
const { PerformanceObserver } = require('perf_hooks');
const now = () => process.hrtime.bigint();
let pauses = 0, paused = 0;
// Of the kinds, 1 and 4 are whole collections; others are steps of one.
const observer = new PerformanceObserver(list => {
  for (const entry of list.getEntries()) {
    if (entry.detail.kind & 5) { pauses++; paused += entry.duration * 1e6; }
  }
});
const kept = [];
for (let i = 0; i < 100000; i++) { kept.push([i]); }
const finish = () => {
  console.log(`pauses ${pauses}\npaused_ns ${Math.round(paused)}`);
  process.exit(0);
};
const work = () => {
  observer.observe({ entryTypes: ['gc'] });
  let rounds = 0, busy = 0n;
  const timer = setInterval(() => {
    const start = now();
    while (now() - start < 20000000n);
    busy += now() - start;
    if (++rounds < 10) { return; }
    clearInterval(timer);
    console.log(`busy_ns ${busy}`);
    for (let i = 0; i < 7; i++) { global.gc(); }
    setTimeout(finish, 50);
  }, 40);
};
console.log('ready');
process.stdin.once('data', work);
