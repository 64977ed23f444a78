// The operation flash_decoding: decoding of one query over a cache whose length
// is sharded (Dao et al. 2023, "Flash-Decoding"). Every device of the length
// axes has the query. Device r computes a partial softmax (m_r, l_r, o_r) over
// its own keys: the maximum, the sum of the weights, and the sum of the
// weighted values. The partial results are then merged to (M, l, o), and the
// output is o / l:
//   M = max m_r,  l = sum exp(m_r - M) l_r,  o = sum exp(m_r - M) o_r.
// A device without keys has (-inf, 0, 0), and exp(-inf - M) is 0. The mean of
// the devices' outputs o_r / l_r would be correct only if all l_r were equal.
//
// Cost: the partial results are all-reduced in float32, first the maxima, then
// the sums and outputs. With n devices, each sends 2(n-1)/n * 4 B_loc H_loc
// (D+2) bytes. With DecodeMerge::kAllGather, the outputs o_r / l_r and their
// log-sum-exps are all-gathered instead. A device then sends (n-1) * 4 B_loc
// H_loc (D+1) bytes.
//
// The length may be sharded over axes that also shard the heads (decode context
// parallelism). The query is then first gathered over those axes. Next, the
// log-sum-exps are all-gathered, for which a device sends (n-1) * 4 B H bytes.
// The outputs are reduce-scattered over the heads, for which a device sends
// (n-1)/n * 4 B H D bytes. If the head dimension is sharded, partial logits are
// all-reduced.
#include "exec/operations/operation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "comm/collective.h"
#include "exec/attention/staging.h"
#include "floats/convert.h"
#include "source/size.h"

namespace shardc::exec {

extern const Operation kFlashDecoding;

namespace {

float Weight(float part, float whole) {
  return part == kMinusInfinity ? 0 : std::exp(part - whole);
}

class FlashDecoding {
 public:
  FlashDecoding(Machine& machine, const Staged& staged,
                const OperationSettings& settings)
      : machine_(machine),
        staged_(staged),
        settings_(settings),
        lengths_(DropTrivial(machine.mesh(), staged.key.spec[1])) {
    MakeSlices(machine, staged, GroupMap::kNaive, slices_);
  }

  // Computes the partial softmax of every device over its own keys.
  void Partials() {
    const AxisGroup& dim = staged_.query.spec[3];
    const bool split = machine_.mesh().Parts(dim) > 1;
    PerDevice scores(AsIndex(machine_.devices()));
    if (split) {
      machine_.Local([&](int d) {
        scores[AsIndex(d)] = DotScores(slices_.at[AsIndex(d)]);
      });
      scores = AllReduce(machine_, dim, scores, Reduce::kSum, "logits");
    }
    states_.resize(AsIndex(machine_.devices()));
    machine_.Local([&](int d) {
      const LocalSlice& slice = slices_.at[AsIndex(d)];
      states_[AsIndex(d)] = EmptyState(slice);
      if (split) {
        FinishScores(slice, scores[AsIndex(d)]);
        AttendScores(slice, scores[AsIndex(d)], states_[AsIndex(d)]);
      } else {
        AttendKeys(slice, 0, slice.keys(), settings_.blocksize_k,
                   states_[AsIndex(d)]);
      }
    });
  }

  void MergeByAllReduce() {
    if (lengths_.empty()) return;
    PerDevice max;
    for (const SoftmaxState& state : states_) max.push_back(state.max);
    max = AllReduce(machine_, lengths_, max, Reduce::kMax, "max");
    PerDevice packed(states_.size());
    machine_.Local([&](int d) {
      packed[AsIndex(d)] = Packed(states_[AsIndex(d)], max[AsIndex(d)]);
    });
    packed =
        AllReduce(machine_, lengths_, packed, Reduce::kSum, "sum and output");
    machine_.Local([&](int d) {
      Unpack(packed[AsIndex(d)], max[AsIndex(d)], states_[AsIndex(d)]);
    });
  }

  void MergeByAllGather() {
    if (lengths_.empty()) return;
    PerDevice parts(states_.size());
    machine_.Local(
        [&](int d) { parts[AsIndex(d)] = Normalised(states_[AsIndex(d)]); });
    parts = AllGather(machine_, lengths_, parts, 0, "output and lse");
    const int64_t n = machine_.mesh().Parts(lengths_);
    machine_.Local([&](int d) {
      JoinNormalised(parts[AsIndex(d)], n, states_[AsIndex(d)]);
    });
  }

