// Lists the collectives of a step by formulas.
//
// - A weight that is sharded over data axes is all-gathered before the forward
//   pass uses it, and again before the backward pass does. A table that is only
//   looked up is not gathered again. The gradient of such a weight is
//   reduce-scattered.
// - Without ZeRO, the gradient of any other weight is all-reduced over the data
//   axes.
// - A projection whose input dimension is sharded over tensor axes computes a
//   partial result. The result is all-reduced, or reduce-scattered if the
//   hidden state is sharded. In the backward pass, the input gradients of
//   projections that read the hidden state are reduced in the same way.
//
// Example: a layer on a mesh with fsdp 8 and tp 4 has these collectives:
//
//   forward    all_gather fsdp, all_reduce tp twice
//   backward   all_gather fsdp, reduce_scatter fsdp, all_reduce tp twice
//
// Sources: ZeRO (arXiv 1910.02054), Megatron-LM (arXiv 1909.08053), sequence
// parallelism (arXiv 2205.05198).
#include "cost/communication.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "comm/reshard.h"
#include "cost/activations.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/unknown_roles.h"
#include "model/mesh_layout.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::cost {
namespace {

// The number of values that the loss all-reduces for each row of logits: the
// largest logit, the sum of exponentials and the label's logit.
constexpr int64_t kStatistics = 3;

bool Meets(const AxisGroup& a, const AxisGroup& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const std::string& axis) { return IsAmong(axis, b); });
}

AxisGroup Both(AxisGroup a, const AxisGroup& b) {
  for (const std::string& axis : b) {
    AddOnce(a, axis);
  }
  return a;
}

AxisGroup Common(const AxisGroup& a, const AxisGroup& b) {
  AxisGroup out;
  for (const std::string& axis : a) {
    if (IsAmong(axis, b)) out.push_back(axis);
  }
  return out;
}

class StepCollectives {
 public:
  StepCollectives(const CostInputs& work, const Settings& settings)
      : work_(work),
        layer_counts_(work),
        settings_(settings),
        train_(work.mode == Mode::kTrain),
        repeats_(settings.microbatches),
        bytes_(DtypeBits(settings.activations) / 8) {}

  Communication Take(bool with_attention) {
    // How often a weight is gathered depends on its role, as all else does.
    if (!work_.not_known.empty()) {
      out_.unknown = work_.not_known;
      out_.roles_known = false;
      return std::move(out_);
    }
    for (const ParamClass& param : work_.params) Parameter(param);
    const auto tokens = TokensOf(work_, settings_);
    const auto hidden = work_.Hidden();
    if (!tokens || !hidden) {
      if (hidden && HasTokens(work_, settings_)) {
        out_.unknown.push_back(
            {.what = "communication of activations: their number of tokens "
                     "does not fit in 64 bits"});
      } else {
        out_.unknown.push_back(
            {.what = "communication of activations",
             .settled_by = "--batch, --seq and the hidden size"});
      }
      return Joined();
    }
    tokens_ = *tokens;
    hidden_ = *hidden;
    Blocks();
    UnnamedMatrices();
    Mixers();
    Experts();
    if (work_.ServesQuantised()) {
      out_.unknown.push_back(MissingQuantisedWeights());
    }
    Ends();
    if (with_attention) AddAttention(work_, settings_, out_);
    return Joined();
  }

 private:
  void Add(std::string_view part, bool backward, Collective kind,
           const AxisGroup& given, int64_t elements, int64_t element_bytes,
           int64_t count) {
    const AxisGroup axes = DropTrivial(work_.mesh, given);
    const int64_t n = work_.Parts(axes);
    if (n == 1 || count == 0 || elements == 0) return;
    // The formulas of collectives multiply these sizes by at most 4, so they
    // cannot overflow if this product fits in 64 bits.
    const bool fits = Times(elements, element_bytes, n, int64_t{4}) < INT64_MAX;
    const int64_t each =
        fits ? BusiestSent(kind, elements, element_bytes, n) : INT64_MAX;
    Transfer one;
    one.part = part;
    one.backward = backward;
    one.kind = kind;
    one.axes = axes;
    one.count = count;
    one.sent = Times(each, count);
    out_.transfers.push_back(std::move(one));
  }

