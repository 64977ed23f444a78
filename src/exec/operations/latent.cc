// multi_latent_ragged_page_attention_v1: attention whose keys and values of all
// heads are computed from a latent c [S, r] and a rotated k_pe [S, p] (MLA).
// Pages therefore hold r + p numbers for each token, and no heads:
//   key of head h   = [W_uk[h]^T c, k_pe],  value = W_uv[h]^T c
// The absorbed form, which runs here, never computes keys and values. With q =
// [q_nope, q_pe], it multiplies W_uk with the query instead:
//   q_lat = W_uk q_nope;  logits = scale (q_lat . c + q_pe . k_pe)
//   o = W_uv^T (softmax(logits) c)
// This is attention with one key head of r + p dims and values of r dims. The
// scale is 1/sqrt(nope + p), as for computed keys, not 1/sqrt(r + p).
//
// Head axes shard the query and the two matrices; the latent is replicated over
// them. If the latent's dim is sharded over n devices, each device has partial
// logits of b = 4 B_loc H_loc T S_loc bytes. Their all_reduce sends 2(n-1)/n b
// bytes from each device. Only one of the n devices adds the product of q_pe
// and k_pe, so that it is added once. Outputs are all-reduced too. If the
// length is sharded, partial softmaxes of width r are merged as in
// flash_decoding.
//
// P pages of ps tokens are [P, ceil(ps/w), w, pad128(r) + pad128(p)], where a
// word of 32 bits holds the same element of w tokens, and pad128 rounds up to a
// multiple of 128. The axes that shard the batch also shard the pages.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "exec/attention/staging.h"
#include "exec/operations/operation.h"
#include "exec/pages/page_pool.h"
#include "exec/pages/paged_program.h"
#include "floats/convert.h"
#include "source/size.h"

namespace shardc::exec {

extern const Operation kLatent;

namespace {

std::optional<LayoutError> CheckLatent(const SimMesh& mesh,
                                       const AttentionProblem& problem,
                                       const Staged& staged) {
  if (!problem.latent && staged.H() == staged.K()) {
    return MakeLayoutError("a head dim of " +
                               std::to_string(staged.query.shape[3]) +
                               " leaves nothing to rotate",
                           "four dims or more make a latent row");
  }
  if (!problem.latent) {
    return MakeLayoutError(
        "there is no latent: " + std::to_string(staged.H()) +
            " query heads on " + std::to_string(staged.K()) + " key heads",
        "this operation is for models whose keys and values come "
        "from one latent row a token");
  }
  if (problem.bias || problem.mask || problem.additive_mask ||
      problem.key_starts || problem.options.dropout > 0) {
    return MakeLayoutError(
        "latent attention takes no bias, mask, left padding or "
        "dropout",
        "use vanilla on expanded keys and values");
  }
  if (problem.softmax_aux && problem.softmax_aux->shape.size() != 1) {
    return MakeLayoutError("latent attention takes one sink a head", "");
  }
  const Spec &q = staged.query.spec, &k = staged.key.spec;
  if (mesh.Parts(q[1]) > 1) {
    return MakeLayoutError(
        "the query's length is split over " + AxesText(q[1]),
        "a request's queries stay together; split the batch or the "
        "heads",
        q[1].front());
  }
  for (const AxisGroup* axes : {&k[1], &k[3]}) {
    for (const AxisGroup* other : {&q[0], &q[2]}) {
      if (Disjoint(*axes, *other)) continue;
      return MakeLayoutError(
          "the latent is split over " + AxesText(*axes) +
              ", which split the query's batch or heads",
          "the latent has no heads: leave it unsharded there", axes->front());
    }
  }
  return std::nullopt;
}

// Rounds the values of the inputs to `dtype`, the dtype of the products. The
// buffers keep their own dtype.
LatentInputs Rounded(LatentInputs in, Dtype dtype) {
  for (Buffer* x : {&in.latent, &in.rope_key, &in.up_key, &in.up_value}) {
    RoundAll(dtype, x->real);
  }
  return in;
}

class LatentRun {
 public:
  LatentRun(Machine& machine, const AttentionProblem& problem, Staged& staged,
            const OperationSettings& settings)
      : machine_(machine),
        mesh_(machine.mesh()),
        in_(Rounded(*problem.latent, staged.dtype)),
        staged_(staged),
        settings_(settings),
        rows_(DropTrivial(mesh_, staged.query.spec[0])),
        lengths_(DropTrivial(mesh_, staged.key.spec[1])),
        ranks_(DropTrivial(mesh_, staged.key.spec[3])),
        parts_(AsIndex(machine.devices())) {}

