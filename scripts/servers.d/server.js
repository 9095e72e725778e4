// An HTTP server that answers after SECONDS; /count returns the number of requests so far. Arguments: PORT SECONDS.
const [port, seconds] = process.argv.slice(2).map(Number);
let count = 0;
require("http").createServer((request, response) => {
  const body = String(++count);
  const answer = () => response.end(body);
  if (request.url === "/count") answer(); else setTimeout(answer, seconds * 1000);
}).listen(port, "127.0.0.1");
