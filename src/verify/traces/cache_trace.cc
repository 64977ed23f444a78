// Runs a trace, which uses a KV cache as a server does: a prefill in chunks, a
// reshard to the layout of decoding, in some traces an inserted row, and decode
// steps of one token. For example, a prefill of 24 tokens appends 24 keys. Each
// of 4 decode steps then appends 1 key, computes attention and is checked.
//
// The cached keys are compared with the expected keys after the prefill, the
// reshard or insertion, and each token. They may differ by the rounding of the
// rotation. Outputs are collected and compared together, since computing the
// past tokens of a row takes most of the time.
#include "verify/traces/cache_trace.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "comm/collective.h"
#include "exec/attention/staging.h"
#include "exec/machine/agreement.h"
#include "exec/operations/operation.h"
#include "source/size.h"
#include "verify/judge/explain.h"
#include "verify/traces/remembered.h"

namespace shardc::verify {
namespace {

using exec::Buffer;
using exec::KvCache;
using exec::LayoutError;
using exec::Machine;
using exec::ShardedTensor;

// The number of outputs that are collected before they are compared. They are
// compared together because computing a row's past tokens takes longer than
// attention.
constexpr size_t kMostWaiting = 64;

class CacheTraceRun {
 public:
  CacheTraceRun(const CacheTrace& trace, const RunOptions& options)
      : trace_(trace),
        options_(options),
        mesh_(trace.mesh, options.transport),
        machine_(mesh_, options.threads, options.seams),
        memory_(trace),
        judge_(trace, memory_, options.transport),
        record_(options.record) {
    const auto frequencies = exec::Frequencies(
        trace.head_dim, trace.rotation.base, trace.prefill + trace.steps,
        trace.rotation.scaling, no_rotation_);
    if (frequencies) frequencies_ = *frequencies;
  }

  CacheTraceResult Go() {
    const bool ran = Steps();
    // Compares the collected outputs even if a step failed, because a step
    // before the failed step may have been wrong.
    cache_ = {};
    Judge();
    if (result_.status == Status::kPass) result_.step = -1;
    result_.ledger = exec::SumOverRanks(options_.transport, machine_.ledger());
    if (result_.status == Status::kPass) {
      if (ran) {
        Bytes();
      } else if (result_.reason.empty()) {
        Fail(Check::kError, "the trace ended early without a reason");
      }
    }
    return std::move(result_);
  }

 private:
  // Runs all steps, or the steps up to the first failure. Returns false if a
  // step fails.
  bool Steps() {
    if (!no_rotation_.empty()) {
      LayoutError why;
      why.message = no_rotation_;
      return Refused(why);
    }
    RecordSettings();
    ReportProgress("prefill");
    if (!Prefill() || !Insert()) return false;
    for (int64_t step = 0; step < trace_.steps; ++step) {
      ReportProgress("step " + std::to_string(step + 1) + " of " +
                     std::to_string(trace_.steps));
      result_.step = step;
      if (!Decode()) return false;
    }
    return true;
  }

  void RecordSettings() {
    record_.Begin("settings");
    record_.Add("slots", {trace_.slots});
    record_.Add("window", {trace_.window});
    record_.Add("interleaved",
                {trace_.style == exec::RotaryStyle::kHalves ? 0 : 1});
    Buffer inverse = Buffer::Zeros(
        {static_cast<int64_t>(frequencies_.inverse.size())}, Dtype::kF64);
    inverse.wide = frequencies_.inverse;
    record_.Add("rotary_frequencies", inverse);
    Buffer numbers = Buffer::Zeros({3}, Dtype::kF64);
    numbers.wide = {frequencies_.amplitude,
                    trace_.scale.value_or(
                        1 / std::sqrt(static_cast<double>(trace_.head_dim))),
                    trace_.soft_cap};
    record_.Add("amplitude_scale_soft_cap", numbers);
  }

  void ReportProgress(const std::string& what) const {
    if (options_.stage) options_.stage(what);
  }

