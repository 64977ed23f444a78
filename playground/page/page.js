// The page: reads the inputs, runs the commands a moment after the last change
// and shows what they print. Names and texts are set as text, never as HTML.
'use strict';

const WAIT_MS = 250;  // after the last change
const MANIFEST_LIMIT = 64 << 20;  // bytes of a file of the user's own
const START = {model: 'llama-3-8b.hf', mesh: 'dp:2,fsdp:8,tp:4',
  tab: 'findings', what: 'model.layers.0.mlp.up_proj.weight'};
// Inputs whose text is the state of the same name.
const FIELDS = ['mesh', 'rules', 'memory', 'batch', 'seq', 'config', 'what',
  'axes', 'mode'];

const element = (id) => document.getElementById(id);
let engine = null;
let own = null;      // a manifest of the user's own: {title, bytes}
let shown = '';      // the tab
let pack = '';       // the rules that the choice of a model wrote
let config = '';     // and its config.json
let turn = 0;        // counts changes: results of an older one are dropped
let timer = 0;
let planned = null;  // the plan as text, for saving
let names = '';      // the model whose names are offered in `explain`

function setText(id, text) {
  element(id).textContent = text;
}

function showStatus(text, failed = false) {
  setText('status', text);
  element('status').classList.toggle('failed', failed);
}

function stateNow() {
  const state = {model: element('model').value, tab: shown};
  for (const id of FIELDS) state[id] = element(id).value;
  if (own !== null) {
    state.own = toBase64(own.bytes);
    state.ownName = own.title;
  }
  return state;
}

function bundled() {
  return SHARDC_MODELS[element('model').value];
}

function manifestNow() {
  if (own !== null) return {name: manifestName(own.title), bytes: own.bytes};
  return {name: 'model.json.gz', bytes: fromBase64(bundled().manifest)};
}

function describeModel() {
  const model = bundled();
  setText('model-note', own !== null ?
    own.title + ', ' + own.bytes.length.toLocaleString('en') + ' bytes' :
    model.tensors.toLocaleString('en') + ' tensors, ' +
    model.parameters.toLocaleString('en') + ' parameters; built-in rules ' +
    model.pack);
  setText('manifest-name', manifestNow().name);
}

// Writes the rules of the chosen model's pack into the editor.
function usePack() {
  pack = SHARDC_PACKS[bundled().pack];
  element('rules').value = pack;
}

function useConfig() {
  config = bundled().config;
  element('config').value = config;
}

function setOwn(title, bytes) {
  // The sizes of a bundled model are not those of another one.
  if (element('config').value === config) element('config').value = '';
  config = '';
  own = {title, bytes};
  const option = element('own-option') || document.createElement('option');
  option.id = 'own-option';
  option.value = '';
  option.textContent = title;
  element('model').append(option);
  element('model').value = '';
  describeModel();
}

function chooseModel() {
  if (element('model').value === '') return;
  own = null;
  if (element('own-option')) element('own-option').remove();
  // Rules and sizes that were edited stay.
  if (element('rules').value === pack || element('rules').value === '') {
    usePack();
  }
  if (element('config').value === config) useConfig();
  describeModel();
  changed();
}

async function readOwn(file) {
  if (!file) return;
  let part = file;
  if (file.name.toLowerCase().endsWith('.safetensors')) {
    const start = new Uint8Array(await file.slice(0, 8).arrayBuffer());
    part = file.slice(0, headerBytes(start));
  }
  if (part.size > MANIFEST_LIMIT) {
    showStatus('`' + file.name + '` holds more than 64 MiB: give a manifest, ' +
               'which `shardc show manifest` writes from it.', true);
    return;
  }
  setOwn(file.name, new Uint8Array(await part.arrayBuffer()));
  changed();
}

// --- findings -------------------------------------------------------------

function goTo(line) {
  const editor = element('rules');
  const lines = editor.value.split('\n');
  const from = lines.slice(0, line - 1).join('\n').length + (line > 1 ? 1 : 0);
  editor.focus();
  editor.setSelectionRange(from, from + (lines[line - 1] || '').length);
  const height = editor.scrollHeight / Math.max(lines.length, 1);
  editor.scrollTop = Math.max((line - 4) * height, 0);
}

