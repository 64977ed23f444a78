// Compares the outputs of decode steps with the reference. The steps are
// collected first, because computing the past tokens of a row is slow. The past
// tokens of each row are then computed once for all collected steps. Each query
// has its own position, so it attends only to the keys of its own and earlier
// steps. For example, rows have 25 and 26 tokens in two steps. 26 keys are
// computed, and the queries have the positions 24 and 25.
//
// The same steps also run on one device. Their error there determines the
// tolerance.
#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "comm/collective.h"
#include "comm/reshard.h"
#include "dense/attention.h"
#include "exec/attention/staging.h"
#include "exec/attention/traffic.h"
#include "exec/machine/agreement.h"
#include "exec/operations/operation.h"
#include "source/process.h"
#include "source/size.h"
#include "verify/cases/problem_data.h"
#include "verify/judge/explain.h"
#include "verify/traces/cache_trace.h"
#include "verify/traces/remembered.h"

namespace shardc::verify {
namespace {

using dense::Array;
using exec::Buffer;
using exec::ShardedTensor;

Array Dense(const Buffer& x) { return DenseOf(x, Layout::kBthd); }

// Returns the buffer as an unsharded tensor on a mesh of one device.
ShardedTensor Held(Buffer x) {
  ShardedTensor out{x.shape, x.dtype, Spec(x.shape.size()), {}};
  out.local.push_back(std::move(x));
  return out;
}

Buffer Number(int64_t value) {
  Buffer out = Buffer::Zeros({1}, Dtype::kI32);
  out.integers[0] = static_cast<int32_t>(value);
  return out;
}

}  // namespace

TraceJudge::TraceJudge(const CacheTrace& trace, const Remembered& memory,
                       exec::Transport* transport)
    : trace_(trace), memory_(memory), transport_(transport) {
  options_.causal = true;
  if (trace.window > 0) options_.window = exec::LastKeys(trace.window);
  options_.scale = trace.scale;
  options_.soft_cap = trace.soft_cap;
  options_.dropout = trace.dropout;
  options_.dropout_seed = trace.seed;
}

// Computes the reference for one key head at a time, together with the query
// heads that read that key head. This needs less memory than all heads at once.
bool TraceJudge::Reference(int64_t row, int64_t begin, const Buffer& key,
                           const Buffer& value,
                           const std::vector<Buffer>& queries, int64_t back,
                           Array Outputs::*to, std::vector<Outputs>& out,
                           std::string& refused) const {
  const size_t b = AsIndex(row);
  const auto steps = static_cast<int64_t>(waiting_.size());
  const int64_t keys = key.shape[1], dim = trace_.head_dim;
  const int64_t group = trace_.heads / trace_.key_heads;
  dense::Inputs in;
  in.key_starts = {waiting_.front().starts[b]};
  in.key_lengths = {begin + keys};
  in.first_row = row;
  for (int64_t j = 0; j < keys; ++j) in.key_positions.push_back(begin + j);
  // The query's position is the position of the last key at its step. The query
  // therefore attends to no key that a later step appends.
  for (const DecodedStep& step : waiting_) {
    in.query_positions.push_back(step.lengths[b] - 1 - back);
  }
  in.query = Array::Zeros({1, steps, group, dim});
  in.key = in.value = Array::Zeros({1, keys, 1, dim});
  for (int64_t head = 0; head < trace_.key_heads; ++head) {
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t from = (j * trace_.key_heads + head) * dim;
      std::copy_n(key.real.begin() + from, dim, in.key.data.begin() + j * dim);
      std::copy_n(value.real.begin() + from, dim,
                  in.value.data.begin() + j * dim);
    }
    // Index of the head's first query element.
    const int64_t first = head * group * dim;
    in.first_head = head * group;
    for (int64_t s = 0; s < steps; ++s) {
      std::copy_n(queries[AsIndex(s)].real.begin() + first, group * dim,
                  in.query.data.begin() + s * group * dim);
    }
    const auto reference = dense::Attention(in, OptionsOf(options_), refused);
    if (!reference) return false;
    for (int64_t s = 0; s < steps; ++s) {
      std::copy_n(reference->output.data.begin() + s * group * dim, group * dim,
                  (out[AsIndex(s)].*to).data.begin() +
                      row * trace_.heads * dim + first);
    }
  }
  return true;
}

