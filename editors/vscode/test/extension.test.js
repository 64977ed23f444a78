// The extension with a stand-in for VS Code (drive.js). SHARDC_BIN names the
// program; without it a stand-in answers (server.js).
"use strict";

const assert = require("node:assert");
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const test = require("node:test");

const folder = path.join(__dirname, "..");
const manifest = JSON.parse(
  fs.readFileSync(path.join(folder, "package.json"), "utf8"),
);

let driven; // once for all tests

function drive() {
  if (driven !== undefined) return driven;
  const program = process.env.SHARDC_BIN ?? path.join(__dirname, "server.js");
  const output = execFileSync(process.execPath, [path.join(__dirname, "drive.js")], {
    env: { ...process.env, SHARDC_BIN: program },
    timeout: 60000,
  });
  driven = JSON.parse(output);
  return driven;
}

test("the server is started, restarted and stopped", () => {
  const seen = drive();
  assert.deepStrictEqual(seen.server, ["shardc", "shardc", ["lsp", "--stdio"]]);
  assert.ok(seen.answer);
  const run = ["starting", "running", "stopped"];
  assert.deepStrictEqual(seen.events, [...run, ...run, ...run, "starting", ...run]);
});

test("a program that cannot be started is reported with the setting", () => {
  const { errors } = drive();
  assert.strictEqual(errors.length, 1);
  assert.match(errors[0], /cannot start `\/nowhere\/shardc`.*set `shardc\.path`/);
});

test("every command and setting that is used is declared", () => {
  const seen = drive();
  assert.deepStrictEqual(
    manifest.contributes.commands.map((one) => one.command),
    seen.commands,
  );
  for (const name of seen.configured) {
    assert.ok(name in manifest.contributes.configuration.properties, name);
  }
});

test("the files that the manifest names are there", () => {
  for (const name of [manifest.main, manifest.icon, "README.md"]) {
    assert.ok(fs.existsSync(path.join(folder, name)), name);
  }
});