  void Bytes() {
    const exec::SentBytes sent = result_.ledger.Sent();
    const exec::SentBytes expected = TraceBytes(trace_);
    if (sent == expected) {
      Moved();
      return;
    }
    Fail(Check::kLedger, BytesDiffer(mesh_, sent, expected));
  }

  // Fails the trace if the bytes that ranks really sent differ from the bytes
  // that the ledger has recorded.
  void Moved() {
    if (options_.transport == nullptr) return;
    const std::string why = MovedDiffers(mesh_, result_.ledger);
    if (!why.empty()) Fail(Check::kLedger, why);
  }

  bool Fail(Check check, std::string reason, const LayoutError& why = {}) {
    if (!options_.checks.Has(check)) return true;
    result_.status = Status::kFail;
    result_.failed = check;
    result_.reason = std::move(reason);
    result_.axis = why.axis;
    return false;
  }

  // Records why a step was refused. The status of the trace becomes
  // kUnsupported, or kPass if the check kUnsupported is off.
  bool Refused(const LayoutError& why) {
    if (options_.checks.Has(Check::kUnsupported)) {
      result_.status = Status::kUnsupported;
      result_.failed = Check::kUnsupported;
    }
    result_.reason = why.message;
    result_.axis = why.axis;
    result_.help = why.help;
    return false;
  }

  exec::CacheConfig Config(int64_t batch) const {
    return {batch,           trace_.slots,    trace_.key_heads,
            trace_.head_dim, trace_.kv_dtype, trace_.window};
  }

  // Appends n tokens to the cache. Row b gets only the first counts[b] of them.
  bool Append(KvCache& cache, int64_t n, const std::vector<int64_t>& counts,
              const Spec& spec) {
    const Shape tokens = {static_cast<int64_t>(counts.size()), n,
                          trace_.key_heads, trace_.head_dim};
    if (auto bad = exec::CheckLayout(mesh_, tokens, spec)) {
      bad->message = "tokens of a prefill: " + bad->message;
      return Refused(*bad);
    }
    // The two elements of a rotated pair may be half the head dimension apart.
    // The head dimension is therefore sharded only after the rotation.
    Spec whole = exec::PadSpec(spec, 4);
    whole[3].clear();
    record_.Cache("before", mesh_, cache);
    record_.Owners(mesh_, cache, n, counts);
    record_.Add("counts", counts);
    if (record_.IsOn()) {
      record_.Add("raw/key", memory_.Raw(TokenKind::kKey, cache.index, n));
    }
    ShardedTensor key = exec::Scatter(
        mesh_, memory_.Raw(TokenKind::kKey, cache.index, n), whole);
    ShardedTensor value = exec::Scatter(
        mesh_, memory_.Raw(TokenKind::kValue, cache.index, n), whole);
    exec::RotateTokens(machine_, key, cache.index, frequencies_, trace_.style,
                       exec::RotaryOf::kKey);
    record_.Add("in/key", mesh_, key);
    record_.Add("in/value", mesh_, value);
    LayoutError why;
    if (!exec::AppendTokens(machine_, cache, key, value, counts, why)) {
      return Refused(why);
    }
    record_.Cache("after", mesh_, cache);
    return true;
  }

  // Appends lengths[b] tokens to row b, for each row, in chunks.
  bool Fill(KvCache& cache, const std::vector<int64_t>& lengths,
            const Spec& spec) {
    const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    for (int64_t done = 0; done < longest; done += trace_.chunk) {
      const int64_t n = std::min(trace_.chunk, longest - done);
      std::vector<int64_t> counts;
      for (int64_t length : lengths) {
        counts.push_back(std::clamp<int64_t>(length - done, 0, n));
      }
      record_.Begin(filling_row_ ? "row" : "prefill");
      if (!Append(cache, n, counts, spec)) return false;
    }
    return true;
  }