void TraceJudge::Row(int64_t row, std::vector<Outputs>& out,
                     std::string& refused) const {
  const size_t b = AsIndex(row);
  // With a window, no query attends to tokens before `begin`.
  const int64_t end = waiting_.back().lengths[b];
  const int64_t begin =
      trace_.window > 0
          ? std::max<int64_t>(0, waiting_.front().lengths[b] - trace_.window)
          : 0;
  Buffer key, value;
  memory_.ReadBack(row, begin, end, key, value);
  const auto steps = static_cast<int64_t>(waiting_.size());
  const int64_t width = trace_.heads * trace_.head_dim;
  std::vector<Buffer> queries;
  for (const DecodedStep& step : waiting_) {
    queries.push_back(memory_.Query(row, step.lengths[b] - 1));
  }
  const auto reference = [&](int64_t back, Array Outputs::*to) {
    return Reference(row, begin, key, value, queries, back, to, out, refused);
  };
  if (!reference(0, &Outputs::reference)) return;
  if (!out[0].lacking.data.empty() && !reference(1, &Outputs::lacking)) return;

  const exec::SimMesh one{Mesh{}};
  ShardedTensor held_key = Held(std::move(key));
  ShardedTensor held_value = Held(std::move(value));
  for (int64_t s = 0; s < steps; ++s) {
    Outputs& to = out[AsIndex(s)];
    exec::Machine machine(one);
    exec::AttentionProblem problem;
    problem.options = options_;
    problem.key_lengths = Number(waiting_[AsIndex(s)].lengths[b]);
    problem.key_starts = Number(waiting_[AsIndex(s)].starts[b]);
    exec::Staged staged;
    staged.problem = &problem;
    staged.dtype = trace_.dtype;
    staged.options = options_;
    staged.first_row = row;
    staged.query = Held(queries[AsIndex(s)]);
    staged.output = Spec(4);
    staged.query_positions = Buffer::Zeros({1, 1}, Dtype::kI32);
    staged.query_positions.integers[0] =
        static_cast<int32_t>(waiting_[AsIndex(s)].lengths[b] - 1);
    staged.key_positions = Buffer::Zeros({1, end - begin}, Dtype::kI32);
    for (int64_t j = 0; j < end - begin; ++j) {
      staged.key_positions.integers[AsIndex(j)] =
          static_cast<int32_t>(begin + j);
    }
    staged.key_lengths = problem.key_lengths;
    staged.key_starts = problem.key_starts;
    staged.key = std::move(held_key);
    staged.value = std::move(held_value);
    const exec::OperationOutcome alone =
        exec::RunStagedDecoding(machine, staged, trace_.settings);
    held_key = std::move(staged.key);
    held_value = std::move(staged.value);
    if (alone.unsupported) {
      refused = "on one device: " + alone.unsupported->message;
      return;
    }
    const std::vector<float>& got = alone.output.local[0].real;
    std::copy(got.begin(), got.end(), to.alone.data.begin() + row * width);
  }
}

bool TraceJudge::IsOwn(int64_t row) const {
  return transport_ == nullptr ||
         row % transport_->ranks() == transport_->rank();
}

void TraceJudge::ShareRows(std::vector<Outputs>& out,
                           std::vector<std::string>& refused) const {
  const size_t width = AsIndex(trace_.heads * trace_.head_dim);
  const auto each = [&](int rank, auto&& visit) {
    for (int64_t row = rank; row < trace_.batch; row += transport_->ranks()) {
      for (Outputs& of : out) {
        for (Array* array : {&of.reference, &of.alone}) {
          visit(std::span(array->data).subspan(AsIndex(row) * width, width));
        }
      }
    }
  };
  exec::Packet own;
  each(transport_->rank(),
       [&](std::span<double> outputs) { exec::PutAll(outputs, own); });
  const std::vector<exec::Packet> rows = transport_->Share(own);
  // Sends to all ranks the first reason why a row has no reference.
  std::string why;
  for (const std::string& text : refused) {
    if (why.empty()) why = text;
  }
  exec::Packet letters;
  exec::PutAll(why, letters);
  const std::vector<exec::Packet> reasons = transport_->Share(letters);
  for (int rank = 0; rank < transport_->ranks(); ++rank) {
    const exec::Packet& reason = reasons[AsIndex(rank)];
    if (!reason.empty() && rank < trace_.batch) {
      refused[AsIndex(rank)].assign(
          reinterpret_cast<const char*>(reason.data()), reason.size());
    }
    std::span<const std::byte> left(rows[AsIndex(rank)]);
    each(rank, [&](std::span<double> outputs) {
      if (!exec::TakeAll(left, outputs)) {
        transport_->Stop("a row of the reference is cut short");
      }
    });
  }
}