  void Parameter(const ParamClass& param) {
    if (!param.type.shape || !param.type.dtype) {
      AddNotKnown({{.what = "parameters without a shape or a dtype"}},
                  out_.unknown);
      return;
    }
    // The step does not use a parameter with Stream::kNone, such as a parameter
    // of a vision tower next to a language model. So the parameter has no
    // gradient either.
    if (param.stream == Stream::kNone) return;
    auto elements =
        CheckedProduct(ShardShape(work_.mesh, *param.type.shape, param.spec));
    if (!elements) return;
    int64_t count = param.CountOnDevice();
    // Experts with a tensor of their own are gathered with the others of their
    // layer, as if they were stored in one tensor.
    const int64_t layers = layer_counts_.Of(param);
    if (param.role.expert && layers > 0 && count % layers == 0) {
      elements = Times(*elements, count / layers);
      count = layers;
    }
    AxisGroup gathered;
    for (int dim = 0; dim < std::ssize(param.spec); ++dim) {
      gathered = Both(gathered, work_.GatheredAt(param, dim));
    }
    const int width = std::max(DtypeBits(*param.type.dtype) / 8, 1);
    const AxisGroup replicas = train_ ? Replicas(param) : AxisGroup{};
    if (train_ && settings_.zero == 3) gathered = Both(gathered, replicas);
    const int64_t n = work_.Parts(gathered);
    const int64_t own = settings_.zero == 3 && train_
                            ? ShareOf(*elements, work_.Parts(replicas))
                            : *elements;
    const Dtype used = GatheredDtype(work_, settings_, *param.type.dtype);
    const int used_width = std::max(DtypeBits(used) / 8, 1);
    const bool once = settings_.gathers_once;
    // Each layer that applies a shared block gathers the block's weights.
    const int64_t gathers =
        Times(std::max(count, param.sharing_layers), repeats_);
    Add("parameters", false, Collective::kAllGather, gathered, own, used_width,
        once ? count : gathers);
    if (!train_ || (!param.frozen && !IsTrained(param))) return;
    if (!once && IsReadBackward(param)) {
      Add("parameters", true, Collective::kAllGather, gathered, own, used_width,
          gathers);
    }
    if (param.frozen) return;
    const Dtype dtype = settings_.gradients.value_or(*param.type.dtype);
    const int64_t gradient = std::max(DtypeBits(dtype) / 8, 1);
    const auto reductions = [&](bool sharded) {
      const bool each =
          settings_.reduction == step::Reduction::kEach ||
          (sharded && settings_.reduction == step::Reduction::kSharded);
      return each ? Times(count, repeats_) : count;
    };
    Add("gradients", true, Collective::kReduceScatter, gathered, Times(own, n),
        gradient, reductions(true));
    if (settings_.zero == 3) return;
    if (settings_.zero > 0) {
      const int64_t part = ShareOf(*elements, work_.Parts(replicas));
      Add("gradients", true, Collective::kReduceScatter, replicas, *elements,
          gradient, reductions(settings_.zero == 2));
      Add("parameters", true, Collective::kAllGather, replicas, part, width,
          count);
      return;
    }
    Add("gradients", true, Collective::kAllReduce, replicas, *elements,
        gradient, reductions(false));
  }

  // Returns whether the backward pass reads a parameter. It does not read a
  // table that is only looked up (of embeddings or positions), because the
  // gradient of such a table does not depend on the table. It does read an
  // embedding that is also the model's head.
  bool IsReadBackward(const ParamClass& param) const {
    const Role role = param.role.module_role;
    if (role == Role::kPosition || param.role.role == Role::kPosition) {
      return false;
    }
    return role != Role::kEmbedding || (work_.Find(Role::kHead) == nullptr &&
                                        work_.Find(Role::kEmbedding) == &param);
  }

