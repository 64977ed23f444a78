// Searches for the best mesh for a number of devices. Every factorisation of
// this number into the axis sizes dp, fsdp, ep and tp is tried. Choose() finds
// the specs for each. tp must not exceed the number of devices of a host, and
// ep must divide the number of experts.
//
// A mesh fits if its parameters, gradients, Adam states and activations fit
// into 0.9 of a device's memory. The states are in float32. Layers are fully
// rematerialised, so only the inputs of all layers and the tensors of one layer
// are held.
//
// Of the meshes that fit, those within 1 % of the lowest time per token are
// regarded as equally fast. Of these, the mesh with the fewest axes is first.
// For example:
//
//   8 billion parameters, 64 devices of 80 GiB  ->  dp 8, fsdp 8
#include "suggest/mesh.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "source/list.h"
#include "source/size.h"
#include "suggest/choose.h"
#include "suggest/dims.h"
#include "suggest/suggest.h"

namespace shardc::suggest {
namespace {

// The usable fraction of a device's memory. The rest is kept for tensors that
// this estimate does not include.
constexpr double kUsable = 0.9;
// A time that exceeds the lowest time by at most this fraction is treated as
// equal to the lowest time.
constexpr double kTie = 0.01;
// The bytes per second that one device sends to other hosts (400 Gbit/s).
constexpr double kHostLink = 50e9;
// Bytes of activations per token and unit of the model's width. kKept is for
// each layer's input, which is kept. kWorking is for the one layer that is
// being recomputed (34 in arXiv 2205.05198).
constexpr double kKept = 2;
constexpr double kWorking = 34;

class MeshSearch {
 public:
  MeshSearch(const Tree& tree, const ModelConfig* model,
             const MeshRequest& request, const Preferences& preferences)
      : tree_(tree),
        model_(model),
        request_(request),
        preferences_(preferences) {}

  std::vector<MeshOption> Run() {
    for (int64_t tp = 1; tp <= std::min(request_.per_host, request_.devices);
         ++tp) {
      if (request_.devices % tp != 0) continue;
      const ModelDims model_dims =
          InferDims(tree_, model_, tp, preferences_.scan_axis);
      const int64_t experts = model_dims.facts.experts;
      const int64_t rest = request_.devices / tp;
      for (int64_t ep = 1; ep <= rest; ++ep) {
        if (rest % ep != 0) continue;
        if (ep > 1 && (experts == 0 || experts % ep != 0)) continue;
        for (int64_t fsdp = 1; fsdp <= rest / ep; ++fsdp) {
          if ((rest / ep) % fsdp != 0) continue;
          Try(model_dims, rest / ep / fsdp, fsdp, ep, tp);
        }
      }
    }
    Sort();
    return std::move(out_);
  }

 private:
  void Try(const ModelDims& model_dims, int64_t dp, int64_t fsdp, int64_t ep,
           int64_t tp) {
    // On a mesh with dp only, every device would hold all parameters.
    if (dp > 1 && fsdp * ep * tp == 1) return;
    MeshAxes axes;
    axes.dp = dp;
    axes.fsdp = fsdp;
    axes.ep = ep;
    axes.tp = tp;
    const Choices choices = Choose(tree_, model_dims, axes, preferences_);
    if (!MisfitOf(tree_, axes, choices).empty()) return;
    const int64_t shards = dp * fsdp * ep;
    Assumed assumed;
    if (model_ != nullptr && model_->experts_per_token) {
      assumed.experts_per_token = *model_->experts_per_token;
    }
    assumed.tokens = request_.sequence;
    if (request_.batch) {
      if (*request_.batch % shards != 0 && shards % *request_.batch != 0)
        return;
      assumed.tokens =
          std::max<int64_t>(1, *request_.batch * request_.sequence / shards);
    }
    if (fsdp * ep * tp > request_.per_host) assumed.data_link = kHostLink;
    if (request_.devices > request_.per_host) assumed.replica_link = kHostLink;
    const auto pieces = ShardedGroupsOf(tree_, choices);
    const Costs costs = CostOf(tree_, model_dims, axes, pieces, assumed);
    MeshOption option;
    option.bytes = costs.state + Activations(model_dims, assumed);
    option.fits =
        option.bytes <= kUsable * static_cast<double>(request_.memory);
    option.nanoseconds =
        costs.Seconds(assumed) * 1e9 /
        static_cast<double>(assumed.tokens * std::max<int64_t>(1, shards));
    const std::pair<const char*, int64_t> sizes[] = {
        {"dp", dp}, {"fsdp", fsdp}, {"ep", ep}, {"tp", tp}};
    for (const auto& [name, size] : sizes) {
      if (size > 1) option.mesh.axes.push_back({.name = name, .size = size});
    }
    if (option.mesh.axes.empty()) {
      option.mesh.axes.push_back({.name = "fsdp", .size = 1});
    }
    option.mesh.devices = request_.devices;
    out_.push_back(std::move(option));
  }