Case TraceJudge::StepCase() const {
  Case test;
  test.operation = &exec::kFlashDecoding;
  test.mode = Mode::kDecode;
  test.dtype = trace_.dtype;
  test.mesh = trace_.mesh;
  test.sizes = {
      trace_.batch,    1, trace_.slots, trace_.heads, trace_.key_heads,
      trace_.head_dim, 0};
  test.specs.key = test.specs.value = trace_.decode_spec;
  test.specs.query = {exec::PadSpec(trace_.decode_spec, 1)[0],
                      {},
                      trace_.query_heads,
                      trace_.query_dim};
  test.specs.output = test.specs.query;
  return test;
}

std::vector<JudgedStep> TraceJudge::Judge(int threads, const OnPassed& passed) {
  std::vector<JudgedStep> judged;
  if (waiting_.empty()) return judged;
  const Array zeros =
      Array::Zeros({trace_.batch, 1, trace_.heads, trace_.head_dim});
  std::vector<Outputs> outputs(waiting_.size(),
                               {zeros, zeros, passed ? zeros : Array{}});
  std::vector<std::string> refused(AsIndex(trace_.batch));
  ThreadPool pool(std::max(threads, 1));
  pool.Run(trace_.batch, [&](int64_t row, int) {
    if (IsOwn(row)) Row(row, outputs, refused[AsIndex(row)]);
  });
  if (transport_ != nullptr) ShareRows(outputs, refused);
  const Case test = StepCase();
  for (size_t s = 0; s < waiting_.size(); ++s) {
    JudgedStep step;
    step.step = waiting_[s].step;
    for (const std::string& why : refused) {
      if (step.refused.empty()) step.refused = why;
    }
    const Array& reference = outputs[s].reference;
    const Array got = Dense(waiting_[s].output);
    step.alone = CompareOutputs(outputs[s].alone, reference);
    step.largest = MaxAbs(reference);
    Limits limits;
    limits.slack = SlackOf(trace_.dtype, reference);
    limits.base = 2 * BeyondSlack(outputs[s].alone, reference, limits.slack) +
                  ErrorFloor(step.largest);
    const Judgement of = JudgeOutput(got, reference, limits);
    step.error = of.error;
    step.tolerance = of.allowed;
    if (passed != nullptr && Within(of.error.max_abs, of.allowed)) {
      passed({test, reference, limits, nullptr, &outputs[s].lacking});
    }
    step.device_error = DeviceErrors(test, got, reference);
    if (!Within(step.error.max_abs, step.tolerance)) {
      CaseResult& off = step.explained;
      off.error = step.error;
      off.tolerance = off.cap = step.tolerance;
      off.device_error = step.device_error;
      ExplainNumbers(test, got, reference, off);
    }
    judged.push_back(std::move(step));
  }
  waiting_.clear();
  return judged;
}

// Names the tensors of a trace for --dump. The names have the form
// section/time/tensor. A section is a chunk of the prefill, the insertion of a
// row, or another step. It has the state before it, its inputs, and the state
// after it, so that it can be recomputed from its own tensors. For example, the
// keys of the first decode step are:
//
//   step-0000/before/key, step-0000/in/key, step-0000/after/key

void TraceRecord::Begin(const std::string& kind) {
  number_ = kind == kind_ ? number_ + 1 : 0;
  kind_ = kind;
  const std::string digits = std::to_string(number_);
  phase_ = kind + "-" +
           std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') +
           digits + "/";
}

void TraceRecord::Add(const std::string& name, const exec::Buffer& buffer) {
  if (!IsOn()) return;
  bytes_ += buffer.Bytes();
  to_->emplace_back(phase_ + name, buffer);
}

void TraceRecord::Add(const std::string& name,
                      const std::vector<int64_t>& values) {
  if (!IsOn()) return;
  exec::Buffer buffer =
      exec::Buffer::Zeros({static_cast<int64_t>(values.size())}, Dtype::kI32);
  buffer.integers.assign(values.begin(), values.end());
  Add(name, buffer);
}

void TraceRecord::Add(const std::string& name, const exec::SimMesh& mesh,
                      const exec::ShardedTensor& tensor) {
  if (!IsOn()) return;
  exec::LayoutError why;
  if (const auto all = exec::Gather(mesh, tensor, why)) Add(name, *all);
}