function part(name, text) {
  const made = document.createElement('span');
  made.className = name;
  made.textContent = text;
  return made;
}

const SIGNS = {error: '✕', warning: '▲', note: '●'};

function findingItem(finding) {
  const item = document.createElement('li');
  item.className = finding.level === 'note' ? 'note-level' : finding.level;
  item.append(part('level', SIGNS[finding.level] + ' ' + finding.level + ' ' +
                   finding.code), ' ' + finding.name + ': ' + finding.message +
              ' ');
  if (finding.file === 'rules.yaml' && finding.line !== null) {
    const place = document.createElement('button');
    place.type = 'button';
    place.textContent = 'rules, line ' + finding.line;
    place.addEventListener('click', () => goTo(finding.line));
    item.append(place);
  } else if (finding.line !== null) {
    item.append(part('place', finding.file + ':' + finding.line + ':' +
                     finding.column));
  }
  if (finding.help) item.append(part('help', 'help: ' + finding.help));
  return item;
}

function showLines(findings) {
  const marked = markedLines(findings);
  const count = element('rules').value.split('\n').length;
  const lines = [];
  for (let line = 1; line <= count; ++line) {
    const level = marked.get(line);
    if (level === undefined || level === 'note') {
      lines.push(line + '\n');
      continue;
    }
    const made = document.createElement('b');
    made.className = level;
    made.textContent = SIGNS[level] + ' ' + line + '\n';
    lines.push(made);
  }
  element('lines').replaceChildren(...lines);
  element('lines').scrollTop = element('rules').scrollTop;
}

function showFindings(result) {
  const findings = findingsOf(result.stdout);
  element('finding-list').replaceChildren(...(findings || []).map(findingItem));
  setText('check-text', findings === null ? result.stdout + result.stderr :
    result.stderr);
  showLines(findings || []);
  setText('tab-findings', findings !== null && findings.length > 0 ?
    'Findings (' + findings.length + ')' : 'Findings');
  const failed = findings === null ||
    findings.some((finding) => finding.level === 'error');
  const verdict = element('verdict');
  verdict.textContent = findings === null ? 'The inputs cannot be read' :
    (failed ? SIGNS.error : '✓') + ' ' + countsOf(findings);
  verdict.className = failed ? 'failed' : 'fine';
}

// --- the other results ----------------------------------------------------

function showPlan(result) {
  setText('plan-text', result.stderr);
  setText('plan-json', result.stdout);
  planned = result.stdout === '' ? null : result.stdout;
  element('save-plan').disabled = planned === null;
  const model = manifestNow().name + element('model').value;
  if (planned === null || names === model) return;
  names = model;
  const list = Object.keys(JSON.parse(planned).params).slice(0, 2000);
  element('names').replaceChildren(...list.map((name) => {
    const option = document.createElement('option');
    option.value = name;
    return option;
  }));
}

function showReport(result) {
  const made = result.status !== 2 && result.stdout !== '';
  element('report').hidden = !made;
  setText('drawings-note', made ? '' :
    'There are no drawings while the plan has errors.\n' + result.stderr);
  if (made && element('report').srcdoc !== result.stdout) {
    element('report').srcdoc = result.stdout;
  }
}

// What each tab shows besides the findings and the plan, which every change
// computes; in the order of the tabs.
const TABS = {
  findings: async () => {},
  drawings: async (run) => showReport(await run('report')),
  plan: async () => {},
  explain: async (run) => {
    const what = element('what').value.trim();
    if (what === '') return;
    const result = await run('explain', {what});
    setText('explain-text', result.stdout + result.stderr);
    const layout = /^SHD\d|^[a-z]+(-[a-z]+)+$/.test(what) ? null :
      await run('layout', {what});
    setText('layout-text', layout && layout.status === 0 ? layout.stdout : '');
  },
  resolve: async (run) => {
    const result = await run('resolve', {axes: element('axes').value,
                                         mode: element('mode').value});
    setText('resolve-text', result.stdout + result.stderr);
  },
  grid: async (run) => {
    const result = await run('mesh');
    setText('mesh-text', result.stdout + result.stderr);
  },
  command: async () => {},
};