  bool Prefill() {
    LayoutError why;
    auto cache =
        exec::MakeCache(mesh_, Config(trace_.batch), trace_.prefill_spec, why);
    if (!cache) return Refused(why);
    cache_ = std::move(*cache);
    std::vector<int64_t> lengths;
    for (int64_t b = 0; b < trace_.batch; ++b) {
      lengths.push_back(trace_.prefill - (trace_.ragged ? 5 * b : 0));
    }
    if (!Fill(cache_, lengths, trace_.token_spec)) return false;
    for (int64_t b = 0; b < trace_.batch; ++b) {
      memory_.Write(b, 0, lengths[AsIndex(b)]);
    }
    lengths_ = lengths;
    starts_.assign(AsIndex(trace_.batch), 0);
    if (trace_.left_padding) {
      for (int64_t b = 0; b < trace_.batch; ++b) starts_[AsIndex(b)] = 3 * b;
    }
    cache_.start = starts_;
    if (!CacheBits("after prefill")) return false;
    return exec::MoveCache(machine_, cache_, trace_.decode_spec, why) ||
           Refused(why);
  }

  bool Insert() {
    if (!trace_.insert) return CacheBits("after the move");
    LayoutError why;
    Spec spec = exec::PadSpec(trace_.prefill_spec, 4);
    spec[0].clear();
    auto row = exec::MakeCache(mesh_, Config(1), spec, why);
    if (!row) return Refused(why);
    const int64_t slot = trace_.batch - 1, length = trace_.prefill / 2;
    Spec token = exec::PadSpec(trace_.token_spec, 4);
    token[0].clear();
    token[1].clear();
    memory_.UseInsertedRow(true);
    filling_row_ = true;
    const bool filled = Fill(*row, {length}, token);
    filling_row_ = false;
    memory_.UseInsertedRow(false);
    if (!filled) return false;
    record_.Begin("insert");
    record_.Cache("before", mesh_, cache_);
    record_.Cache("row", mesh_, *row);
    record_.Add("slot", {slot});
    if (!exec::InsertRow(machine_, *row, cache_, slot, why)) {
      return Refused(why);
    }
    record_.Cache("after", mesh_, cache_);
    memory_.Replace(slot, length);
    lengths_[AsIndex(slot)] = length;
    starts_[AsIndex(slot)] = 0;
    return CacheBits("after insertion");
  }

  bool CacheBits(const std::string& when) {
    if (!options_.checks.Has(Check::kCacheBits)) return true;
    if (const auto bad = exec::CheckReplicas(mesh_, cache_.key)) {
      return Fail(Check::kReplicas, "cached key: " + bad->message, *bad);
    }
    if (cache_.IsQuantized()) {
      if (const auto bad = exec::CheckReplicas(mesh_, cache_.key_scale)) {
        return Fail(Check::kReplicas, "key scale: " + bad->message, *bad);
      }
    }
    for (size_t b = 0; b < lengths_.size(); ++b) {
      if (cache_.index[b] == lengths_[b] && cache_.start[b] == starts_[b]) {
        continue;
      }
      return Fail(Check::kCacheBits,
                  "row " + std::to_string(b) + " has tokens " +
                      std::to_string(cache_.start[b]) + " to " +
                      std::to_string(cache_.index[b]) + ", not " +
                      std::to_string(starts_[b]) + " to " +
                      std::to_string(lengths_[b]) + ", " + when);
    }
    const auto bad = memory_.KeyDifference(mesh_, cache_);
    if (!bad) return true;
    return Fail(Check::kCacheBits, bad->message + " " + when, *bad);
  }