void TraceRecord::Cache(const std::string& name, const exec::SimMesh& mesh,
                        const exec::KvCache& cache) {
  if (!IsOn()) return;
  Add(name + "/key", mesh, cache.key);
  Add(name + "/value", mesh, cache.value);
  if (cache.IsQuantized()) {
    Add(name + "/key_scale", mesh, cache.key_scale);
    Add(name + "/value_scale", mesh, cache.value_scale);
  }
  if (cache.Rolls()) Add(name + "/positions", mesh, cache.positions);
  Add(name + "/index", cache.index);
  Add(name + "/start", cache.start);
}

void TraceRecord::Owners(const exec::SimMesh& mesh, const exec::KvCache& cache,
                         int64_t n, const std::vector<int64_t>& counts) {
  if (!IsOn()) return;
  const auto batch = static_cast<int64_t>(counts.size());
  exec::Buffer owners = exec::Buffer::Zeros({batch, n}, Dtype::kI32);
  const Spec& spec = cache.spec();
  const int64_t parts = spec.size() > 1 ? mesh.Parts(spec[1]) : 1;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < n; ++i) {
      int32_t& owner = owners.integers[AsIndex(b * n + i)];
      owner = -1;
      for (int64_t rank = 0; i < counts[AsIndex(b)] && rank < parts; ++rank) {
        const exec::SlotQuery query{cache.index[AsIndex(b)] + i,
                                    cache.config.window,
                                    cache.config.max_length, parts, rank};
        if (exec::OwnSlot(query) >= 0) owner = static_cast<int32_t>(rank);
      }
    }
  }
  Add("owners", owners);
  Add("length_parts", {parts});
}

void TraceRecord::Mask(const exec::CacheView& view,
                       const exec::Buffer& positions, int64_t window) {
  if (!IsOn()) return;
  const int64_t batch = view.key.shape[0], slots = view.key.shape[1];
  exec::Buffer mask = exec::Buffer::Zeros({batch, slots}, Dtype::kI32);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = view.lengths[AsIndex(b)];
    for (int64_t s = 0; s < slots; ++s) {
      const size_t at = AsIndex(b * slots + s);
      const int64_t position =
          positions.integers.empty() ? s : positions.integers[at];
      const bool seen = position >= view.starts[AsIndex(b)] && position >= 0 &&
                        position < length &&
                        (window == 0 || position >= length - window);
      mask.integers[at] = seen ? 1 : 0;
    }
  }
  Add("mask", mask);
}

void TraceRecord::Pages(const std::string& name, const exec::SimMesh& mesh,
                        const exec::PagePool& pool,
                        const exec::PageTable& table) {
  if (!IsOn()) return;
  Add(name + "/first", mesh, pool.first);
  if (pool.config.format == exec::PageFormat::kSeparate) {
    Add(name + "/second", mesh, pool.second);
  }
  if (pool.IsQuantized()) {
    Add(name + "/key_scale", mesh, pool.key_scale);
    Add(name + "/value_scale", mesh, pool.value_scale);
  }
  Add(name + "/table", table.Table());
  Add(name + "/lengths", table.lengths());
}

// Computes from formulas how many bytes each device sends in a trace. A trace
// is a sequence of steps on a KV cache: writes of the prefill, a reshard to the
// layout of decoding, in some traces an inserted row, and decode steps.
//
// A write reshards the keys and values of new tokens to the cache's layout, but
// with the length unsharded. An int8 cache needs the largest absolute value of
// each head of each token, for its scales. If the head dim is sharded, an
// all_reduce computes this value.
//
// A reshard to the layout of decoding sends keys and values, the scales of an
// int8 cache, and the positions of a cache with a window. An inserted row is
// written to a separate cache, which is resharded in the same way. A decode
// step writes one token. Its attention sends the bytes of flash_decoding's
// formula.
//
// For example, new keys [4, 1, 2, 16] in F32 are sharded over dp. The batch of
// the cache is sharded over dp and its length over sp. The write sends nothing,
// because every device already has the keys of its rows.
//
// The computation takes time proportional to devices x writes. RunCacheTrace
// compares its result with the bytes that the ledger recorded in the run.

namespace {

class Sum {
 public:
  explicit Sum(const CacheTrace& trace) : trace_(trace), mesh_(trace.mesh) {}