async function update() {
  const mine = ++turn;
  if (engine === null) return;
  const inputs = inputsOf(stateNow(), manifestNow());
  const run = (name, more) =>
    engine.run(commandOf(name, inputs, more), inputs.files);
  document.body.dataset.state = 'busy';
  try {
    const check = await run('check');
    if (mine !== turn) return;
    showFindings(check);
    const plan = await run('plan');
    if (mine !== turn) return;
    showPlan(plan);
    await TABS[shown](async (name, more) => {
      const result = await run(name, more);
      if (mine !== turn) throw new Superseded();
      return result;
    });
    showStatus('Up to date.');
  } catch (error) {
    if (error instanceof Superseded || mine !== turn) return;
    showStatus('shardc stopped: ' + error.message, true);
  }
  document.body.dataset.state = 'ready';
}

// A newer change has begun.
class Superseded extends Error {}

function changed() {
  ++turn;
  document.body.dataset.state = 'busy';
  showLines([]);
  clearTimeout(timer);
  timer = setTimeout(update, WAIT_MS);
}

function showTab(name) {
  shown = Object.hasOwn(TABS, name) ? name : START.tab;
  for (const tab of Object.keys(TABS)) {
    const on = tab === shown;
    element(tab).hidden = !on;
    element('tab-' + tab).setAttribute('aria-selected', String(on));
    element('tab-' + tab).tabIndex = on ? 0 : -1;
  }
}

function moveTab(event) {
  const tabs = Object.keys(TABS);
  const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const next = (tabs.indexOf(shown) + step + tabs.length) % tabs.length;
  showTab(tabs[next]);
  element('tab-' + shown).focus();
  update();
}

// --- the buttons ----------------------------------------------------------

async function suggest() {
  if (engine === null) return;
  const inputs = inputsOf(stateNow(), manifestNow());
  const result = await engine.run(commandOf('suggest', inputs), inputs.files);
  if (result.stdout === '') {
    showStatus('No rules were suggested: ' + result.stderr, true);
    return;
  }
  element('rules').value = result.stdout;
  changed();
}

// Rules that extend the pack whose rules match a manifest of the user's own.
async function extendPack() {
  if (engine === null) return;
  const inputs = inputsOf(stateNow(), manifestNow());
  const result = await engine.run(
      ['plan', ...inputs.mesh, '--rules', 'auto', ...inputs.model,
       '--no-project', '--keep-going'], inputs.files);
  const found = /"source": "(builtin:[^":]+)/.exec(result.stdout);
  if (found === null) {
    showStatus('No built-in rules match this manifest: ' + result.stderr, true);
    return;
  }
  element('rules').value = `version: 1\nextends: [${found[1]}]\n`;
  changed();
}

async function runLine(event) {
  event.preventDefault();
  if (engine === null) return;
  const words = wordsOf(element('line').value.replace(/^\s*shardc\s/, ''));
  if (words === null) {
    setText('command-text', 'a quote is not closed');
    return;
  }
  const {files} = inputsOf(stateNow(), manifestNow());
  const result = await engine.run(words, files);
  setText('command-text', result.stdout + result.stderr +
          (result.status === 0 ? '' : 'exit status ' + result.status + '\n'));
}

function savePlan() {
  if (planned === null) return;
  const link = document.createElement('a');
  link.href = URL.createObjectURL(
      new Blob([planned], {type: 'application/json'}));
  link.download = 'plan.json';
  link.click();
  URL.revokeObjectURL(link.href);
}

