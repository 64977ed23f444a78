#!/usr/bin/env node
// A stand-in for `shardc lsp`: answers the first request and ends with its input.
"use strict";

let answered = false;
process.stdin.on("data", () => {
  if (answered) return;
  answered = true;
  const body = '{"id":1,"result":{"serverInfo":{"name":"shardc"}}}';
  process.stdout.write(`Content-Length: ${body.length}\r\n\r\n${body}`);
});
process.stdin.on("end", () => process.exit(0));