  // Reshards the latent to the layout of its pages, gathers the queries over
  // all axes except the head axes, and assigns pages. Returns an error if the
  // latent's dim is not divisible by its number of shards, or if the pages
  // cannot be assigned.
  std::optional<LayoutError> Place() {
    const Spec k = staged_.key.spec;
    Buffer latent = in_.latent, rope = in_.rope_key;
    for (Buffer* x : {&latent, &rope}) {
      x->shape = {staged_.key.shape[0], staged_.S(), x->shape[2]};
    }
    if (latent.shape[2] % mesh_.Parts(k[3]) != 0) {
      return MakeLayoutError("a latent of " + std::to_string(latent.shape[2]) +
                                 " does not divide over " + AxesText(k[3]),
                             "leave the latent unsharded", k[3].front());
    }
    latent_ = Scatter(mesh_, latent, {k[0], k[1], k[3]});
    rope_ = Scatter(mesh_, rope, {k[0], k[1]});
    Move(machine_, latent_, {rows_, k[1], k[3]}, "latent");
    Move(machine_, rope_, {rows_, k[1]}, "rotated key");
    Move(machine_, staged_.query, {{}, {}, staged_.query.spec[2], {}}, "query");
    const AxisGroup& heads = staged_.query.spec[2];
    up_key_ = Scatter(mesh_, in_.up_key, {heads, k[3]});
    up_value_ = Scatter(mesh_, in_.up_value, {heads, k[3]});
    LayoutError why;
    if (!latent.IsHollow() && !MakePages(why)) return why;
    return std::nullopt;
  }

  void Attend() {
    slices_.at.resize(parts_.size());
    slices_.options.assign(parts_.size(), staged_.options);
    machine_.Local([&](int device) { Stack(device); });
    See(machine_, staged_, slices_);
    if (!ranks_.empty()) {
      PerDevice scores(parts_.size());
      machine_.Local([&](int d) {
        scores[AsIndex(d)] = DotScores(slices_.at[AsIndex(d)]);
      });
      scores = AllReduce(machine_, ranks_, scores, Reduce::kSum, "logits");
      machine_.Local([&](int d) {
        const LocalSlice& slice = slices_.at[AsIndex(d)];
        SoftmaxState& state = parts_[AsIndex(d)].state;
        state = EmptyState(slice);
        FinishScores(slice, scores[AsIndex(d)]);
        AttendScores(slice, scores[AsIndex(d)], state);
      });
    } else {
      machine_.Local([&](int d) {
        const LocalSlice& slice = slices_.at[AsIndex(d)];
        SoftmaxState& state = parts_[AsIndex(d)].state;
        state = EmptyState(slice);
        AttendKeys(slice, 0, slice.keys(), settings_.blocksize_k, state);
      });
    }
    if (!lengths_.empty()) Merge();
  }

  // Returns the output of every device in F32, [B, T, H_loc, Dv].
  PerDevice Outputs() {
    PerDevice out(parts_.size());
    machine_.Local([&](int d) { out[AsIndex(d)] = Expand(d); });
    if (!ranks_.empty()) {
      out = AllReduce(machine_, ranks_, out, Reduce::kSum, "outputs");
    }
    machine_.Local(
        [&](int d) { out[AsIndex(d)] = InPlace(d, out[AsIndex(d)]); });
    if (rows_.empty()) return out;
    return AllReduce(machine_, rows_, out, Reduce::kSum, "outputs of requests");
  }

  bool Exact() const { return lengths_.empty() && ranks_.empty(); }

 private:
  struct DeviceInputs {
    // Query [B, T, H, r + p], key [B, S, 1, r + p] and value [B, S, 1, r], with
    // the sizes on this device.
    Buffer query, key, value;
    Buffer query_positions, key_positions, key_lengths;
    Buffer query_segments, key_segments;
    SoftmaxState state;
  };

  int64_t LocalRows() const { return latent_.local[0].shape[0]; }
  int64_t FirstRow(int device) const {
    return mesh_.Index(device, rows_) * LocalRows();
  }

