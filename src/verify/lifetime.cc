#include "verify/lifetime.h"

#include <algorithm>
#include <utility>

#include "exec/operation.h"
#include "verify/explain.h"
#include "verify/problem_data.h"
#include "verify/remembered.h"
#include "verify/tolerance.h"

namespace shardc::verify {
namespace {

using exec::Buffer;
using exec::Complaint;
using exec::KvCache;
using exec::Machine;
using exec::ShardedTensor;

size_t At(int64_t i) { return static_cast<size_t>(i); }

class Run {
 public:
  Run(const Lifetime& life, const RunOptions& options)
      : life_(life),
        options_(options),
        mesh_(life.mesh),
        machine_(mesh_, options.threads, options.fault),
        memory_(life) {}

  LifetimeResult Go() {
    if (Prefill() && Insert()) {
      for (int64_t step = 0; step < life_.steps; ++step) {
        result_.step = step;
        if (!Decode()) break;
      }
    }
    if (result_.status == Status::kPass) result_.step = -1;
    result_.ledger = machine_.ledger();
    return std::move(result_);
  }

 private:
  bool Fail(Check check, std::string reason) {
    if (!options_.checks.Has(check)) return true;
    result_.status = Status::kFail;
    result_.failed = check;
    result_.reason = std::move(reason);
    return false;
  }

  // A refusal where the life should go on.
  bool Refused(const Complaint& why) {
    if (options_.checks.Has(Check::kUnsupported)) {
      result_.status = Status::kUnsupported;
      result_.failed = Check::kUnsupported;
    }
    result_.reason = why.message;
    return false;
  }

  exec::CacheConfig Config(int64_t batch) const {
    return {batch,          life_.slots,    life_.key_heads,
            life_.head_dim, life_.kv_dtype, life_.window};
  }

  // Appends tokens [cache.index, + n) of every row, counts[b] of them.
  bool Append(KvCache& cache, int64_t n, const std::vector<int64_t>& counts,
              const Spec& spec) {
    ShardedTensor key =
        exec::Scatter(mesh_, memory_.RawKeys(cache.index, n), spec);
    ShardedTensor value =
        exec::Scatter(mesh_, memory_.RawValues(cache.index, n), spec);
    exec::RotateTokens(machine_, key, cache.index, memory_.frequencies(),
                       life_.style, exec::RotaryOf::kKey);
    Complaint why;
    return exec::AppendTokens(machine_, cache, key, value, counts, why) ||
           Refused(why);
  }

  // `lengths` tokens of each row in chunks.
  bool Fill(KvCache& cache, const std::vector<int64_t>& lengths,
            const Spec& spec) {
    const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    for (int64_t done = 0; done < longest; done += life_.chunk) {
      const int64_t n = std::min(life_.chunk, longest - done);
      std::vector<int64_t> counts;
      for (int64_t length : lengths) {
        counts.push_back(std::clamp<int64_t>(length - done, 0, n));
      }
      if (!Append(cache, n, counts, spec)) return false;
    }
    return true;
  }

  bool Prefill() {
    Complaint why;
    auto cache =
        exec::MakeCache(mesh_, Config(life_.batch), life_.prefill_spec, why);
    if (!cache) return Refused(why);
    cache_ = std::move(*cache);
    std::vector<int64_t> lengths;
    for (int64_t b = 0; b < life_.batch; ++b) {
      lengths.push_back(life_.prefill - (life_.ragged ? 5 * b : 0));
    }
    if (!Fill(cache_, lengths, life_.token_spec)) return false;
    lengths_ = lengths;
    starts_.assign(At(life_.batch), 0);
    if (life_.left_padding) {
      for (int64_t b = 0; b < life_.batch; ++b) starts_[At(b)] = 3 * b;
    }
    cache_.start = starts_;
    if (!CacheBits("after prefill")) return false;
    return exec::MoveCache(machine_, cache_, life_.decode_spec, why) ||
           Refused(why);
  }

