// The state of the page as a link: JSON, deflated, in base64url after `#v1=`.
// A browser sends no fragment to a server, so the link holds the inputs and the
// server does not see them.
//
//   {mesh: 'tp:4', rules: '...'}  ->  '#v1=q1bKTS3OULJS...'
'use strict';

const STATE_PREFIX = '#v1=';
const STATE_LIMIT = 8 << 20;  // bytes of JSON that a link may hold
const LINK_LIMIT = 64 << 10;  // characters; longer links are cut by other tools
// What a state holds; all are text. `own` is a manifest in base64.
const STATE_KEYS = ['model', 'own', 'ownName', 'mesh', 'rules', 'memory',
  'batch', 'seq', 'config', 'tab', 'what', 'axes', 'mode'];

function toBase64(bytes) {
  let binary = '';
  for (let at = 0; at < bytes.length; at += 0x8000) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(binary);
}

async function deflated(bytes, format) {
  const stream = new Blob([bytes]).stream()
      .pipeThrough(new CompressionStream(format));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Returns only the known keys that are text and not empty.
function cleanState(state) {
  const out = {};
  for (const key of STATE_KEYS) {
    if (typeof state[key] === 'string' && state[key] !== '') {
      out[key] = state[key];
    }
  }
  return out;
}

async function fragmentOf(state) {
  const text = JSON.stringify(cleanState(state));
  const bytes = await deflated(new TextEncoder().encode(text), 'deflate-raw');
  return STATE_PREFIX + toBase64(bytes).replace(/\+/g, '-')
      .replace(/\//g, '_').replace(/=+$/, '');
}

// Returns null if the fragment holds no state. Throws if it is damaged.
async function stateOf(fragment) {
  if (!fragment.startsWith(STATE_PREFIX)) return null;
  const text = fragment.slice(STATE_PREFIX.length)
      .replace(/-/g, '+').replace(/_/g, '/');
  const bytes = await inflated(fromBase64(text), 'deflate-raw', STATE_LIMIT);
  const state = JSON.parse(new TextDecoder().decode(bytes));
  if (state === null || typeof state !== 'object') {
    throw new TypeError('the link holds no state');
  }
  return cleanState(state);
}

if (typeof module !== 'undefined') {
  Object.assign(global, require('./engine.js'));
  module.exports = {fragmentOf, stateOf, cleanState, toBase64};
}