  double Activations(const ModelDims& model_dims,
                     const Assumed& assumed) const {
    double layers = 0;
    double width = 0;
    for (size_t k = 0; k < model_dims.groups.size(); ++k) {
      const InferredDims& inferred = model_dims.groups[k];
      if (!inferred.IsMatrix()) continue;
      if (IsAttention(inferred.role) || IsMlp(inferred.role)) {
        width = std::max(width, static_cast<double>(inferred.width_size));
      }
      if (inferred.role == Role::kOutput) {
        layers += static_cast<double>(tree_.groups[k].count());
      }
    }
    const auto tokens = static_cast<double>(assumed.tokens);
    return kKept * tokens * width * layers + kWorking * tokens * width;
  }

  void Sort() {
    const auto better = [](const MeshOption& a, const MeshOption& b) {
      if (a.fits != b.fits) return a.fits;
      if (!a.fits) return a.bytes < b.bytes;
      return a.nanoseconds < b.nanoseconds;
    };
    std::stable_sort(out_.begin(), out_.end(), better);
    if (out_.empty() || !out_.front().fits) return;
    // Meshes whose time is within kTie of the fastest are sorted by their
    // number of axes, and then by the bytes that a device holds.
    const double limit = out_.front().nanoseconds * (1 + kTie);
    const auto end =
        std::find_if(out_.begin(), out_.end(), [&](const MeshOption& option) {
          return !option.fits || option.nanoseconds > limit;
        });
    std::stable_sort(out_.begin(), end,
                     [](const MeshOption& a, const MeshOption& b) {
                       if (a.mesh.axes.size() != b.mesh.axes.size()) {
                         return a.mesh.axes.size() < b.mesh.axes.size();
                       }
                       return a.bytes < b.bytes;
                     });
  }

  const Tree& tree_;
  const ModelConfig* model_;
  const MeshRequest& request_;
  const Preferences& preferences_;
  std::vector<MeshOption> out_;
};

}  // namespace

std::vector<MeshOption> MeshesFor(const Tree& tree, const ModelConfig* model,
                                  const MeshRequest& request,
                                  const Preferences& preferences) {
  return MeshSearch(tree, model, request, preferences).Run();
}

// Estimates how many bytes a device sends in a training step, if its parameters
// have given specs. Each line below is the cost of one kind of communication
// for one weight. The factors follow from the algorithms in comm/collective.h.
// The symbols are:
//
//   S  bytes of a weight on a device, after the gathering in this line
//   g  number of shards of a weight over the data axes
//   t  number of shards of a weight over tp
//   n  number of shards, as the line states
//   T  tokens of a data shard, times the bytes of one number of an activation
//   d  the model's width
//   k  number of experts per token
//
// The formulas are:
//
//   weights gathered forward and backward, gradients
//     reduce-scattered                               3 S (g - 1) / g
//   gradients all-reduced over n data shards, g = 1  2 S (n - 1) / n
//   the result of the attention output projection
//     or down projection, all-reduced forward        2 T d (t - 1) / t
//   the gradient of a block's input, all-reduced
//     backward                                       2 T d (t - 1) / t
//   weights whose hidden dimension tp shards,
//     gathered before use                            3 S (t - 1) / t
//   experts divided over n shards, 4 all_to_alls     4 T k d (n - 1) / n

namespace {

// The bytes of training state per parameter: the weight, gradient and Adam
// moments in float32.
constexpr double kStateBytes = 16;

// Returns the bytes that each of n devices sends to gather `bytes`.
double Gathered(double bytes, double n) { return bytes * (n - 1) / n; }

class CostCounter {
 public:
  CostCounter(const Tree& tree, const ModelDims& model_dims,
              const MeshAxes& mesh, const Assumed& assumed)
      : tree_(tree), dims_(model_dims.groups), mesh_(mesh), assumed_(assumed) {}

