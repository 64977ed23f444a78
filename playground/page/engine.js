// Runs commands of shardc in the page. Every run has a fresh memory and fresh
// files, so that no run sees another:
//
//   const engine = await Engine.load(SHARDC_MODULE);
//   await engine.run(['show', 'mesh', '--mesh', 'dp:2,tp:4'], {})
//     ->  {status: 0, stdout: 'dp=2 tp=4\n...', stderr: ''}
'use strict';

// Bytes of base64 text.
function fromBase64(text) {
  const binary = atob(text);
  const out = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) out[i] = binary.charCodeAt(i);
  return out;
}

// Returns what a gzip or deflate stream holds. Throws a RangeError if that is
// more than `limit` bytes, and another error if the stream is damaged.
async function inflated(bytes, format, limit) {
  const stream = new Blob([bytes]).stream()
      .pipeThrough(new DecompressionStream(format));
  const reader = stream.getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    const {done, value} = await reader.read();
    if (done) break;
    size += value.length;
    if (size > limit) {
      await reader.cancel();
      throw new RangeError('more than ' + limit + ' bytes');
    }
    parts.push(value);
  }
  const out = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

const MODULE_LIMIT = 256 << 20;

class Engine {
  constructor(module) {
    this.module = module;
    this.ended = Promise.resolve();
  }

  // `packed` is base64 text of the gzipped module.
  static async load(packed) {
    const bytes = await inflated(fromBase64(packed), 'gzip', MODULE_LIMIT);
    return new Engine(await WebAssembly.compile(bytes));
  }

  // `files` maps names in the working folder to text or Uint8Array. Runs one
  // command at a time, in the order of the calls.
  run(args, files) {
    const result = this.ended.then(() => this.runNow(args, files));
    this.ended = result.catch(() => {});
    return result;
  }

  async runNow(args, files) {
    const encoder = new TextEncoder();
    const bytes = new Map(Object.entries(files).map(([name, data]) => [
      '/' + name, typeof data === 'string' ? encoder.encode(data) : data]));
    const system = new Wasi(['shardc', ...args], bytes, ['LC_ALL=C.UTF-8']);
    const instance =
        await WebAssembly.instantiate(this.module, system.imports());
    const status = system.start(instance);
    return {status, stdout: system.stdout(), stderr: system.stderr()};
  }
}

if (typeof module !== 'undefined') {
  global.Wasi = require('./wasi.js').Wasi;
  module.exports = {Engine, fromBase64, inflated};
}