  bool Insert() {
    if (!life_.insert) return CacheBits("after the move");
    Complaint why;
    Spec spec = exec::PadSpec(life_.prefill_spec, 4);
    spec[0].clear();
    auto row = exec::MakeCache(mesh_, Config(1), spec, why);
    if (!row) return Refused(why);
    const int64_t slot = life_.batch - 1, length = life_.prefill / 2;
    Spec token = exec::PadSpec(life_.token_spec, 4);
    token[0].clear();
    token[1].clear();
    memory_.UseInsertedRow(true);
    const bool filled = Fill(*row, {length}, token);
    memory_.UseInsertedRow(false);
    if (!filled) return false;
    if (!exec::InsertRow(machine_, *row, cache_, slot, why)) {
      return Refused(why);
    }
    memory_.Replace(slot);
    lengths_[At(slot)] = length;
    starts_[At(slot)] = 0;
    return CacheBits("after insertion");
  }

  bool CacheBits(const std::string& when) {
    if (!options_.checks.Has(Check::kCacheBits)) return true;
    Complaint why;
    const auto keys = exec::Gather(mesh_, cache_.key, why);
    if (!keys) return Fail(Check::kReplicas, "cached key: " + why.message);
    if (!SameBits("cached key", when, *keys, memory_.CachedKeys(lengths_))) {
      return false;
    }
    if (life_.kv_dtype != Dtype::kI8) return true;
    const auto scales = exec::Gather(mesh_, cache_.key_scale, why);
    if (!scales) return Fail(Check::kReplicas, "key scale: " + why.message);
    return SameBits("cached key scale", when, *scales,
                    memory_.CachedKeyScales(lengths_));
  }

  bool SameBits(const std::string& what, const std::string& when,
                const Buffer& got, const Buffer& want) {
    const int64_t at = exec::FirstDifference(got, want);
    if (at < 0) return true;
    return Fail(Check::kCacheBits,
                what + " " + when + " differs at " +
                    ShapeText(exec::PositionOf(want.shape, at)));
  }

  bool Decode() {
    const std::vector<int64_t> ones(At(life_.batch), 1);
    std::vector<int64_t> first = lengths_;
    Spec token = exec::PadSpec(life_.decode_spec, 4);
    token[1].clear();
    ShardedTensor query = exec::Scatter(mesh_, memory_.RawQueries(first, 1),
                                        {token[0], {}, life_.query_heads});
    exec::RotateTokens(machine_, query, first, memory_.frequencies(),
                       life_.style, exec::RotaryOf::kQuery);
    if (!Append(cache_, 1, ones, token)) return false;
    for (int64_t& length : lengths_) ++length;
    if (!CacheBits("after the step")) return false;
    return Attend(query);
  }

  static Buffer Numbers(const std::vector<int64_t>& values) {
    Buffer out =
        Buffer::Zeros({static_cast<int64_t>(values.size())}, Dtype::kI32);
    out.whole.assign(values.begin(), values.end());
    return out;
  }

  bool Attend(const ShardedTensor& query) {
    const exec::CacheView view = exec::ViewCache(machine_, cache_, life_.dtype);
    exec::AttentionProblem problem = memory_.Problem(lengths_, starts_);
    const exec::AttentionProblem dense = problem;
    Complaint why;
    const auto whole = [&](const ShardedTensor& tensor, Buffer& out) {
      auto gathered = exec::Gather(mesh_, tensor, why);
      if (gathered) out = std::move(*gathered);
      return gathered.has_value();
    };
    problem.key_lengths = Numbers(view.lengths);
    problem.key_starts = Numbers(view.starts);
    Buffer positions;
    if (!whole(query, problem.query) || !whole(view.key, problem.key) ||
        !whole(view.value, problem.value) ||
        (cache_.Rolls() && !whole(view.positions, positions))) {
      return Fail(Check::kReplicas, "the cache: " + why.message);
    }
    if (cache_.Rolls()) problem.key_positions = std::move(positions);
    return Compare(problem, dense);
  }

