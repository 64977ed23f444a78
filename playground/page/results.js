// What the page runs for its inputs, and what of the output it shows. Nothing
// here reads the page, so that Node can test it.
'use strict';

// Splits a line into words as a shell does with quotes and backslashes:
//   `resolve '[BATCH, _]'`  ->  ['resolve', '[BATCH, _]']
// Returns null if a quote is not closed.
function wordsOf(line) {
  const words = [];
  let word = null;
  let quote = '';
  for (let i = 0; i < line.length; ++i) {
    const c = line[i];
    if (quote !== '') {
      if (c === quote) quote = '';
      else if (c === '\\' && quote === '"' && i + 1 < line.length) word += line[++i];
      else word += c;
    } else if (c === '"' || c === "'") {
      quote = c;
      word = word || '';
    } else if (c === '\\' && i + 1 < line.length) {
      word = (word || '') + line[++i];
    } else if (/\s/.test(c)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word || '') + c;
    }
  }
  if (quote !== '') return null;
  if (word !== null) words.push(word);
  return words;
}

// The files and arguments of all commands for these inputs. `manifest` has a
// name and bytes.
function inputsOf(state, manifest) {
  const files = {'rules.yaml': state.rules, [manifest.name]: manifest.bytes};
  const mesh = ['--mesh', state.mesh.trim()];
  const rules = ['--rules', 'rules.yaml'];
  const model = ['--manifest', manifest.name];
  if (manifest.name.endsWith('.safetensors')) model.push('--header-only');
  if ((state.config || '').trim() !== '') {
    files['config.json'] = state.config;
    model.push('--model', 'config.json');
  }
  const option = (name, text) =>
    ((text || '').trim() === '' ? [] : [name, text.trim()]);
  return {
    files,
    mesh,
    rules,
    model,
    all: [...mesh, ...rules, ...model, '--no-project'],
    memory: option('--memory', state.memory),
    work: [...option('--batch', state.batch), ...option('--seq', state.seq)],
  };
}

// The arguments of each command that the page runs.
function commandOf(name, inputs, more = {}) {
  const place = [...inputs.mesh, ...inputs.rules, '--no-project'];
  switch (name) {
    case 'check':
      return ['check', ...inputs.all, ...inputs.memory, '--format', 'json'];
    case 'plan': return ['plan', ...inputs.all, '--keep-going'];
    case 'report':
      return ['report', ...inputs.all, ...inputs.memory, ...inputs.work];
    case 'mesh': return ['show', 'mesh', ...place];
    case 'resolve':
      return ['resolve', more.axes, '--mode', more.mode, ...place];
    case 'explain': return ['explain', more.what, ...inputs.all];
    case 'layout': return ['show', 'layout', more.what, ...inputs.all];
    case 'suggest':
      return ['suggest', ...inputs.mesh, ...inputs.model, '--no-project'];
    default: throw new Error('no command `' + name + '`');
  }
}

// The findings of `check --format json`, or null if it printed none.
function findingsOf(stdout) {
  try {
    const list = JSON.parse(stdout);
    return Array.isArray(list) ? list : null;
  } catch (error) {
    return null;
  }
}

const LEVELS = ['error', 'warning', 'note'];

// `2 errors, 1 warning`, or `no findings`.
function countsOf(findings) {
  const parts = [];
  for (const level of LEVELS) {
    const count = findings.filter((finding) => finding.level === level).length;
    if (count > 0) parts.push(count + ' ' + level + (count > 1 ? 's' : ''));
  }
  return parts.length > 0 ? parts.join(', ') : 'no findings';
}

// The worst level of each line of the rules that a finding names.
function markedLines(findings) {
  const out = new Map();
  for (const level of [...LEVELS].reverse()) {
    for (const finding of findings) {
      if (finding.level === level && finding.file === 'rules.yaml' &&
          finding.line !== null) {
        out.set(finding.line, level);
      }
    }
  }
  return out;
}

// The name under which the program reads a file of the user's own. It decides
// the format by the ending.
function manifestName(name) {
  const known = ['.safetensors.index.json', '.safetensors', '.gguf',
    '.json.gz', '.json'];
  const ending = known.find((one) => name.toLowerCase().endsWith(one));
  return 'model' + (ending || '.json');
}

// How many bytes of a safetensors file hold its header; 0 if it has none.
// `start` holds the first eight bytes.
function headerBytes(start) {
  if (start.length < 8) return 0;
  const size = new DataView(start.buffer, start.byteOffset, 8)
      .getBigUint64(0, true);
  return size > 100_000_000n ? 0 : Number(size) + 8;
}

if (typeof module !== 'undefined') {
  module.exports = {wordsOf, inputsOf, commandOf, findingsOf, countsOf,
    markedLines, manifestName, headerBytes};
}