  Costs Count(std::span<const ShardedGroup> pieces) {
    for (const ShardedGroup& piece : pieces) {
      const InferredDims& inferred = dims_[piece.group];
      if (IsAttention(inferred.role) && InnerParts(piece) > 1) {
        sharded_blocks_.insert(inferred.by_name.block_path);
      }
    }
    for (const ShardedGroup& piece : pieces) Add(piece);
    return out_;
  }

 private:
  int64_t InnerParts(const ShardedGroup& piece) const {
    const int inner = dims_[piece.group].inner;
    return inner < 0 ? 1 : piece.dims[AsIndex(inner)].tensor;
  }

  void Add(const ShardedGroup& piece) {
    const InferredDims& inferred = dims_[piece.group];
    const ParameterGroup& group = tree_.groups[piece.group];
    double data = 1, slices = 1, experts = static_cast<double>(piece.placed);
    for (size_t i = 0; i < piece.dims.size(); ++i) {
      const ShardedDim& dim = piece.dims[i];
      data *= static_cast<double>(dim.data);
      experts *= static_cast<double>(dim.expert);
      if (static_cast<int>(i) == inferred.experts) {
        experts *= static_cast<double>(dim.tensor);
      } else if (static_cast<int>(i) != inferred.inner) {
        slices *= static_cast<double>(dim.tensor);
      }
    }
    const auto inner = static_cast<double>(InnerParts(piece));
    const double bytes =
        static_cast<double>(group.bytes) * static_cast<double>(piece.count);
    const double parts = data * slices * experts * inner;
    const double elements =
        static_cast<double>(group.elements) * static_cast<double>(piece.count);
    out_.memory += bytes / parts;
    out_.state += elements * kStateBytes / parts;
    const double used = bytes / (experts * inner);
    AddWeights(inferred, piece, used, data, slices);
    out_.replicas +=
        2 * Gathered(used / (data * slices), static_cast<double>(mesh_.dp));
    AddActivations(inferred, piece, inner, used);
    if (inferred.IsMatrix() && inferred.role != Role::kEmbedding) {
      double share = 1;
      if (const int64_t count = inferred.Experts()) {
        share = std::min(1.0, static_cast<double>(assumed_.experts_per_token) /
                                  static_cast<double>(count));
        // A device receives tokens from all coordinates of the expert axis, but
        // only the tokens of the experts that it holds.
        share *= ExpertShards(piece, inferred);
      }
      out_.flops += 6 * share * elements / (experts * inner) *
                    static_cast<double>(assumed_.tokens);
    }
  }

  // Returns the number of shards into which ep divides the experts, or fsdp if
  // it distributes complete experts. These axes also shard tokens. Shards over
  // tp are not counted, because tp does not shard tokens.
  double ExpertShards(const ShardedGroup& piece,
                      const InferredDims& inferred) const {
    double out = piece.placed_tensor ? 1 : static_cast<double>(piece.placed);
    if (inferred.experts >= 0) {
      const ShardedDim& dim = piece.dims[AsIndex(inferred.experts)];
      out *= static_cast<double>(dim.expert);
    }
    return out;
  }