  bool Decode() {
    const std::vector<int64_t> ones(AsIndex(trace_.batch), 1);
    std::vector<int64_t> first = lengths_;
    Spec token = exec::PadSpec(trace_.decode_spec, 4);
    token[1].clear();
    const Spec own = {token[0], {}, trace_.query_heads, trace_.query_dim};
    const Shape shape = {trace_.batch, 1, trace_.heads, trace_.head_dim};
    if (auto bad = exec::CheckLayout(mesh_, shape, own)) {
      bad->message = "query: " + bad->message;
      return Refused(*bad);
    }
    ShardedTensor query =
        exec::Scatter(mesh_, memory_.Raw(TokenKind::kQuery, first, 1),
                      {token[0], {}, trace_.query_heads});
    exec::RotateTokens(machine_, query, first, frequencies_, trace_.style,
                       exec::RotaryOf::kQuery);
    exec::Move(machine_, query, own, "query");
    record_.Begin("step");
    record_.Add("query", mesh_, query);
    if (!Append(cache_, 1, ones, token)) return false;
    for (int64_t b = 0; b < trace_.batch; ++b) {
      int64_t& length = lengths_[AsIndex(b)];
      memory_.Write(b, length, length + 1);
      ++length;
    }
    if (!CacheBits("after the step") || !Attend(std::move(query))) return false;
    return judge_.Waiting() < kMostWaiting || Judge();
  }

  static Buffer Numbers(const std::vector<int64_t>& values) {
    Buffer out =
        Buffer::Zeros({static_cast<int64_t>(values.size())}, Dtype::kI32);
    out.integers.assign(values.begin(), values.end());
    return out;
  }

  // Runs attention on the mesh. If the trace's dtype can represent all values
  // of the cache, attention reads the cache's own buffers (LendCache).
  bool Attend(ShardedTensor query) {
    exec::CacheView view = exec::LendCache(machine_, cache_, trace_.dtype);
    const bool attended = AttendTo(view, std::move(query));
    exec::ReturnCache(std::move(view), cache_);
    return attended;
  }

  bool AttendTo(exec::CacheView& view, ShardedTensor query) {
    for (const ShardedTensor* tensor :
         {&query, &view.key, &view.value, &view.positions}) {
      if (tensor == &view.positions && !cache_.Rolls()) continue;
      const auto bad = exec::CheckReplicas(mesh_, *tensor);
      if (bad) {
        return Fail(Check::kReplicas, "the cache: " + bad->message, *bad);
      }
    }
    if (!Lent(view)) return false;
    LayoutError why;
    exec::AttentionProblem problem;
    problem.options = judge_.options();
    problem.key_lengths = Numbers(view.lengths);
    problem.key_starts = Numbers(view.starts);
    if (cache_.Rolls()) {
      problem.key_positions = exec::Gather(mesh_, view.positions, why);
    }
    exec::Staged staged;
    staged.problem = &problem;
    staged.dtype = trace_.dtype;
    staged.options = problem.options;
    const int64_t slots = view.key.shape[1];
    staged.query_positions =
        exec::QueryPositions(problem, trace_.batch, 1, slots);
    staged.key_positions = exec::KeyPositions(problem, trace_.batch, slots);
    staged.key_lengths = problem.key_lengths;
    staged.key_starts = problem.key_starts;
    record_.Mask(view, problem.key_positions.value_or(Buffer{}),
                 cache_.config.window);
    staged.output = query.spec;
    staged.query = std::move(query);
    // Keys and values are swapped and not copied, because the memory may not
    // suffice for a copy of a large cache.
    std::swap(staged.key, view.key);
    std::swap(staged.value, view.value);
    const bool ran = RunStep(staged);
    std::swap(staged.key, view.key);
    std::swap(staged.value, view.value);
    return ran;
  }

  // Checks keys and values of the view that attention reads. In each row, it
  // checks the newest token and one more slot, which changes with the step.
  bool Lent(const exec::CacheView& view) {
    if (!options_.checks.Has(Check::kCacheBits)) return true;
    std::vector<int64_t> newest, other;
    for (int64_t b = 0; b < trace_.batch; ++b) {
      newest.push_back((lengths_[AsIndex(b)] - 1) % trace_.slots);
      other.push_back((7919 * (result_.step + 1) + b) % trace_.slots);
    }
    for (const auto& slots : {newest, other}) {
      if (const auto bad = memory_.ViewDifference(mesh_, view, slots)) {
        return Fail(Check::kCacheBits, bad->message, *bad);
      }
    }
    return true;
  }