  // If length and heads share axes: merges the partial results of all heads.
  // Each device then has the output of its own heads.
  PerDevice MergeContextParallel() {
    PerDevice lse(states_.size());
    machine_.Local([&](int d) {
      Buffer& own = lse[AsIndex(d)];
      own = LogSumExp(states_[AsIndex(d)]);
      own.shape.insert(own.shape.begin(), 1);
    });
    lse = AllGather(machine_, lengths_, lse, 0, "lse");
    const int64_t n = machine_.mesh().Parts(lengths_);
    PerDevice parts(states_.size());
    machine_.Local([&](int d) {
      const SoftmaxState& state = states_[AsIndex(d)];
      Buffer out = FinishState(state, Dtype::kF32);  // [B, T, H, Dv]
      const Shape& s = state.out.shape;
      for (int64_t b = 0; b < s[0]; ++b) {
        for (int64_t h = 0; h < s[1]; ++h) {
          for (int64_t t = 0; t < s[2]; ++t) {
            const int64_t row = (b * s[1] + h) * s[2] + t;
            const float share = Share(d, lse[AsIndex(d)], n, row, b, h);
            float* to = out.real.data() + ((b * s[2] + t) * s[1] + h) * s[3];
            for (int64_t i = 0; i < s[3]; ++i) to[i] *= share;
          }
        }
      }
      parts[AsIndex(d)] = std::move(out);
    });
    parts = ReduceScatter(machine_, lengths_, parts, 2, "output");
    for (Buffer& part : parts) {
      part.dtype = staged_.dtype;
      RoundAll(part.dtype, part.real);
    }
    return parts;
  }

  PerDevice Outputs() {
    PerDevice out(AsIndex(machine_.devices()));
    machine_.Local([&](int d) {
      out[AsIndex(d)] = FinishRows(machine_, staged_, d, slices_.at[AsIndex(d)],
                                   states_[AsIndex(d)], staged_.dtype);
    });
    return out;
  }

 private:
  Buffer Sinks(int d) const {
    return LocalSinks(machine_, staged_, d, slices_.at[AsIndex(d)]);
  }

  // Returns out and sum of each row, rescaled to `max`, the maximum over all
  // devices: [rows, D+1].
  static Buffer Packed(const SoftmaxState& state, const Buffer& max) {
    const int64_t rows = state.max.Elements(), dim = state.out.shape[3];
    Buffer out = Buffer::Zeros({rows, dim + 1}, Dtype::kF32);
    for (int64_t i = 0; i < rows; ++i) {
      const float weight =
          Weight(state.max.real[AsIndex(i)], max.real[AsIndex(i)]);
      float* to = out.real.data() + i * (dim + 1);
      const float* from = state.out.real.data() + i * dim;
      for (int64_t d = 0; d < dim; ++d) to[d] = weight * from[d];
      to[dim] = weight * state.sum.real[AsIndex(i)];
    }
    return out;
  }

  void Unpack(const Buffer& packed, const Buffer& max,
              SoftmaxState& state) const {
    const int64_t rows = state.max.Elements(), dim = state.out.shape[3];
    state.max.real = max.real;
    for (int64_t i = 0; i < rows; ++i) {
      const float* from = packed.real.data() + i * (dim + 1);
      std::copy(from, from + dim, state.out.real.data() + i * dim);
      state.sum.real[AsIndex(i)] = from[dim];
    }
  }

  // Returns out / sum and the log-sum-exp of each row: [1, rows, D+1].
  Buffer Normalised(const SoftmaxState& state) const {
    const int64_t rows = state.max.Elements(), dim = state.out.shape[3];
    Buffer out = Buffer::Zeros({1, rows, dim + 1}, Dtype::kF32);
    const Buffer lse = LogSumExp(state);
    for (int64_t i = 0; i < rows; ++i) {
      float* to = out.real.data() + i * (dim + 1);
      const float sum = state.sum.real[AsIndex(i)];
      for (int64_t d = 0; d < dim; ++d) {
        to[d] = sum == 0 ? 0 : state.out.real[AsIndex(i * dim + d)] / sum;
      }
      to[dim] = lse.real[AsIndex(i)];
    }
    return out;
  }