  // Returns the axes over which the gradient of a parameter is summed. Devices
  // along these axes hold the same parameter, but process different tokens. For
  // keys and values, they may also process different query heads.
  AxisGroup Replicas(const ParamClass& param) const {
    AxisGroup out = work_.TokenAxes();
    const Role role = param.role.module_role;
    if (param.IsWeight() && (role == Role::kKey || role == Role::kValue)) {
      out = Both(out, DropTrivial(work_.mesh, work_.query[2]));
    }
    for (const AxisGroup& axes : param.spec) {
      std::erase_if(
          out, [&](const std::string& axis) { return Meets({axis}, axes); });
    }
    std::erase(out, param.placed_along);
    return out;
  }

  int64_t Rows() const { return tokens_.All(); }

  // Adds the collectives that reduce a hidden state which is partial over
  // `axes`. Over the axes that do not shard the hidden state, an all-reduce is
  // added. Over the axes that shard it, a reduce-scatter and a gather before
  // the next use are added.
  void Reduce(std::string_view part, bool backward, const AxisGroup& axes,
              int64_t layers) {
    Reduce(part, backward, axes, layers, Rows());
  }
  void Reduce(std::string_view part, bool backward, const AxisGroup& axes,
              int64_t layers, int64_t rows) {
    const AxisGroup split = Common(work_.hidden, axes);
    if (split.empty()) {
      Add(part, backward, Collective::kAllReduce, axes, Times(rows, hidden_),
          bytes_, Times(layers, repeats_));
      return;
    }
    AxisGroup rest = axes;
    std::erase_if(
        rest, [&](const std::string& axis) { return Meets({axis}, split); });
    // The reduce-scatter runs first, so that the all-reduce sends only a shard.
    Add(part, backward, Collective::kAllReduce, rest,
        Times(rows, ShareOf(hidden_, work_.Parts(split))), bytes_,
        Times(layers, repeats_));
    Add(part, backward, Collective::kReduceScatter, split, Times(rows, hidden_),
        bytes_, Times(layers, repeats_));
    Add(part, backward, Collective::kAllGather, split,
        Times(rows, ShareOf(hidden_, work_.Parts(split))), bytes_,
        Times(layers, repeats_));
  }

  // Adds the collectives of the attention block or the MLP. The projections
  // whose roles are in `first` read the block's input. The projection with the
  // role `last` computes the block's output. `again` is true if the backward
  // pass recomputes the block.
  void Block(std::string_view part, const std::vector<Role>& first, Role last,
             bool again) {
    for (const ParamClass& param : work_.params) {
      if (param.role.module_role != last || !param.IsApplied() ||
          param.role.expert) {
        continue;
      }
      const AxisGroup axes = work_.Kept(param.AxesAt(param.in_dim));
      if (IsReducedWithExperts(param, axes)) continue;
      const int64_t rows = tokens_.Of(param.stream);
      Reduce(part, false, axes, layer_counts_.Of(param), rows);
      if (train_ && again) {
        Reduce(part, true, axes, layer_counts_.Of(param), rows);
      }
    }
    if (!train_) return;
    for (Role role : first) {
      if (std::none_of(work_.params.begin(), work_.params.end(),
                       [&](const ParamClass& param) {
                         return param.role.module_role == role &&
                                param.IsApplied() && !param.role.expert;
                       })) {
        continue;
      }
      // Projections with the same input, such as q, k and v, add their
      // gradients of the input on each device before one reduction. So the
      // reduction is added only for the first role that the model has.
      for (const ParamClass& param : work_.params) {
        if (param.role.module_role != role || !param.IsApplied() ||
            param.role.expert) {
          continue;
        }
        const AxisGroup axes = work_.Kept(param.AxesAt(param.out_dim));
        if (IsReducedWithExperts(param, axes)) continue;
        Reduce(part, true, axes, layer_counts_.Of(param),
               tokens_.Of(param.stream));
      }
      return;
    }
  }