  exec::SentBytes Run() {
    const Spec prefill = exec::PadSpec(trace_.prefill_spec, 4);
    const Spec decode = exec::PadSpec(trace_.decode_spec, 4);
    Fill(trace_.batch, trace_.prefill, trace_.token_spec, prefill);
    Move(trace_.batch, prefill, decode);
    if (trace_.insert) Insert(prefill, decode);
    Spec token = decode;
    token[1].clear();
    for (int64_t step = 0; step < trace_.steps; ++step) {
      Write(trace_.batch, 1, token, decode);
    }
    const exec::SentBytes step = Step(token, decode);
    for (int64_t i = 0; i < trace_.steps; ++i) sent_.Add(step);
    return std::move(sent_);
  }

 private:
  static int64_t BytesOf(Dtype dtype) { return DtypeBits(dtype) / 8; }
  bool IsQuantized() const { return trace_.kv_dtype == Dtype::kI8; }

  void Moved(const Shape& shape, const Spec& from, const Spec& to,
             Dtype dtype) {
    const auto move = ClassifyMove(mesh_.mesh(), from, to);
    if (!move) return;
    auto sent = SentElements(mesh_.mesh(), shape, from, to);
    for (int64_t& elements : sent) elements *= BytesOf(dtype);
    sent_.Add(move->kind, sent);
  }

  // Adds the bytes of a prefill, which writes `tokens` tokens of each row in
  // chunks. All rows are written together, so `tokens` is the length of the
  // longest row.
  void Fill(int64_t rows, int64_t tokens, const Spec& given,
            const Spec& cache) {
    for (int64_t done = 0; done < tokens; done += trace_.chunk) {
      Write(rows, std::min(trace_.chunk, tokens - done), given, cache);
    }
  }

  // Adds the bytes of one write. The head dim of the new tokens is unsharded,
  // because rotary embeddings are applied before the tokens are resharded.
  void Write(int64_t rows, int64_t tokens, Spec given, Spec cache) {
    given = exec::PadSpec(std::move(given), 4);
    given[3].clear();
    cache[1].clear();
    const Shape shape{rows, tokens, trace_.key_heads, trace_.head_dim};
    const Shape own = exec::LocalShape(mesh_, shape, cache);
    for ([[maybe_unused]] const char* what : {"key", "value"}) {
      Moved(shape, given, cache, trace_.dtype);
      if (!IsQuantized()) continue;
      std::vector<int64_t> sent;
      for (int device = 0; device < mesh_.devices(); ++device) {
        sent.push_back(AllReduceSent(own[0] * own[1] * own[2], 4,
                                     mesh_.Parts(cache[3]),
                                     mesh_.Index(device, cache[3])));
      }
      sent_.Add(Collective::kAllReduce, sent);
    }
  }

  void Move(int64_t rows, const Spec& from, const Spec& to) {
    const auto part = [](const Spec& spec, size_t rank) {
      return Spec(spec.begin(), spec.begin() + static_cast<long>(rank));
    };
    const Shape shape{rows, trace_.slots, trace_.key_heads, trace_.head_dim};
    const Shape scales{shape[0], shape[1], shape[2]};
    for ([[maybe_unused]] const char* what : {"key", "value"}) {
      Moved(shape, from, to, trace_.kv_dtype);
      if (!IsQuantized()) continue;
      Moved(scales, part(from, 3), part(to, 3), Dtype::kF32);
    }
    if (trace_.window == 0) return;
    Moved({shape[0], shape[1]}, part(from, 2), part(to, 2), Dtype::kI32);
  }

  // Adds the bytes of an inserted row. The row is written to a separate cache,
  // which is replicated over the axes of the batch, and then resharded.
  void Insert(Spec prefill, Spec decode) {
    prefill[0].clear();
    decode[0].clear();
    Spec token = exec::PadSpec(trace_.token_spec, 4);
    token[0].clear();
    token[1].clear();
    Fill(1, trace_.prefill / 2, token, prefill);
    Move(1, prefill, decode);
  }