  static void JoinNormalised(const Buffer& parts, int64_t n,
                             SoftmaxState& state) {
    const int64_t rows = state.max.Elements(), dim = state.out.shape[3];
    for (int64_t i = 0; i < rows; ++i) {
      const auto part = [&](int64_t r) {
        return parts.real.data() + (r * rows + i) * (dim + 1);
      };
      float top = kMinusInfinity;
      for (int64_t r = 0; r < n; ++r) top = std::max(top, part(r)[dim]);
      float sum = 0;
      float* out = state.out.real.data() + i * dim;
      std::fill(out, out + dim, 0.0f);
      for (int64_t r = 0; r < n; ++r) {
        const float weight = Weight(part(r)[dim], top);
        sum += weight;
        for (int64_t d = 0; d < dim; ++d) out[d] += weight * part(r)[d];
      }
      state.max.real[AsIndex(i)] = top;
      state.sum.real[AsIndex(i)] = sum;
    }
  }

  // Returns the factor by which this device's normalised output of a row is
  // multiplied: exp(own log-sum-exp - log-sum-exp over all devices, sinks
  // included).
  float Share(int device, const Buffer& lse, int64_t n, int64_t row, int64_t,
              int64_t head) const {
    const int64_t rows = lse.Elements() / n;
    float top = kMinusInfinity;
    for (int64_t r = 0; r < n; ++r) {
      top = std::max(top, lse.real[AsIndex(r * rows + row)]);
    }
    const Buffer sinks = staged_.sinks ? Sinks(device) : Buffer();
    const int64_t heads = slices_.at[AsIndex(device)].heads();
    const int64_t count = staged_.sinks ? sinks.shape[0] : 0;
    for (int64_t a = 0; a < count; ++a) {
      top = std::max(top, sinks.real[AsIndex(a * heads + head)]);
    }
    float sum = 0;
    for (int64_t r = 0; r < n; ++r) {
      sum += Weight(lse.real[AsIndex(r * rows + row)], top);
    }
    for (int64_t a = 0; a < count; ++a) {
      sum += Weight(sinks.real[AsIndex(a * heads + head)], top);
    }
    const int64_t own = machine_.mesh().Index(device, lengths_);
    return sum == 0 ? 0
                    : Weight(lse.real[AsIndex(own * rows + row)], top) / sum;
  }