async function copyLink() {
  const fragment = await fragmentOf(stateNow());
  if (fragment.length > LINK_LIMIT) {
    showStatus('The link would have ' + fragment.length.toLocaleString('en') +
               ' characters, more than most programs keep: choose a model of ' +
               'the list instead of a manifest of your own.', true);
    return;
  }
  history.replaceState(null, '', fragment);
  try {
    await navigator.clipboard.writeText(location.href);
    showStatus('The link is copied, and stands in the address bar.');
  } catch (error) {
    showStatus('The link is in the address bar.');
  }
}

// Tab indents in the editor, except after Escape.
let leaving = false;
function editorKey(event) {
  if (event.key === 'Escape') {
    leaving = true;
  } else if (event.key === 'Tab' && !event.shiftKey && !leaving) {
    event.preventDefault();
    const editor = element('rules');
    editor.setRangeText('  ', editor.selectionStart, editor.selectionEnd, 'end');
    changed();
  } else if (event.key !== 'Shift') {
    leaving = false;
  }
}

// --- the beginning --------------------------------------------------------

function fillModels() {
  for (const [name, model] of Object.entries(SHARDC_MODELS)) {
    const option = document.createElement('option');
    option.value = name;
    option.textContent = model.title;
    element('model').append(option);
  }
}

async function setState() {
  let link = null;
  try {
    link = await stateOf(location.hash);
  } catch (error) {
    showStatus('The link is damaged: ' + error.message, true);
  }
  const state = {...START, ...link};
  element('model').value =
    Object.hasOwn(SHARDC_MODELS, state.model) ? state.model : START.model;
  usePack();
  useConfig();
  for (const id of FIELDS) {
    if (state[id] !== undefined) element(id).value = state[id];
    // A link leaves out what is empty.
    else if (link !== null && id !== 'mode') element(id).value = '';
  }
  if (state.own !== undefined) {
    const linkedConfig = element('config').value;
    setOwn(state.ownName || 'model.json', fromBase64(state.own));
    element('config').value = linkedConfig;
  } else {
    own = null;
    describeModel();
  }
  element('more').open = ['memory', 'batch', 'seq'].some(
      (id) => element(id).value !== '') || element('config').value !== config;
  showTab(state.tab);
  showLines([]);
}

function listen() {
  for (const id of FIELDS) element(id).addEventListener('input', changed);
  element('model').addEventListener('change', chooseModel);
  element('rules').addEventListener('keydown', editorKey);
  element('rules').addEventListener('scroll', () => {
    element('lines').scrollTop = element('rules').scrollTop;
  });
  element('use-pack').addEventListener('click', () => {
    if (own !== null) {
      extendPack();
      return;
    }
    usePack();
    changed();
  });
  element('use-suggested').addEventListener('click', suggest);
  element('use-pasted').addEventListener('click', () => {
    setOwn('pasted.json', new TextEncoder().encode(element('pasted').value));
    changed();
  });
  element('own').addEventListener('change',
                                  () => readOwn(element('own').files[0]));
  element('copy-link').addEventListener('click', copyLink);
  element('save-plan').addEventListener('click', savePlan);
  element('command-form').addEventListener('submit', runLine);
  for (const tab of Object.keys(TABS)) {
    element('tab-' + tab).addEventListener('click', () => {
      showTab(tab);
      update();
    });
    element('tab-' + tab).addEventListener('keydown', moveTab);
  }
  const drop = element('inputs');
  for (const kind of ['dragover', 'dragleave', 'drop']) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      element('drop').classList.toggle('over', kind === 'dragover');
      if (kind === 'drop') readOwn(event.dataTransfer.files[0]);
    });
  }
  window.addEventListener('hashchange', async () => {
    await setState();
    changed();
  });
}

async function begin() {
  fillModels();
  await setState();
  listen();
  setText('version', 'shardc ' + SHARDC_VERSION + ', compiled to WebAssembly: ' +
          'the same commands as the program.');
  const started = performance.now();
  try {
    engine = await Engine.load(SHARDC_MODULE);
  } catch (error) {
    showStatus('This browser cannot run shardc: ' + error.message, true);
    return;
  }
  document.body.dataset.loadMs = Math.round(performance.now() - started);
  await update();
}

begin();