  // Lists projections whose sharding is not that of a column-parallel layer
  // before a row-parallel one, because Block() knows no other collectives.
  // Their inputs or outputs are sharded over axes that do not shard the hidden
  // state, or the first projection's outputs over axes that do not shard the
  // inputs of the last one. So a gather or a sum is missing.
  void ListUnusualProjections() {
    NotKnown missing{
        .what =
            "the collectives of projections that are not sharded as a "
            "column-parallel layer before a row-parallel one",
        .settled_by = "a `model:` section in the rules"};
    // The axes of the outputs of a block's first projections.
    std::map<std::string, AxisGroup, std::less<>> made;
    const auto list = [&](const ParamClass& param, int dim,
                          const AxisGroup& expected) {
      AxisGroup axes = DropTrivial(work_.mesh, work_.Kept(param.AxesAt(dim)));
      std::erase_if(axes, [&](const std::string& axis) {
        return Meets({axis}, expected);
      });
      if (!axes.empty()) missing.params.push_back(param.name);
    };
    for (const ParamClass& param : work_.params) {
      const Role role = param.role.module_role;
      if (role == Role::kEmbedding && param.type.shape &&
          param.type.shape->size() == 2) {
        // A table is [vocabulary, width] or, in some trees, transposed.
        const int width = param.type.shape->front() == hidden_ ? 0 : 1;
        list(param, width, work_.hidden);
        continue;
      }
      if (!param.IsApplied() || param.mixes || !TakesWidth(role) ||
          role == Role::kRouter) {
        continue;
      }
      list(param, param.in_dim, work_.hidden);
      if (role == Role::kHead) continue;
      // Keys and values may be replicated where they have few heads.
      if (role == Role::kKey || role == Role::kValue) continue;
      AxisGroup& axes = made[param.role.sibling_path];
      axes = Both(axes, work_.Kept(param.AxesAt(param.out_dim)));
    }
    for (const ParamClass& param : work_.params) {
      const Role role = param.role.module_role;
      const bool last = role == Role::kOutput || role == Role::kDown;
      if (!param.IsApplied() || param.mixes || !last) {
        continue;
      }
      list(param, param.out_dim, work_.hidden);
      const auto first = made.find(param.role.sibling_path);
      if (first == made.end()) continue;
      AxisGroup axes = DropTrivial(work_.mesh, first->second);
      const AxisGroup read = work_.Kept(param.AxesAt(param.in_dim));
      std::erase_if(
          axes, [&](const std::string& axis) { return Meets({axis}, read); });
      if (!axes.empty()) missing.params.push_back(param.name);
    }
    if (!missing.params.empty()) out_.unknown.push_back(std::move(missing));
  }

  // Lists fused matrices that are split as one, although their parts follow one
  // another. No device then has its share of each part, and how a compiler
  // moves the outputs is its own choice.
  void ListPartsInOneRange() {
    NotKnown missing{
        .what =
            "the collectives that give each device its share of the parts of "
            "fused matrices, which are split in one range",
        .settled_by =
            "`parts` in the rules of these matrices, or a `model:` "
            "section"};
    for (const ParamClass& param : work_.params) {
      const Role role = param.role.module_role;
      const bool fused = role == Role::kFusedQkv ||
                         role == Role::kFusedKeyValue ||
                         role == Role::kFusedGateUp;
      if (!fused || param.by_part || param.described || param.mixes ||
          !param.IsApplied()) {
        continue;
      }
      if (work_.Parts(work_.KeptAt(param, param.out_dim)) > 1) {
        missing.params.push_back(param.name);
      }
    }
    if (!missing.params.empty()) out_.unknown.push_back(std::move(missing));
  }

  void Blocks() {
    ListUnusualProjections();
    ListPartsInOneRange();
    Block("attention", {Role::kQuery, Role::kFusedQkv}, Role::kOutput,
          RecomputesOutputProjection(settings_));
    Block("mlp", {Role::kGate, Role::kFusedGateUp, Role::kUp}, Role::kDown,
          false);
  }

