// Compares the outputs of decode steps with the reference. The steps are
// collected first, because computing the past tokens of a row is slow. The past
// tokens of each row are then computed once for all collected steps. Each query
// has its own position, so it attends only to the keys of its own and earlier
// steps. For example, rows have 25 and 26 tokens in two steps. 26 keys are
// computed, and the queries have the positions 24 and 25.
//
// The same steps also run on one device. Their error there determines the
// tolerance.
#include "verify/traces/trace_judge.h"

#include <algorithm>
#include <span>

#include "dense/attention.h"
#include "exec/attention/staging.h"
#include "exec/machine/packet.h"
#include "exec/operations/all.h"
#include "exec/operations/flash_decoding.h"
#include "source/index.h"
#include "source/thread_pool.h"
#include "verify/cases/dense_inputs.h"
#include "verify/judge/explain.h"
#include "verify/judge/tolerance.h"

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

}  // namespace shardc::verify