  void AddWeights(const InferredDims& inferred, const ShardedGroup& piece,
                  double used, double data, double slices) {
    // The expert axis shards tokens too, but all tokens of an expert are sent
    // to one coordinate of this axis. The expert's gradient is therefore
    // complete there, and is not reduced over the axis.
    double shards = static_cast<double>(mesh_.fsdp * mesh_.sp);
    if (ExpertShards(piece, inferred) <= 1) {
      shards *= static_cast<double>(mesh_.ep);
    }
    const double stored = used / slices;
    if (data > 1) out_.data += 3 * Gathered(stored, data);
    const double copies = std::max(1.0, shards / data);
    out_.data += 2 * Gathered(stored / data, copies);
    out_.tensor += 3 * Gathered(used, slices);
  }

  // Returns the bytes of an activation of the model's width, for all tokens of
  // a data shard.
  double Activations(const InferredDims& inferred) const {
    return static_cast<double>(assumed_.tokens * assumed_.activation_bytes) *
           static_cast<double>(inferred.width_size);
  }

  void AddActivations(const InferredDims& inferred, const ShardedGroup& piece,
                      double inner, double used) {
    const auto t = static_cast<double>(mesh_.tp);
    const bool by_tensor = inner > 1 || piece.placed_tensor ||
                           (inferred.experts >= 0 &&
                            piece.dims[AsIndex(inferred.experts)].tensor > 1);
    double layers = static_cast<double>(piece.count);
    if (inferred.expert_count > 1) {
      layers /= static_cast<double>(inferred.expert_count);
    }
    const double sum = 2 * layers * Gathered(Activations(inferred), t);
    switch (inferred.role) {
      case Role::kOutput:
      case Role::kDown:
        if (by_tensor) out_.tensor += sum;
        break;
      case Role::kEmbedding:
      case Role::kHead:
      case Role::kProjection:
        if (inner > 1) out_.tensor += sum;
        break;
      case Role::kQuery:
      case Role::kFusedQkv:
      case Role::kLatentUp:
      case Role::kGate:
      case Role::kUp:
      case Role::kFusedGateUp:
        // In the backward pass, the gradients of all projections with the same
        // input are added before they are communicated. Only one sum is sent.
        if (by_tensor && FirstReader(inferred, layers)) out_.tensor += sum;
        break;
      case Role::kKey:
      case Role::kValue:
      case Role::kFusedKeyValue:
        if (inner <= 1 &&
            sharded_blocks_.contains(inferred.by_name.block_path)) {
          out_.tensor += 2 * Gathered(used, t);
        }
        break;
      default:
        break;
    }
    AddStraddling(inferred, layers, inner);
    const double shards = ExpertShards(piece, inferred);
    if (inferred.role == Role::kDown && shards > 1) {
      out_.experts += 4 * layers *
                      static_cast<double>(assumed_.experts_per_token) *
                      Gathered(Activations(inferred), shards);
    }
  }

  // Returns true for the first projection that reads the input of its block,
  // and false for the other projections of the block.
  bool FirstReader(const InferredDims& inferred, double layers) {
    return read_
        .insert({inferred.by_name.block_path, IsMlp(inferred.role), layers})
        .second;
  }

  // Adds the cost of resharding outputs with misaligned shards. A shard may end
  // inside a head, or inside one part (query, key, value, gate or up) of a
  // fused projection.
  void AddStraddling(const InferredDims& inferred, double layers,
                     double inner) {
    if (inner <= 1 || !(IsAttention(inferred.role) || IsMlp(inferred.role))) {
      return;
    }
    const bool divides = std::all_of(
        inferred.units.begin(), inferred.units.end(), [&](int64_t units) {
          return units % static_cast<int64_t>(inner) == 0;
        });
    if (divides) return;
    const double output =
        static_cast<double>(assumed_.tokens * assumed_.activation_bytes) *
        static_cast<double>(inferred.inner_size);
    out_.tensor += 2 * layers * Gathered(output, inner);
  }