  // Adds the collectives of matrices without a known role, whose names do not
  // show whether they belong to attention or to an MLP (IsUnnamedMatrix). The
  // results are partial over the axes that shard the inputs. The gradients of
  // the inputs are partial over the axes that shard the outputs.
  void UnnamedMatrices() {
    constexpr std::string_view kPart = "projections";
    for (const ParamClass& param : work_.params) {
      if (!param.IsApplied() || param.mixes || param.role.expert ||
          !IsUnnamedMatrix(param)) {
        continue;
      }
      const AxisGroup in = work_.Kept(param.AxesAt(param.in_dim));
      const AxisGroup out = work_.Kept(param.AxesAt(param.out_dim));
      const int64_t rows = tokens_.Of(param.stream);
      const int64_t count = Times(layer_counts_.Of(param), repeats_);
      Add(kPart, false, Collective::kAllReduce, in,
          Times(rows, ShareOf(param.SizeAt(param.out_dim), work_.Parts(out))),
          bytes_, count);
      if (!train_) continue;
      Add(kPart, true, Collective::kAllReduce, out,
          Times(rows, ShareOf(param.Inputs(), work_.Parts(in))), bytes_, count);
    }
  }

  // Adds the collectives of the output projections of mixers. The other
  // collectives within a mixer are not known.
  void Mixers() {
    for (const ParamClass& param : work_.params) {
      if (!param.mixes || !param.IsApplied() ||
          param.role.module_role == Role::kOutput) {
        continue;
      }
      if (work_.Kept(param.AxesAt(param.in_dim)).empty() &&
          work_.Kept(param.AxesAt(param.out_dim)).empty()) {
        continue;
      }
      out_.unknown.push_back(
          {.what =
               "communication within state-space mixers and linear attention"});
      return;
    }
  }

  // Returns the axes over which the experts of a weight are distributed. These
  // are the axes that shard a dimension of experts and that the axis rule
  // `expert` names. If the plan was read from a file, there are no rules, and
  // all axes that shard such a dimension are returned. A rule with `place` may
  // instead put each expert on the devices at one coordinate of an axis. This
  // axis is added.
  AxisGroup Owners(const ParamClass& param) const {
    AxisGroup out;
    const int rank = static_cast<int>(param.type.shape->size());
    for (int d = 0; d < rank; ++d) {
      if (!param.MayCountExperts(d)) continue;
      out = Both(out, DropTrivial(work_.mesh, param.AxesAt(d)));
    }
    if (work_.expert_axes) out = Common(out, *work_.expert_axes);
    if (!param.placed_along.empty()) out.push_back(param.placed_along);
    return out;
  }

  // Returns the axes of tokens over which the tokens are sent to experts.
  AxisGroup Exchanged(const ParamClass& param) const {
    return Common(Owners(param), work_.TokenAxes());
  }
  // Returns the axes over which the results of experts are partial.
  AxisGroup PartialAfter(const ParamClass& param) const {
    AxisGroup out = work_.Kept(param.AxesAt(param.in_dim));
    const AxisGroup exchanged = Exchanged(param);
    for (const std::string& axis : Owners(param)) {
      if (!Meets({axis}, exchanged)) out.push_back(axis);
    }
    return out;
  }

  // Returns whether the results of shared experts, which are partial over
  // `axes`, are added to those of a token's other experts before one collective
  // reduces both.
  bool IsReducedWithExperts(const ParamClass& param,
                            const AxisGroup& axes) const {
    if (!param.role.shared_expert) return false;
    const ParamClass* const experts = work_.Find(Role::kDown, true);
    return experts != nullptr && Exchanged(*experts).empty() &&
           DropTrivial(work_.mesh, axes) ==
               DropTrivial(work_.mesh, PartialAfter(*experts));
  }

