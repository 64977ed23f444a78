// Runs a command of the playground's module as the program runs it:
//
//   node run.js MODULE FOLDER ARGUMENT...
//
// The files of FOLDER are the files of its working folder.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const {Wasi} = require('../../playground/page/wasi.js');

async function main() {
  const [, , module, folder, ...args] = process.argv;
  const files = new Map();
  for (const name of fs.readdirSync(folder)) {
    files.set('/' + name, fs.readFileSync(path.join(folder, name)));
  }
  const compiled = await WebAssembly.compile(fs.readFileSync(module));
  const system = new Wasi(['shardc', ...args], files, ['LC_ALL=C.UTF-8']);
  const instance = await WebAssembly.instantiate(compiled, system.imports());
  const status = system.start(instance);
  fs.writeSync(1, system.stdout());
  fs.writeSync(2, system.stderr());
  process.exitCode = status;
}

main();