  // On the mesh from the cache, and on one device from what is remembered.
  bool Compare(const exec::AttentionProblem& problem,
               const exec::AttentionProblem& dense) {
    const exec::Operation* operation = exec::FindOperation("flash_decoding");
    exec::AttentionSpecs specs;
    specs.key = specs.value = life_.decode_spec;
    specs.query = specs.output = {
        exec::PadSpec(life_.decode_spec, 1)[0], {}, life_.query_heads};
    const exec::OperationSettings& settings = life_.settings;
    Machine step(mesh_, options_.threads, options_.fault);
    const exec::OperationOutcome sharded =
        operation->run(step, problem, specs, settings);
    if (sharded.unsupported) return Refused(*sharded.unsupported);
    result_.decode_all_reduce =
        step.ledger().MostSent(exec::Collective::kAllReduce);
    for (const exec::LedgerEntry& entry : step.ledger().entries()) {
      machine_.ledger().Record(entry.kind, entry.axes, entry.group_size,
                               entry.sent, entry.what);
    }
    Complaint why;
    const auto output = exec::Gather(mesh_, sharded.output, why);
    if (!output) return Fail(Check::kReplicas, "output: " + why.message);

    const exec::SimMesh one{Mesh{}};
    Machine alone(one);
    const exec::OperationOutcome unsharded =
        operation->run(alone, dense, {}, settings);
    Case test;
    test.operation = operation;
    test.dtype = life_.dtype;
    test.mesh = life_.mesh;
    test.sizes.batch = life_.batch;
    test.sizes.heads = life_.heads;
    test.sizes.head_dim = life_.head_dim;
    test.specs.output = specs.output;
    std::string reason;
    const auto in = ReferenceInputsOf(test, dense, reason);
    const auto reference = exec::ReferenceAttention(*in, dense.options, reason);
    if (!reference || unsharded.unsupported) {
      why.message = reason;
      return Refused(why);
    }
    return Judge(test, *output, unsharded.output.local[0], reference->output);
  }

  bool Judge(const Case& test, const Buffer& output, const Buffer& unsharded,
             const exec::DenseArray& reference) {
    const auto dense = [](const Buffer& x) {
      return DenseOf(x, exec::Layout::kBthd);
    };
    const ErrorOf error = CompareOutputs(dense(output), reference);
    const auto by_device = DeviceErrors(test, dense(output), reference);
    result_.device_error.resize(by_device.size(), 0);
    for (size_t d = 0; d < by_device.size(); ++d) {
      double& worst = result_.device_error[d];
      if (!(by_device[d] <= worst)) worst = by_device[d];
    }
    const ErrorOf alone = CompareOutputs(dense(unsharded), reference);
    const double tolerance =
        2 * alone.max_abs + ErrorFloor(life_.dtype, MaxAbs(reference));
    if (error.non_finite) {
      if (!Fail(Check::kFinite, "the output is not finite")) return false;
      return true;
    }
    result_.max_error = std::max(result_.max_error, error.max_abs);
    if (!(error.max_abs / tolerance < result_.worst_ratio)) {
      result_.worst_ratio = error.max_abs / tolerance;
      result_.error = error;
      result_.unsharded = alone;
      result_.tolerance = tolerance;
    }
    if (Within(error.max_abs, tolerance)) return true;
    return Fail(Check::kError, "the output is off at batch " +
                                   std::to_string(error.worst[0]) + ", head " +
                                   std::to_string(error.worst[2]));
  }

  const Lifetime& life_;
  const RunOptions& options_;
  exec::SimMesh mesh_;
  Machine machine_;
  Remembered memory_;
  KvCache cache_;
  std::vector<int64_t> lengths_, starts_;
  LifetimeResult result_;
};

}  // namespace

LifetimeResult RunLifetime(const Lifetime& life, const RunOptions& options) {
  return Run(life, options).Go();
}

}  // namespace shardc::verify