  // Adds the collectives of experts. If an axis of the experts also shards
  // tokens, the tokens are sent to their experts and back. A token has a row
  // for each of its experts, and rows that are partial over tensor axes are
  // reduced before they are sent back. If no axis of the experts shards tokens,
  // all devices of these axes have the same tokens. Each device then adds the
  // rows of a token that it holds, and only their sum is reduced.
  void Experts() {
    if (auto missing = MissingExpertChoice(work_)) {
      out_.unknown.push_back(std::move(*missing));
    }
    for (const ParamClass& param : work_.params) {
      if (!param.role.expert || param.role.module_role != Role::kDown ||
          !param.IsWeight()) {
        continue;
      }
      const int64_t layers = layer_counts_.Of(param);
      const AxisGroup exchanged = Exchanged(param);
      const AxisGroup added = PartialAfter(param);
      const int64_t chosen =
          work_.model ? work_.model->experts_per_token.value_or(1) : 1;
      for (const bool backward : {false, true}) {
        if (backward && !train_) break;
        // Two all-to-alls for each layer: one sends the tokens to the experts,
        // and one sends the results back.
        Add("experts", backward, Collective::kAllToAll, exchanged,
            Times(Rows(), chosen, hidden_), bytes_,
            Times(int64_t{2}, layers, repeats_));
        if (exchanged.empty()) {
          Reduce("experts", backward, added, layers);
          continue;
        }
        Add("experts", backward, Collective::kAllReduce, added,
            Times(Rows(), chosen, hidden_), bytes_, Times(layers, repeats_));
        // Rows are sent with their complete width.
        const AxisGroup split = Common(work_.hidden, added);
        Add("experts", backward, Collective::kAllGather, split,
            Times(Rows(), ShareOf(hidden_, work_.Parts(split))), bytes_,
            Times(layers, repeats_));
      }
    }
  }

  // Adds the collectives of the embedding and of the head.
  void Ends() {
    const ParamClass* embedding = work_.Find(Role::kEmbedding);
    const ParamClass* head = work_.Find(Role::kHead);
    if (embedding != nullptr && embedding->type.shape->size() == 2) {
      Reduce("embedding", false, work_.Kept(embedding->AxesAt(0)), 1);
      const AxisGroup width = work_.Kept(embedding->AxesAt(1));
      if (!Meets(width, work_.hidden)) {
        Add("embedding", false, Collective::kAllGather, width,
            Times(Rows(), ShareOf(hidden_, work_.Parts(width))), bytes_,
            repeats_);
      }
    }
    const int dim = head != nullptr ? head->out_dim : 0;
    if (head == nullptr) head = embedding;
    if (head == nullptr || IsEncoderAlone(work_)) return;
    const AxisGroup vocab = work_.Kept(head->AxesAt(dim));
    if (train_) {
      // The loss needs three numbers for each row: the largest logit, the sum
      // of exponentials and the label's logit.
      Add("logits", false, Collective::kAllReduce, vocab, Rows(), 4,
          Times(kStatistics, repeats_));
      Reduce("logits", true, vocab, 1);
      return;
    }
    const int width = DtypeBits(settings_.logits) / 8;
    Add("logits", false, Collective::kAllGather, vocab,
        Times(tokens_.rows, ShareOf(head->SizeAt(dim), work_.Parts(vocab))),
        width, repeats_);
  }

  // Returns the collectives. Collectives with the same part, pass, kind and
  // axes are merged into one Transfer.
  Communication Joined() {
    std::vector<Transfer> joined;
    for (Transfer& one : out_.transfers) {
      const auto same = std::find_if(
          joined.begin(), joined.end(), [&](const Transfer& other) {
            return other.part == one.part && other.backward == one.backward &&
                   other.kind == one.kind && other.axes == one.axes;
          });
      if (same == joined.end()) {
        joined.push_back(std::move(one));
      } else {
        same->count += one.count;
        same->sent = CheckedAdd(same->sent, one.sent).value_or(INT64_MAX);
      }
    }
    out_.transfers = std::move(joined);
    return std::move(out_);
  }

  const CostInputs& work_;
  LayerCounts layer_counts_;
  const Settings& settings_;
  bool train_;
  int64_t repeats_;
  int64_t bytes_;
  Tokens tokens_;
  int64_t hidden_ = 0;
  Communication out_;
};

}  // namespace

int64_t Communication::Sent() const {
  return std::accumulate(transfers.begin(), transfers.end(), int64_t{0},
                         [](int64_t sum, const Transfer& one) {
                           return CheckedAdd(sum, one.sent).value_or(INT64_MAX);
                         });
}