  bool MakePages(LayoutError& why) {
    PageConfig config;
    config.shards = mesh_.Parts(rows_);
    config.rows = latent_.shape[0];
    config.page_size = settings_.page_size;
    const int64_t slots = latent_.local[0].shape[1];
    config.pages_per_row = CeilDiv(slots, config.page_size);
    config.pages = config.rows * config.pages_per_row + 3 * config.shards;
    table_ = PageTable::Make(config, why);
    if (!table_) return false;
    table_->ShuffleFree(Random(0x1a7e47));
    std::vector<PageCopy> copies;
    for (int64_t r = 0; r < config.rows; ++r) {
      if (!table_->Grow(r, slots, copies, why)) return false;
    }
    return true;
  }

  // Writes the latents of this device's rows to pages. Then reads keys and
  // values back from these pages.
  void ReadPages(int device, DeviceInputs& part) {
    const Buffer& latent = latent_.local[AsIndex(device)];
    const Buffer& rope = rope_.local[AsIndex(device)];
    const int64_t rows = latent.shape[0], keys = latent.shape[1];
    const int64_t rank = latent.shape[2], rope_dim = rope.shape[2];
    LatentPages pages(*table_, mesh_.Index(device, rows_), rank, rope_dim,
                      latent.dtype);
    const int64_t first = FirstRow(device);
    for (int64_t i = 0; i < rows * keys; ++i) {
      std::copy_n(latent.real.begin() + i * rank, rank,
                  pages.Latent(first + i / keys, i % keys).begin());
      std::copy_n(rope.real.begin() + i * rope_dim, rope_dim,
                  pages.Rope(first + i / keys, i % keys).begin());
    }
    part.key = Buffer::Zeros({rows, keys, 1, rank + rope_dim}, Dtype::kF32);
    part.value = Buffer::Zeros({rows, keys, 1, rank}, Dtype::kF32);
    // The rotated part is not sharded. If the latent's dim is sharded over
    // several devices, only the first of them has the rotated part in its keys.
    // The product of the rotated parts of query and key is thus added to the
    // logits once.
    const bool turns = mesh_.Index(device, ranks_) == 0;
    for (int64_t i = 0; i < rows * keys; ++i) {
      const auto c = pages.Latent(first + i / keys, i % keys);
      const auto pe = pages.Rope(first + i / keys, i % keys);
      const auto to = part.key.real.begin() + i * (rank + rope_dim);
      std::copy(c.begin(), c.end(), to);
      if (turns) std::copy(pe.begin(), pe.end(), to + rank);
      std::copy(c.begin(), c.end(), part.value.real.begin() + i * rank);
    }
  }

  // Computes [W_uk q_nope, q_pe] for the rows whose pages are on this device.
  void AbsorbQuery(int device, DeviceInputs& part) const {
    const Buffer& all = staged_.query.local[AsIndex(device)];
    const Buffer& up = up_key_.local[AsIndex(device)];  // [H_loc, r_loc, nope]
    const int64_t rows = LocalRows(), length = all.shape[1];
    const int64_t heads = all.shape[2], dim = all.shape[3];
    const int64_t rank = up.shape[1], nope = up.shape[2];
    const int64_t rope_dim = dim - nope;
    part.query =
        Buffer::Zeros({rows, length, heads, rank + rope_dim}, Dtype::kF32);
    for (int64_t i = 0; i < rows * length * heads; ++i) {
      const float* q =
          all.real.data() + (FirstRow(device) * length * heads + i) * dim;
      float* to = part.query.real.data() + i * (rank + rope_dim);
      const float* w = up.real.data() + i % heads * rank * nope;
      for (int64_t r = 0; r < rank; ++r) {
        float sum = 0;
        for (int64_t d = 0; d < nope; ++d) sum += q[d] * w[r * nope + d];
        to[r] = sum;
      }
      std::copy_n(q + nope, rope_dim, to + rank);
    }
  }

  void Stack(int device) {
    DeviceInputs& part = parts_[AsIndex(device)];
    ReadPages(device, part);
    AbsorbQuery(device, part);
    const Spec q{rows_, {}}, k{rows_, lengths_};
    const auto own = [&](const Buffer& whole, const Spec& spec) {
      const Spec full = PadSpec(spec, whole.shape.size());
      return SliceBlock(whole, LocalStart(mesh_, whole.shape, full, device),
                        LocalShape(mesh_, whole.shape, full));
    };
    LocalSlice& slice = slices_.at[AsIndex(device)];
    part.query_positions = own(staged_.query_positions, q);
    part.key_positions = own(staged_.key_positions, k);
    slice.query_positions = &part.query_positions;
    slice.key_positions = &part.key_positions;
    if (staged_.key_lengths) {
      part.key_lengths = own(*staged_.key_lengths, {rows_});
      slice.key_lengths = &part.key_lengths;
    }
    if (staged_.problem->query_segments) {
      part.query_segments = own(*staged_.problem->query_segments, q);
      part.key_segments = own(*staged_.problem->key_segments, k);
      slice.query_segments = &part.query_segments;
      slice.key_segments = &part.key_segments;
    }
    slice.query = &part.query;
    slice.key = &part.key;
    slice.value = &part.value;
    slice.key_head.assign(AsIndex(part.query.shape[2]), 0);
    slice.scale =
        static_cast<float>(staged_.options.ScaleFor(staged_.query.shape[3]));
    slice.options = &slices_.options[AsIndex(device)];
    slice.arithmetic = &machine_.Seam<Arithmetic>();
    slice.one_row = staged_.T() == 1;
  }

