// ONNX Runtime's MultiHeadAttention, fused where it can be: a model of that
// one node, written here byte by byte in protobuf's wire format.
'use strict';
const path = require('path');
const readline = require('readline');

const HEADS = 8;
const DIM = 128;

function varint(value) {
  const bytes = [];
  let rest = value;
  while (rest > 127) {
    bytes.push((rest & 127) | 128);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
  return Buffer.from(bytes);
}
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
function bytes(field, body) {
  const data = Buffer.isBuffer(body) ? body : Buffer.from(body);
  return Buffer.concat([varint(field * 8 + 2), varint(data.length), data]);
}

// onnx.proto: ValueInfoProto of a float tensor.
function tensorInfo(name, shape) {
  const dims = shape.map((size) => bytes(1, number(1, size)));
  const tensor = Buffer.concat([number(1, 1), bytes(2, Buffer.concat(dims))]);
  return Buffer.concat([bytes(1, name), bytes(2, bytes(1, tensor))]);
}

function attribute(name, value) {
  return bytes(5, Buffer.concat([bytes(1, name), number(3, value), number(20, 2)]));
}

function model(rows, keys, causal) {
  const width = HEADS * DIM;
  const names = ['query', 'key', 'value'];
  const node = Buffer.concat([
    ...names.map((name) => bytes(1, name)), bytes(2, 'output'),
    bytes(4, 'MultiHeadAttention'), attribute('num_heads', HEADS),
    attribute('unidirectional', causal ? 1 : 0), bytes(7, 'com.microsoft'),
  ]);
  const graph = Buffer.concat([
    bytes(1, node), bytes(2, 'attention'),
    bytes(11, tensorInfo('query', [1, rows, width])),
    bytes(11, tensorInfo('key', [1, keys, width])),
    bytes(11, tensorInfo('value', [1, keys, width])),
    bytes(12, tensorInfo('output', [1, rows, width])),
  ]);
  const opset = (domain, version) =>
    bytes(8, Buffer.concat([bytes(1, domain), number(2, version)]));
  return Buffer.concat([
    number(1, 8), bytes(7, graph), opset('', 17), opset('com.microsoft', 1),
  ]);
}

async function make(words, ort) {
  if (words[0] !== 'prefill') throw new Error('not measured: reorders the cache');
  const keys = Number(words[1]);
  const session = await ort.InferenceSession.create(
    model(keys, keys, words[2] === 'causal'),
    { intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: 'sequential' });
  const feeds = {};
  for (const name of ['query', 'key', 'value']) {
    const data = new Float32Array(keys * HEADS * DIM);
    for (let i = 0; i < data.length; ++i) data[i] = Math.random() * 2 - 1;
    feeds[name] = new ort.Tensor('float32', data, [1, keys, HEADS * DIM]);
  }
  return () => session.run(feeds);
}

// Of all threads of this process, as protocol.py counts it.
function processorSeconds() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

async function main() {
  let ort = null;
  let missing = '';
  try {
    const root = process.env.ORT_NODE_MODULES;
    ort = require(root ? path.join(root, 'onnxruntime-node') : 'onnxruntime-node');
  } catch (error) {
    missing = 'onnxruntime-node is not installed';
  }
  const cases = new Map();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    try {
      if (ort === null) throw new Error(missing);
      if (!cases.has(line)) cases.set(line, await make(line.split(' '), ort));
      const run = cases.get(line);
      const calls = [];
      const start = processorSeconds();
      while (calls.length < 1 || processorSeconds() - start < 0.06) {
        const before = processorSeconds();
        await run();
        calls.push(processorSeconds() - before);
      }
      calls.sort((a, b) => a - b);
      console.log(`${calls[calls.length >> 1]} 0`);
    } catch (error) {
      console.log(`absent ${String(error.message).split('\n')[0]}`);
    }
  }
}
main();