int64_t Communication::Sent(bool backward) const {
  int64_t out = 0;
  for (const Transfer& one : transfers) {
    if (one.backward == backward) {
      out = CheckedAdd(out, one.sent).value_or(INT64_MAX);
    }
  }
  return out;
}

Communication CommunicationOf(const CostInputs& work,
                              const Settings& settings) {
  return StepCollectives(work, settings).Take(true);
}

bool RecomputesOutputProjection(const Settings& settings) {
  const Candidate projected{"out_proj", "out_proj", Made::kDot, true, false};
  return settings.remat.Recomputes() && !Keeps(settings.remat, projected);
}

Communication CommunicationWithoutAttention(const CostInputs& work,
                                            const Settings& settings) {
  return StepCollectives(work, settings).Take(false);
}

// Decides over which axes a parameter stays sharded while a step uses it, and
// over which axes it is gathered before. An axis that shards the tokens is
// gathered, unless it also shards the heads or the experts. All other axes are
// kept. For example, for a weight sharded over fsdp and tp, with the batch
// sharded over fsdp:
//
//   [fsdp, tp]  ->  kept [null, tp], gathered over fsdp

AxisGroup CostInputs::TokenAxes() const {
  AxisGroup out = DropTrivial(mesh, Batch());
  for (const std::string& axis : DropTrivial(mesh, Length())) {
    out.push_back(axis);
  }
  return out;
}

bool CostInputs::Keeps(const std::string& axis) const {
  const bool shards_tokens = IsAmong(axis, Batch()) || IsAmong(axis, Length());
  return !shards_tokens || IsAmong(axis, query[2]);
}

AxisGroup CostInputs::Kept(const AxisGroup& axes) const {
  AxisGroup out;
  for (const std::string& axis : axes) {
    if (mesh.SizeOf(axis) > 1 && Keeps(axis)) out.push_back(axis);
  }
  return out;
}

AxisGroup CostInputs::Gathered(const AxisGroup& axes) const {
  AxisGroup out;
  for (const std::string& axis : axes) {
    if (mesh.SizeOf(axis) > 1 && !Keeps(axis)) out.push_back(axis);
  }
  return out;
}

template <typename Take>
void CostInputs::ForAxesAt(const ParamClass& param, int dim,
                           const Take& take) const {
  bool experts = param.MayCountExperts(dim);
  for (const std::string& axis : param.AxesAt(dim)) {
    if (mesh.SizeOf(axis) <= 1) continue;
    experts = experts && (!expert_axes || IsAmong(axis, *expert_axes));
    take(axis, experts || Keeps(axis));
  }
}

AxisGroup CostInputs::KeptAt(const ParamClass& param, int dim) const {
  AxisGroup out;
  ForAxesAt(param, dim, [&](const std::string& axis, bool kept) {
    if (kept) out.push_back(axis);
  });
  return out;
}

AxisGroup CostInputs::GatheredAt(const ParamClass& param, int dim) const {
  AxisGroup out;
  ForAxesAt(param, dim, [&](const std::string& axis, bool kept) {
    if (!kept) out.push_back(axis);
  });
  return out;
}

bool CostInputs::IsGathered(const ParamClass& param) const {
  bool out = false;
  for (int dim = 0; dim < std::ssize(param.spec); ++dim) {
    ForAxesAt(param, dim,
              [&](const std::string&, bool kept) { out = out || !kept; });
  }
  return out;
}

Shape CostInputs::UsedShape(const ParamClass& param) const {
  Shape out = *param.type.shape;
  const auto dims = std::min(std::ssize(param.spec), std::ssize(out));
  for (int dim = 0; dim < dims; ++dim) {
    int64_t parts = 1;  // cannot overflow: at most the number of devices
    ForAxesAt(param, dim, [&](const std::string& axis, bool kept) {
      if (kept) parts *= mesh.SizeOf(axis);
    });
    out[AsIndex(dim)] = ShareOf(out[AsIndex(dim)], parts);
  }
  return out;
}

}  // namespace shardc::cost