  // If the length is sharded, merges the devices' partial softmaxes. Each
  // device multiplies its sum and output by e^(own maximum - largest maximum of
  // all devices). Sums and outputs are then all-reduced.
  void Merge() {
    PerDevice top;
    for (const DeviceInputs& part : parts_) top.push_back(part.state.max);
    top = AllReduce(machine_, lengths_, top, Reduce::kMax, "max");
    PerDevice packed(parts_.size());
    machine_.Local([&](int d) {
      const SoftmaxState& state = parts_[AsIndex(d)].state;
      const int64_t rows = state.max.Elements(), dim = state.out.shape[3];
      packed[AsIndex(d)] = Buffer::Zeros({rows, dim + 1}, Dtype::kF32);
      for (int64_t i = 0; i < rows; ++i) {
        const float own = state.max.real[AsIndex(i)];
        const float weight =
            own == kMinusInfinity
                ? 0
                : std::exp(own - top[AsIndex(d)].real[AsIndex(i)]);
        float* to = packed[AsIndex(d)].real.data() + i * (dim + 1);
        for (int64_t r = 0; r < dim; ++r) {
          to[r] = weight * state.out.real[AsIndex(i * dim + r)];
        }
        to[dim] = weight * state.sum.real[AsIndex(i)];
      }
    });
    packed =
        AllReduce(machine_, lengths_, packed, Reduce::kSum, "sum and output");
    machine_.Local([&](int d) {
      SoftmaxState& state = parts_[AsIndex(d)].state;
      const int64_t rows = state.max.Elements(), dim = state.out.shape[3];
      state.max = top[AsIndex(d)];
      for (int64_t i = 0; i < rows; ++i) {
        const float* from = packed[AsIndex(d)].real.data() + i * (dim + 1);
        std::copy_n(from, dim, state.out.real.begin() + i * dim);
        state.sum.real[AsIndex(i)] = from[dim];
      }
    });
  }

  // Computes the output, softmax(..) c times W_uv: [B_loc, T, H_loc, Dv].
  Buffer Expand(int device) {
    DeviceInputs& part = parts_[AsIndex(device)];
    const Buffer mean =
        FinishRows(machine_, staged_, device, slices_.at[AsIndex(device)],
                   part.state, Dtype::kF32);
    const Buffer& up = up_value_.local[AsIndex(device)];  // [H_loc, r_loc, Dv]
    const int64_t heads = up.shape[0], rank = up.shape[1], dim = up.shape[2];
    Buffer out =
        Buffer::Zeros({mean.shape[0], mean.shape[1], heads, dim}, Dtype::kF32);
    for (int64_t i = 0; i < mean.Elements() / rank; ++i) {
      const float* c = mean.real.data() + i * rank;
      const float* w = up.real.data() + i % heads * rank * dim;
      float* to = out.real.data() + i * dim;
      for (int64_t r = 0; r < rank; ++r) {
        for (int64_t d = 0; d < dim; ++d) to[d] += c[r] * w[r * dim + d];
      }
    }
    return out;
  }

  // Returns an array of all batch rows: the device's own rows at their indices,
  // and zeros in the other rows. Adding 0 to the own rows changes -0 to +0, as
  // an all_reduce with other devices' zeros does. The bits of the output
  // therefore do not depend on the sharding.
  Buffer InPlace(int device, const Buffer& own) const {
    Shape shape = own.shape;
    shape[0] = staged_.query.shape[0];
    Buffer out = Buffer::Zeros(shape, Dtype::kF32);
    const int64_t each = own.Elements() / own.shape[0];
    for (int64_t i = 0; i < own.Elements(); ++i) {
      out.real[AsIndex(FirstRow(device) * each + i)] =
          own.real[AsIndex(i)] + 0.0f;
    }
    return out;
  }