  const Tree& tree_;
  const std::vector<InferredDims>& dims_;
  const MeshAxes& mesh_;
  const Assumed& assumed_;
  std::set<std::string> sharded_blocks_;
  std::set<std::tuple<std::string, bool, double>> read_;
  Costs out_;
};

}  // namespace

ShardedGroup ShardedGroupOf(const Tree& tree, size_t group,
                            const Choice& choice) {
  ShardedGroup out;
  out.group = group;
  out.count = tree.groups[group].count();
  out.dims.resize(tree.groups[group].shape.size());
  for (size_t i = 0; i < choice.spec.size(); ++i) {
    for (const AxisAssignment& one : choice.spec[i]) {
      const AxisPurpose purpose = PurposeOf(one.axis);
      int64_t& parts = purpose == AxisPurpose::kData     ? out.dims[i].data
                       : purpose == AxisPurpose::kExpert ? out.dims[i].expert
                                                         : out.dims[i].tensor;
      parts *= one.size;
    }
  }
  out.placed = choice.place_size;
  out.placed_tensor = choice.place_axis == "TP";
  return out;
}

std::vector<ShardedGroup> ShardedGroupsOf(const Tree& tree,
                                          const Choices& choices) {
  std::vector<ShardedGroup> out;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    out.push_back(ShardedGroupOf(tree, k, choices.groups[k]));
  }
  return out;
}

std::vector<ShardedGroup> ShardedGroupsOf(const Tree& tree,
                                          const ModelDims& model_dims,
                                          const AxisRules& axes,
                                          const Plan& plan) {
  const auto names = [&](AxisRule rule) { return axes.Value(rule).axes; };
  const AxisGroup tensor = names(AxisRule::kTensorParallel);
  const AxisGroup expert = names(AxisRule::kExpertParallel);
  const auto holds = [](const AxisGroup& rule_group, const std::string& axis) {
    return IsAmong(axis, rule_group);
  };
  std::map<std::tuple<size_t, uint32_t, bool>, int64_t> counts;
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    for (const uint32_t member : tree.Members(tree.groups[k])) {
      const PlannedParam& param = plan.params[member];
      ++counts[{k, param.layout, param.IsPlaced()}];
    }
  }
  std::vector<ShardedGroup> out;
  for (const auto& [key, count] : counts) {
    const auto& [group, layout, placed] = key;
    ShardedGroup piece;
    piece.group = group;
    piece.count = count;
    piece.dims.resize(tree.groups[group].shape.size());
    const ParamLayout& of = plan.layouts[layout];
    const Spec& spec = of.modes.front().spec;
    for (size_t i = 0; i < spec.size() && i < piece.dims.size(); ++i) {
      for (const std::string& axis : spec[i]) {
        const bool experts =
            holds(expert, axis) &&
            static_cast<int>(i) == model_dims.groups[group].experts;
        int64_t& parts = holds(tensor, axis) ? piece.dims[i].tensor
                         : experts           ? piece.dims[i].expert
                                             : piece.dims[i].data;
        parts *= plan.mesh.SizeOf(axis);
      }
    }
    if (placed && of.rule >= 0) {
      const std::string& axis = plan.placement_axes[AsIndex(of.rule)];
      piece.placed = plan.mesh.SizeOf(axis);
      piece.placed_tensor = holds(tensor, axis);
    }
    out.push_back(std::move(piece));
  }
  return out;
}

double Costs::Seconds(const Assumed& assumed) const {
  const double computing = flops / assumed.flops;
  const double meanwhile =
      data / assumed.data_link + replicas / assumed.replica_link;
  return std::max(computing, meanwhile) + tensor / assumed.tensor_link +
         experts / assumed.data_link;
}

Costs CostOf(const Tree& tree, const ModelDims& model_dims,
             const MeshAxes& mesh, std::span<const ShardedGroup> pieces,
             const Assumed& assumed) {
  return CostCounter(tree, model_dims, mesh, assumed).Count(pieces);
}

}  // namespace shardc::suggest