  Machine& machine_;
  const Staged& staged_;
  const OperationSettings& settings_;
  AxisGroup lengths_;
  Slices slices_;
  std::vector<SoftmaxState> states_;
};

std::optional<LayoutError> CheckDecoding(const SimMesh& mesh,
                                         const Staged& staged) {
  LayoutError why;
  if (staged.T() != 1) {
    why.message = "the query has length " + std::to_string(staged.T());
    why.help = "flash_decoding takes one query row; use ring or flash_attn2";
    return why;
  }
  if (!SameAxes(mesh, staged.key.spec[1], staged.value.spec[1])) {
    why.message = "key and value split their length differently";
    return why;
  }
  if (!SameAxes(mesh, staged.query.spec[3], staged.key.spec[3])) {
    const AxisGroup a = DropTrivial(mesh, staged.query.spec[3]);
    const AxisGroup b = DropTrivial(mesh, staged.key.spec[3]);
    why.axis = a.empty() ? b.front() : a.front();
    why.message = "query and key split the head dimension differently";
    why.help =
        "split both over the same axes (attention_dim, attention_kv_dim), or "
        "neither";
    return why;
  }
  const AxisGroup shared = staged.key.spec[1];
  if (!Disjoint(shared, staged.query.spec[0]) ||
      !Disjoint(shared, staged.query.spec[3])) {
    why.axis = shared.front();
    why.message =
        "the key's length shares axes with the query's batch or "
        "head dimension";
    return why;
  }
  return std::nullopt;
}

}  // namespace

OperationOutcome RunStagedDecoding(Machine& machine, Staged& staged,
                                   const OperationSettings& settings) {
  OperationOutcome outcome;
  const SimMesh& mesh = machine.mesh();
  auto bad = CheckArithmetic(settings, {});
  if (!bad) bad = CheckDecoding(mesh, staged);
  if (bad) {
    outcome.unsupported = std::move(bad);
    return outcome;
  }
  // If heads share axes with the length, the query is gathered over these axes.
  const AxisGroup lengths = DropTrivial(mesh, staged.key.spec[1]);
  const AxisGroup heads = DropTrivial(mesh, staged.query.spec[2]);
  const bool shared = !Disjoint(lengths, heads);
  if (shared) {
    const bool suffix =
        heads.size() >= lengths.size() &&
        std::equal(lengths.rbegin(), lengths.rend(), heads.rbegin());
    if (!suffix || mesh.Parts(staged.query.spec[3]) > 1) {
      LayoutError mixed;
      mixed.axis = lengths.front();
      mixed.message = "heads are on " + AxesText(heads) +
                      " and the key's length on " + AxesText(lengths);
      mixed.help =
          "shared axes must be the last ones of the heads, with the "
          "head dimension whole";
      outcome.unsupported = std::move(mixed);
      return outcome;
    }
    Spec spec = staged.query.spec;
    spec[2].assign(heads.begin(),
                   heads.end() - static_cast<long>(lengths.size()));
    Move(machine, staged.query, std::move(spec), "query");
  }
  if (auto local = CheckLocalShapes(mesh, staged)) {
    outcome.unsupported = std::move(*local);
    return outcome;
  }
  if (staged.query.local[AsIndex(mesh.first_held())].IsHollow()) return outcome;
  MoveExtras(machine, staged);
  outcome.exact = lengths.empty() && mesh.Parts(staged.query.spec[3]) == 1;
  FlashDecoding run(machine, staged, settings);
  run.Partials();
  ShardedTensor out;
  out.shape = staged.query.shape;
  out.shape[3] = staged.value.shape[3];
  out.dtype = staged.dtype;
  out.spec = {
      staged.query.spec[0], {}, staged.query.spec[2], staged.value.spec[3]};
  if (shared) {
    out.local = run.MergeContextParallel();
    out.spec[2] = heads;
  } else {
    if (settings.merge == DecodeMerge::kAllGather) {
      run.MergeByAllGather();
    } else {
      run.MergeByAllReduce();
    }
    out.local = run.Outputs();
  }
  outcome.output = FinishOutput(machine, staged, std::move(out));
  return outcome;
}

namespace {

OperationOutcome RunFlashDecoding(Machine& machine,
                                  const AttentionProblem& problem,
                                  const AttentionSpecs& specs,
                                  const OperationSettings& settings) {
  OperationOutcome outcome;
  LayoutError why;
  auto staged = Stage(machine, problem, specs, settings,
                      kFlashDecoding.Staging(), why, outcome.remarks);
  if (!staged) {
    outcome.unsupported = std::move(why);
    return outcome;
  }
  OperationOutcome ran = RunStagedDecoding(machine, *staged, settings);
  ran.remarks.insert(ran.remarks.begin(), outcome.remarks.begin(),
                     outcome.remarks.end());
  return ran;
}

void FlashDecodingBytes(Traffic& traffic) {
  const SimMesh& mesh = traffic.mesh();
  const AxisGroup lengths = DropTrivial(mesh, traffic.key.spec[1]);
  const AxisGroup heads = DropTrivial(mesh, traffic.query.spec[2]);
  const bool shared = !Disjoint(lengths, heads);
  if (shared) {
    Spec to = traffic.query.spec;
    to[2].assign(heads.begin(),
                 heads.end() - static_cast<long>(lengths.size()));
    traffic.MoveTo(traffic.query, std::move(to), traffic.element_bytes());
  }
  traffic.MoveExtras();
  traffic.ReduceLogits();
  const Shape q = traffic.LocalShapeOf(traffic.query);
  const int64_t dim = traffic.LocalShapeOf(traffic.value)[3];
  const int64_t rows = ElementsOf({q[0], q[2]});
  const Spec& spec = traffic.query.spec;
  Spec out = {spec[0], {}, spec[2], traffic.value.spec[3]};
  if (shared) {
    traffic.AllGather(lengths, rows);
    traffic.ReduceScatter(lengths, ElementsOf({rows, dim}));
    out[2] = heads;
  } else if (traffic.settings().merge == DecodeMerge::kAllGather) {
    traffic.AllGather(lengths, ElementsOf({rows, dim + 1}));
  } else {
    traffic.AllReduce(lengths, rows);
    traffic.AllReduce(lengths, ElementsOf({rows, dim + 1}));
  }
  traffic.FinishAs(std::move(out));
}

}  // namespace

constinit const Operation kFlashDecoding = {
    .name = "flash_decoding",
    .summary = "one query row over a split cache",
    .supports = {.batch = "local",
                 .query_length = "-",
                 .key_length = "all_reduce of partial softmaxes",
                 .heads = "local",
                 .dim = "all_reduce logits"},
    .decode_only = true,
    .adds_logits = true,
    .context_parallel = true,
    .trace = StateTrace::kCache,
    .settings = {Setting::kDropout, Setting::kBlocksizeK, Setting::kMerge},
    .bytes = FlashDecodingBytes,
    .run = RunFlashDecoding,
};

}  // namespace shardc::exec