  Machine& machine_;
  const SimMesh& mesh_;
  const LatentInputs in_;
  Staged& staged_;
  const OperationSettings& settings_;
  AxisGroup rows_, lengths_, ranks_;
  ShardedTensor latent_, rope_;      // [B, S, r], [B, S, p]
  ShardedTensor up_key_, up_value_;  // [H, r, nope], [H, r, Dv]
  std::optional<PageTable> table_;
  std::vector<DeviceInputs> parts_;
  Slices slices_;
};

OperationOutcome RunLatent(Machine& machine, const AttentionProblem& problem,
                           const AttentionSpecs& specs,
                           const OperationSettings& settings) {
  OperationOutcome outcome;
  LayoutError why;
  auto staged = Stage(machine, problem, specs, settings, kLatent.Staging(), why,
                      outcome.remarks);
  if (!staged) {
    outcome.unsupported = std::move(why);
    return outcome;
  }
  outcome.unsupported = CheckLatent(machine.mesh(), problem, *staged);
  if (outcome.unsupported) return outcome;
  // Place() reshards the latent to its pages' layout and assigns pages to rows.
  LatentRun run(machine, problem, *staged, settings);
  outcome.unsupported = run.Place();
  if (outcome.unsupported || problem.IsHollow()) return outcome;
  // Every process has the unsharded segment ids, so they are not resharded.
  staged->query_segments.reset();
  staged->key_segments.reset();
  MoveExtras(machine, *staged);
  run.Attend();
  ShardedTensor out;
  out.shape = staged->query.shape;
  out.shape[3] = problem.latent->up_value.shape[2];
  out.spec = {{}, {}, staged->query.spec[2], {}};
  out.local = run.Outputs();
  RoundOutput(out, staged->dtype);
  outcome.exact = run.Exact();
  outcome.output = FinishOutput(machine, *staged, std::move(out));
  return outcome;
}

// Adds to `traffic` the bytes that devices send in a LatentRun. The latent, the
// queries and the sinks are resharded. Logits and outputs are all-reduced over
// the axes of the latent's dim, partial softmaxes over the axes of its length.
// Outputs are also all-reduced over the axes of the batch.
void LatentBytes(Traffic& traffic) {
  const LatentInputs& l = *traffic.problem().latent;
  const AxisGroup rows = traffic.query.spec[0];
  const Spec k = traffic.key.spec;
  const int64_t batch = traffic.key.shape[0], keys = traffic.key.shape[1];
  TensorSharding latent{{batch, keys, l.latent.shape[2]}, {k[0], k[1], k[3]}};
  TensorSharding rope{{batch, keys, l.rope_key.shape[2]}, {k[0], k[1], {}}};
  traffic.MoveTo(latent, {rows, k[1], k[3]}, traffic.stored_bytes());
  traffic.MoveTo(rope, {rows, k[1], {}}, traffic.stored_bytes());
  const AxisGroup heads = traffic.query.spec[2];
  traffic.MoveTo(traffic.query, {{}, {}, heads, {}}, traffic.element_bytes());
  traffic.MoveSinks();
  const Shape own = traffic.LocalShapeOf(latent);
  const Shape q = traffic.LocalShapeOf(traffic.query);
  const int64_t lines = ElementsOf({own[0], q[1], q[2]});
  const int64_t value_dim = traffic.value.shape[3];
  traffic.AllReduce(k[3], ElementsOf({lines, own[1]}));
  traffic.AllReduce(k[1], lines);
  traffic.AllReduce(k[1], ElementsOf({lines, own[2] + 1}));
  traffic.AllReduce(k[3], ElementsOf({lines, value_dim}));
  traffic.AllReduce(rows, ElementsOf({q[0], q[1], q[2], value_dim}));
  traffic.FinishAs({{}, {}, heads, {}});
}

}  // namespace

constinit const Operation kLatent = {
    .name = "multi_latent_ragged_page_attention_v1",
    .summary = "one latent row a token in place of keys and values",
    .supports = {.batch = "pages by request, all_reduce outputs",
                 .query_length = "-",
                 .key_length = "all_reduce of partial softmaxes",
                 .heads = "local, the query's only",
                 .dim = "all_reduce logits, outputs"},
    .adds_logits = true,
    .latent = true,
    .settings = {Setting::kBlocksizeK, Setting::kPageSize},
    .inputs = {Input::kSegments},
    .bytes = LatentBytes,
    .run = RunLatent,
};

}  // namespace shardc::exec