  // Returns the bytes that the attention of one decode step sends.
  exec::SentBytes Step(const Spec& token, const Spec& decode) const {
    const auto laid = [&](int64_t length, int64_t heads) {
      exec::Buffer out;
      out.shape = {trace_.batch, length, heads, trace_.head_dim};
      out.dtype = trace_.dtype;
      return out;
    };
    exec::AttentionProblem problem;
    problem.query = laid(1, trace_.heads);
    problem.key = problem.value = laid(trace_.slots, trace_.key_heads);
    exec::AttentionSpecs specs;
    specs.query = {token[0], {}, trace_.query_heads, trace_.query_dim};
    specs.output = specs.query;
    specs.key = specs.value = decode;
    exec::Traffic traffic(mesh_, problem, specs, trace_.settings);
    exec::kFlashDecoding.bytes(traffic);
    return traffic.sent();
  }

  const CacheTrace& trace_;
  exec::SimMesh mesh_;
  exec::SentBytes sent_;
};

}  // namespace

exec::SentBytes TraceBytes(const CacheTrace& trace) { return Sum(trace).Run(); }

// Finds out whether a trace can run, without running it. Each layout of the
// trace is checked on shapes without elements, in the order of the steps:
// - the cache
// - the first and the last chunk of the prefill
// - the reshard to the layout of decoding, and an inserted row
// - the query and the attention of a decode step
//
// Other chunks are as long as the first, so they need no check. For example,
// 600 tokens in chunks of 256 over sp 16 have a last chunk of 88 tokens. It is
// refused, because 16 does not divide 88.

namespace {

using exec::Buffer;
using exec::LayoutError;

class Walk {
 public:
  explicit Walk(const CacheTrace& trace) : trace_(trace), mesh_(trace.mesh) {}

  std::optional<LayoutError> Run() {
    const Spec prefill = exec::PadSpec(trace_.prefill_spec, 4);
    const Spec decode = exec::PadSpec(trace_.decode_spec, 4);
    Cache(trace_.batch, prefill);
    Fill(trace_.batch, trace_.prefill, trace_.token_spec);
    Cache(trace_.batch, decode);
    if (trace_.insert) Insert(prefill, decode);
    // The batch of decoding's query has the same axes as the cache's batch.
    const Spec query = {decode[0], {}, trace_.query_heads, trace_.query_dim};
    Check("query", {trace_.batch, 1, trace_.heads, trace_.head_dim}, query);
    if (!bad_) Attend(query, decode);
    return std::move(bad_);
  }

 private:
  void Check(std::string_view what, const Shape& shape, const Spec& spec) {
    if (bad_) return;
    bad_ = exec::CheckLayout(mesh_, shape, spec);
    if (bad_) bad_->message = std::string(what) + ": " + bad_->message;
  }

  void Cache(int64_t rows, const Spec& spec) {
    Check("the cache", {rows, trace_.slots, trace_.key_heads, trace_.head_dim},
          spec);
  }

  void Tokens(int64_t rows, int64_t n, const Spec& spec) {
    Check("tokens of a prefill", {rows, n, trace_.key_heads, trace_.head_dim},
          spec);
  }

  void Fill(int64_t rows, int64_t tokens, const Spec& spec) {
    Tokens(rows, std::min(tokens, trace_.chunk), spec);
    if (tokens % trace_.chunk > 0) Tokens(rows, tokens % trace_.chunk, spec);
  }

  void Insert(Spec prefill, Spec decode) {
    prefill[0].clear();
    decode[0].clear();
    Spec token = exec::PadSpec(trace_.token_spec, 4);
    token[0].clear();
    token[1].clear();
    Cache(1, prefill);
    Fill(1, trace_.prefill / 2, token);
    Cache(1, decode);
  }

  void Attend(const Spec& query, const Spec& cache) {
    const auto laid = [&](int64_t length, int64_t heads, const Spec& spec) {
      return exec::Scatter(
          mesh_,
          Buffer::Hollow({trace_.batch, length, heads, trace_.head_dim},
                         trace_.dtype),
          spec);
    };
    exec::AttentionProblem problem;
    exec::Staged staged;
    staged.problem = &problem;
    staged.dtype = trace_.dtype;
    staged.query = laid(1, trace_.heads, query);
    staged.key = laid(trace_.slots, trace_.key_heads, cache);
    staged.value = staged.key;
    staged.output = query;
    exec::Machine machine(mesh_);
    bad_ =
        exec::RunStagedDecoding(machine, staged, trace_.settings).unsupported;
  }

  const CacheTrace& trace_;
  exec::SimMesh mesh_;
  std::optional<LayoutError> bad_;
};

}  // namespace

std::optional<LayoutError> TraceRefusal(const CacheTrace& trace) {
  return Walk(trace).Run();
}

}  // namespace shardc::verify