  bool RunStep(exec::Staged& staged) {
    Machine step(mesh_, options_.threads, options_.seams);
    const exec::OperationOutcome sharded =
        exec::RunStagedDecoding(step, staged, trace_.settings);
    if (sharded.unsupported) return Refused(*sharded.unsupported);
    result_.decode_all_reduce = step.ledger().MostSent(Collective::kAllReduce);
    for (const exec::LedgerEntry& entry : step.ledger().entries()) {
      machine_.ledger().Record(entry.kind, entry.axes, entry.group_size,
                               entry.sent, entry.what);
    }
    machine_.ledger().AddMoved(step.ledger());
    LayoutError why;
    auto output = exec::Gather(mesh_, sharded.output, why);
    if (!output) {
      if (const auto fault = LayoutFault(judge_.StepCase())) {
        result_.help = fault->help;
        why.axis = fault->axis;
        why.message += "; " + fault->message;
      }
      return Fail(Check::kReplicas, "output: " + why.message, why);
    }
    record_.Add("output", *output);
    judge_.Add({result_.step, lengths_, starts_, std::move(*output)});
    return true;
  }

  // Compares the outputs of all collected steps, in order. Returns false if one
  // is wrong.
  bool Judge() {
    if (judge_.Waiting() > 0) ReportProgress("the reference");
    for (const JudgedStep& step :
         judge_.Judge(options_.threads, options_.passed)) {
      if (!Accept(step)) return false;
    }
    return true;
  }

  bool Accept(const JudgedStep& step) {
    const auto fail = [&](Check check, std::string reason) {
      const bool goes_on = Fail(check, std::move(reason));
      if (!goes_on) {
        result_.step = step.step;
        result_.axis = step.explained.axis;
        result_.help = step.explained.help;
      }
      return goes_on;
    };
    if (!step.refused.empty()) {
      LayoutError why;
      why.message = step.refused;
      return Refused(why);
    }
    result_.device_error.resize(step.device_error.size(), 0);
    for (size_t d = 0; d < step.device_error.size(); ++d) {
      double& worst = result_.device_error[d];
      if (!(step.device_error[d] <= worst)) worst = step.device_error[d];
    }
    if (step.error.non_finite) {
      return fail(Check::kFinite, "the output is not finite at batch " +
                                      std::to_string(step.error.worst[0]) +
                                      ", head " +
                                      std::to_string(step.error.worst[2]));
    }
    result_.max_error = std::max(result_.max_error, step.error.max_abs);
    if (!(step.error.max_abs / step.tolerance < result_.worst_ratio)) {
      result_.worst_ratio = step.error.max_abs / step.tolerance;
      result_.error = step.error;
      result_.unsharded = step.alone;
      result_.tolerance = step.tolerance;
    }
    if (Within(step.error.max_abs, step.tolerance)) return true;
    return fail(Check::kError, step.explained.reason);
  }

  const CacheTrace& trace_;
  const RunOptions& options_;
  exec::SimMesh mesh_;
  Machine machine_;
  Remembered memory_;
  exec::RopeFrequencies frequencies_;  // frequencies of the rotary embedding
  std::string no_rotation_;            // why `frequencies_` is unset, or empty
  TraceJudge judge_;
  TraceRecord record_;
  // True while the row to be inserted is being filled.
  bool filling_row_ = false;
  KvCache cache_;
  std::vector<int64_t> lengths_, starts_;
  CacheTraceResult result_;
};

}  // namespace

CacheTraceResult RunCacheTrace(const CacheTrace& trace,
                               const RunOptions& options) {
  return CacheTraceRun(trace, options).Go();
}

}  // namespace shardc::verify
