// The parts of the playground's page that need no browser: node --test
'use strict';

const assert = require('node:assert');
const test = require('node:test');
const page = '../../playground/page/';
const {fragmentOf, stateOf} = require(page + 'state.js');
const results = require(page + 'results.js');
const {Wasi} = require(page + 'wasi.js');

test('a link holds every input and nothing else', async () => {
  const state = {model: 'gpt2.hf', mesh: 'tp:4', rules: 'version: 1\n# é ≤ 𝛼\n',
    own: '', tab: 'plan', other: 'x', config: 3};
  const fragment = await fragmentOf(state);
  assert.match(fragment, /^#v1=[A-Za-z0-9_-]+$/);
  assert.deepStrictEqual(await stateOf(fragment), {
    model: 'gpt2.hf', mesh: 'tp:4', rules: 'version: 1\n# é ≤ 𝛼\n',
    tab: 'plan'});
});

test('a page without a state in its link starts with the defaults', async () => {
  assert.strictEqual(await stateOf(''), null);
  assert.strictEqual(await stateOf('#findings'), null);
});

test('a damaged link is refused', async () => {
  await assert.rejects(stateOf('#v1=AAAA'));
  await assert.rejects(stateOf('#v1=%%%'));
  await assert.rejects(stateOf('#v1='));
});

test('a link that inflates to more than the limit is refused', async () => {
  const fragment = await fragmentOf({rules: 'x'.repeat(9 << 20)});
  assert.ok(fragment.length < 20000);
  await assert.rejects(stateOf(fragment), RangeError);
});

test('words are split as a shell splits them', () => {
  const words = results.wordsOf;
  assert.deepStrictEqual(words(`resolve '[BATCH, _]' --mode "a b"`),
                         ['resolve', '[BATCH, _]', '--mode', 'a b']);
  assert.deepStrictEqual(words(`  a\\ b ''  c`), ['a b', '', 'c']);
  assert.deepStrictEqual(words(''), []);
  assert.strictEqual(words(`it's`), null);
});

test('empty fields give no options', () => {
  const inputs = results.inputsOf(
      {rules: 'version: 1', mesh: ' tp:4 ', memory: ' ', batch: '8'},
      {name: 'model.json', bytes: new Uint8Array(0)});
  assert.deepStrictEqual(inputs.all, ['--mesh', 'tp:4', '--rules', 'rules.yaml',
    '--manifest', 'model.json', '--no-project']);
  assert.deepStrictEqual(inputs.memory, []);
  assert.deepStrictEqual(inputs.work, ['--batch', '8']);
  assert.deepStrictEqual(results.commandOf('mesh', inputs),
                         ['show', 'mesh', '--mesh', 'tp:4', '--rules', 'rules.yaml',
                          '--no-project']);
});

test('a file keeps the ending that decides its format', () => {
  const name = results.manifestName;
  assert.strictEqual(name('A.safetensors.index.json'),
                     'model.safetensors.index.json');
  assert.strictEqual(name('x.SAFETENSORS'), 'model.safetensors');
  assert.strictEqual(name('x.json.gz'), 'model.json.gz');
  assert.strictEqual(name('pasted'), 'model.json');
});

test('of a safetensors file the header is read', () => {
  assert.strictEqual(
      results.headerBytes(Uint8Array.of(5, 1, 0, 0, 0, 0, 0, 0)), 269);
  assert.strictEqual(results.headerBytes(new Uint8Array(8).fill(255)), 0);
  assert.strictEqual(results.headerBytes(Uint8Array.of(1)), 0);
});

test('a line has its worst level', () => {
  const finding = (level, line, file = 'rules.yaml') => ({level, line, file});
  const findings = [finding('note', 2), finding('error', 2),
    finding('warning', 2), finding('warning', 3), finding('error', null),
    finding('error', 9, 'other.yaml')];
  assert.deepStrictEqual([...results.markedLines(findings)].sort(),
                         [[2, 'error'], [3, 'warning']]);
  assert.strictEqual(results.countsOf(findings), '3 errors, 2 warnings, 1 note');
  assert.strictEqual(results.countsOf([]), 'no findings');
});

// Calls of the system with a memory of one page, as a program calls it.
function system(files = {}) {
  const encoder = new TextEncoder();
  const made = new Wasi(['t'], new Map(Object.entries(files).map(
      ([name, text]) => [name, encoder.encode(text)])));
  made.memory = {buffer: new ArrayBuffer(65536)};
  const calls = made.imports().wasi_snapshot_preview1;
  const put = (at, text) => {
    const bytes = encoder.encode(text);
    made.slice(at, bytes.length).set(bytes);
    return [at, bytes.length];
  };
  const open = (path, flags = 0, rights = 0n) => {
    const error = calls.path_open(3, 0, ...put(0, path), flags, rights, 0n, 0,
                                  1000);
    return error === 0 ? made.view().getUint32(1000, true) : -error;
  };
  const vector = (at, size) => {
    made.view().setUint32(2000, at, true);
    made.view().setUint32(2004, size, true);
    return [2000, 1];
  };
  return {made, calls, put, open, vector};
}

test('a file is read in parts, at its own place and at others', () => {
  const {made, calls, open, vector} = system({'/d/a.txt': 'hello'});
  const fd = open('d/../d/./a.txt');
  assert.strictEqual(calls.fd_read(fd, ...vector(3000, 2), 1004), 0);
  assert.strictEqual(made.text(3000, 2), 'he');
  assert.strictEqual(calls.fd_pread(fd, ...vector(3000, 9), 3n, 1004), 0);
  assert.strictEqual(made.view().getUint32(1004, true), 2);
  assert.strictEqual(made.text(3000, 2), 'lo');
  assert.strictEqual(calls.fd_read(fd, ...vector(3000, 9), 1004), 0);
  assert.strictEqual(made.text(3000, 3), 'llo');
  assert.strictEqual(calls.fd_close(fd), 0);
  assert.strictEqual(calls.fd_close(fd), 8);
});

test('a file is written, named again and removed', () => {
  const {made, calls, put, open, vector} = system();
  assert.strictEqual(open('a'), -44);
  const fd = open('a', 1, 1n << 6n);
  put(3000, 'abc');
  calls.fd_write(fd, ...vector(3000, 3), 1004);
  calls.fd_pwrite(fd, ...vector(3000, 2), 5n, 1004);
  assert.strictEqual(calls.path_rename(3, ...put(0, 'a'), 3, ...put(100, 'b')),
                     0);
  assert.deepStrictEqual([...made.files.keys()], ['/b']);
  assert.strictEqual(Buffer.from(made.files.get('/b').all()).toString(),
                     'abc\0\0ab');
  assert.strictEqual(open('b', 1 | 4), -20);
  assert.strictEqual(calls.path_unlink_file(3, ...put(0, 'b')), 0);
  assert.strictEqual(calls.path_unlink_file(3, ...put(0, 'b')), 44);
});

test('a folder is listed in order, and over a small buffer in parts', () => {
  const {made, calls, open} = system({'/b': '', '/a/x': '', '/a/y/z': ''});
  const names = (size) => {
    const fd = open('.');
    const out = [];
    for (let cookie = 0n; ;) {
      calls.fd_readdir(fd, 4000, size, cookie, 1004);
      const used = made.view().getUint32(1004, true);
      let at = 0;
      while (at + 24 <= used) {
        const length = made.view().getUint32(4000 + at + 16, true);
        if (at + 24 + length > used) break;
        out.push(made.text(4000 + at + 24, length));
        cookie = made.view().getBigUint64(4000 + at, true);
        at += 24 + length;
      }
      if (used < size) return out;
    }
  };
  assert.deepStrictEqual(names(4096), ['.', '..', 'a', 'b']);
  assert.deepStrictEqual(names(30), ['.', '..', 'a', 'b']);
});

test('nothing outside the folder in memory can be opened', () => {
  const {open} = system({'/a': 'x'});
  assert.ok(open('../../../a') > 3);
  assert.strictEqual(open('../etc/passwd'), -44);
  assert.strictEqual(open('.', 0, 1n << 6n), -31);
});

test('a call that the system lacks fails and does not end the program', () => {
  const {calls} = system();
  assert.strictEqual(calls.sock_accept(3, 0, 0), 52);
});
