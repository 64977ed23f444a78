// Chooses the spec of a weight. The weight's role and the strategy of its block
// decide which dimension tp shards. The data axes are fsdp, sp, and ep if ep
// shards no experts. Every assignment of data axes to dimensions is tried, and
// the legal spec with the most shards is chosen. DataDims() lists the
// dimensions that data axes should shard, the preferred ones first. It decides
// between specs with equally many shards. For example:
//
//   q [4096, 4096], tp 8, 32 heads  ->  [HEAD, [FSDP, SP]]
//   q [4544, 4544], tp 8, 71 heads  ->  [null, [FSDP, SP, TP]]
//
// In the second line tp does not divide 71 heads, so tp shards the model's
// width. Axes are written as logical axes such as FSDP. The axis rules map
// these to axes of the mesh, such as `data`.
#include "suggest/weight_spec.h"

#include <algorithm>
#include <utility>

#include "source/index.h"

namespace shardc::suggest {
namespace {

// Groups whose tensors have fewer elements than this stay replicated, unless
// their role requires sharding. In a small model, the limit is a fiftieth of
// the model's elements.
constexpr int64_t kSmallElements = 65536;
constexpr int64_t kSmallFraction = 50;
// Limits on the bytes of a group, in thousandths of the model's bytes.
// Options() does not shard a group over tp if its bytes are below a limit:
// - kSmallShare for projections to a latent and weights of a state space mixer
// - kTableShare for groups of unknown role, and for embeddings and output heads
//   whose vocabulary tp does not divide
// IsSmall() compares the bytes of the group with kSmallShare thousandths of the
// bytes that a device holds if the model is fully sharded.
constexpr double kSmallShare = 5;
constexpr double kTableShare = 10;
// If tp cannot shard the KV heads, keys and values are replicated over tp,
// unless the copies add this many thousandths of the model's bytes or more. In
// that case, tp shards the model's width.
constexpr double kKeysShare = 40;
// If no data axis shards the keys and values, linting reports copies of a
// hundredth of the model, for keys and for values.
constexpr double kReportedKeysShare = 20;

// Returns whether `parts` equal shards of a dimension end at block boundaries.
bool DividesInto(int64_t size, int64_t parts, int64_t block) {
  return size % parts == 0 && (size / parts) % block == 0;
}

// Returns whether linting compares a projection with others of its module: its
// role must be certain.
bool IsComparedByLint(const ParameterRole& role) {
  return role.confidence == Confidence::kSure && IsWeight(role);
}

bool IsLegal(const InferredDims& inferred, const AxisSpec& spec) {
  for (size_t i = 0; i < spec.size(); ++i) {
    const Dim& dim = inferred.dims[i];
    if (!DividesInto(dim.size, PartsOf(spec[i]), dim.block)) return false;
  }
  return true;
}

// Adds a data axis to the axes of a dimension. It is placed after a logical
// axis such as HEAD, so that heads stay together. It is placed before TP, which
// shards slices of the width.
void AddDataAxis(std::vector<AxisAssignment>& assigned, std::string axis,
                 int64_t size) {
  const auto at =
      std::find_if(assigned.begin(), assigned.end(),
                   [](const AxisAssignment& one) { return one.axis == "TP"; });
  assigned.insert(at, {std::move(axis), size});
}

}  // namespace

// A dimension that tensor parallelism may shard, and the logical axis that the
// spec gets for this dimension. `dim` is -1 if tp shards no dimension.
struct SpecChooser::Option {
  int dim = -1;
  std::string axis;
  Reason reason = Reason::kUsual;
};

struct SpecChooser::DataAxis {
  std::string axis;
  int64_t size = 1;
};

bool ShardsInner(const InferredDims& inferred, int64_t parts) {
  if (inferred.inner < 0) return false;
  const Dim& dim = inferred.dims[AsIndex(inferred.inner)];
  return DividesInto(dim.size, parts, dim.block) &&
         std::all_of(inferred.units.begin(), inferred.units.end(),
                     [&](int64_t units) { return units % parts == 0; });
}

SpecChooser::SpecChooser(const Tree& tree, const ModelDims& dims,
                         const MeshAxes& mesh, const Preferences& preferences)
    : tree_(tree), dims_(dims.groups), mesh_(mesh), preferences_(preferences) {
  for (size_t k = 0; k < tree.groups.size(); ++k) {
    const ParameterGroup& group = tree.groups[k];
    elements_ += std::min(kSmallElements, group.elements) * group.count();
    if (dims_[k].IsMatrix() && IsKeyOrValue(dims_[k].role)) {
      key_bytes_ += group.total_bytes();
    }
    const ParameterRole& role = dims_[k].by_name;
    if (!IsComparedByLint(role)) continue;
    Siblings& module =
        siblings_.try_emplace(role.sibling_path, Siblings{role.module_role})
            .first->second;
    module.several = module.several || module.first != role.module_role;
  }
}

double SpecChooser::Thousandths(int64_t bytes) const {
  return tree_.bytes <= 0 ? 0.0
                          : static_cast<double>(bytes) * 1000 /
                                static_cast<double>(tree_.bytes);
}

bool SpecChooser::IsSmall(size_t k) const {
  const ParameterGroup& group = tree_.groups[k];
  if (group.elements < std::min(kSmallElements, elements_ / kSmallFraction)) {
    return true;
  }
  return Thousandths(group.total_bytes()) *
             static_cast<double>(mesh_.DevicesOfReplica()) <
         kSmallShare;
}

// Returns what tp may shard in a group, the preferred option first. If several
// options lead to equally many parts, Choose() uses the first.
std::vector<SpecChooser::Option> SpecChooser::Options(
    size_t k, TensorParallelStrategy strategy) const {
  const InferredDims& inferred = dims_[k];
  const double share = Thousandths(tree_.groups[k].total_bytes());
  const bool inner = strategy == TensorParallelStrategy::kInner;
  const Option slices = {inferred.width, "TP", Reason::kSlices};
  const Option none = {-1, "", Reason::kNotOverTensor};
  switch (inferred.role) {
    case Role::kQuery:
    case Role::kFusedQkv:
    case Role::kOutput:
    case Role::kLatentUp:
      if (inner) return {{inferred.inner, "HEAD"}};
      return {slices, none};
    case Role::kKey:
    case Role::kValue:
    case Role::kFusedKeyValue:
      if (inner) return {{inferred.inner, "KV_HEAD"}};
      if (Thousandths(key_bytes_) * static_cast<double>(mesh_.tp - 1) <
              kKeysShare &&
          (mesh_.DevicesOfReplica() > mesh_.tp ||
           Thousandths(key_bytes_) < kReportedKeysShare)) {
        return {{-1, "", Reason::kReplicatedKeys}};
      }
      return {slices, none};
    case Role::kGate:
    case Role::kUp:
    case Role::kFusedGateUp:
    case Role::kDown:
      if (inner) return {{inferred.inner, "MLP_INTERMEDIATE"}};
      if (strategy == TensorParallelStrategy::kExpertsOverTp) {
        return {{inferred.experts, "TP", Reason::kExpertsOverTp}};
      }
      return {slices, none};
    case Role::kEmbedding:
    case Role::kHead:
      if (inferred.inner < 0) return AnyDim(inferred);
      if (ShardsInner(inferred, mesh_.tp)) return {{inferred.inner, "VOCAB"}};
      if (share < kTableShare || preferences_.prefer_traffic) return {none};
      return {slices, none};
    case Role::kProjection:
      if (ShardsInner(inferred, mesh_.tp)) return {{inferred.inner, "TP"}};
      return {slices, none};
    case Role::kLatentDown:
    case Role::kStateSpace:
      if (share < kSmallShare) return {none};
      if (inferred.width < 0) return AnyDim(inferred);
      return {slices, none};
    case Role::kAdapterDown:
    case Role::kAdapterUp:
    case Role::kRouter:
    case Role::kNorm:
    case Role::kLatentNorm:
    case Role::kVector:
      return {none};
    default:
      if (share < kTableShare) return {none};
      return AnyDim(inferred);
  }
}

std::vector<SpecChooser::Option> SpecChooser::AnyDim(
    const InferredDims& inferred) const {
  std::vector<Option> out;
  for (const int dim : DataDims(inferred)) out.push_back({dim, "TP"});
  out.push_back({-1, "", Reason::kNotOverTensor});
  return out;
}

// Returns the dimensions that data axes may shard, in order of preference. The
// dimension of experts is first, if Preferences::place_experts is set. The
// width is next, followed by dimensions of unknown use by descending size. The
// inner dimension is last, and is left out for adapters.
std::vector<int> SpecChooser::DataDims(const InferredDims& inferred) const {
  std::vector<int> out;
  if (preferences_.place_experts && inferred.experts >= 0) {
    out.push_back(inferred.experts);
  }
  if (inferred.width >= 0) out.push_back(inferred.width);
  std::vector<int> unknown;
  for (size_t i = 0; i < inferred.dims.size(); ++i) {
    if (inferred.dims[i].use == DimUse::kUnknown) {
      unknown.push_back(static_cast<int>(i));
    }
  }
  std::stable_sort(unknown.begin(), unknown.end(), [&](int a, int b) {
    return inferred.dims[AsIndex(a)].size > inferred.dims[AsIndex(b)].size;
  });
  out.insert(out.end(), unknown.begin(), unknown.end());
  if (inferred.inner >= 0 && !IsAdapter(inferred.role)) {
    out.push_back(inferred.inner);
  }
  return out;
}

// Returns the data axes that may shard a group. An axis over which the group's
// experts are distributed (`placed`) is left out. The expert axis is included
// only if it shards no experts of the group and the group is not an adapter.
std::vector<SpecChooser::DataAxis> SpecChooser::DataAxes(
    const InferredDims& inferred, bool experts_sharded,
    const std::string& placed) const {
  std::vector<DataAxis> out;
  if (placed != "FSDP") out.push_back({"FSDP", mesh_.fsdp});
  if (mesh_.ep > 1 && !experts_sharded && placed != "EP" &&
      !IsAdapter(inferred.role)) {
    out.push_back({"EP", mesh_.ep});
  }
  out.push_back({"SP", mesh_.sp});
  return out;
}

// Tries every assignment of data axes to dimensions, in which each axis shards
// one dimension or no dimension. Returns the legal spec with the most parts.
AxisSpec SpecChooser::AddDataAxes(const InferredDims& inferred,
                                  const AxisSpec& base,
                                  const std::vector<DataAxis>& axes) const {
  const std::vector<int> dims = DataDims(inferred);
  // The last choice is to shard no dimension.
  const size_t choices = dims.size() + 1;
  size_t all = 1;
  for (size_t i = 0; i < axes.size(); ++i) all *= choices;
  AxisSpec best = base;
  int64_t most = 0;
  size_t least_moved = 0;
  for (size_t code = 0; code < all; ++code) {
    AxisSpec spec = base;
    size_t rest = code;
    // How far this assignment is from the preferred one. `pick` is the index,
    // in `dims`, of the dimension that an axis shards: 0 for the preferred
    // dimension, and the length of `dims` for no dimension. An axis of several
    // devices adds 4 * pick, and an axis of size 1 only adds pick.
    size_t moved = 0;
    int64_t parts = 1;
    for (const DataAxis& axis : axes) {
      const size_t pick = rest % choices;
      rest /= choices;
      moved += pick * (axis.size > 1 ? 4 : 1);
      if (pick == dims.size()) continue;
      AddDataAxis(spec[AsIndex(dims[pick])], axis.axis, axis.size);
      parts *= axis.size;
    }
    const bool better =
        most == 0 || parts > most || (parts == most && moved < least_moved);
    if (!better || !IsLegal(inferred, spec)) continue;
    best = std::move(spec);
    most = parts;
    least_moved = moved;
  }
  return best;
}

Choice SpecChooser::Choose(size_t k, TensorParallelStrategy strategy) const {
  const InferredDims& inferred = dims_[k];
  Choice out;
  const bool sharded_by_role =
      inferred.IsMatrix() && inferred.role != Role::kRouter &&
      inferred.role != Role::kProjection && !IsAdapter(inferred.role) &&
      inferred.role != Role::kStateSpace;
  if (inferred.by_name.module_role == Role::kNorm) return out;
  if (!sharded_by_role && IsSmall(k)) return out;
  AxisSpec base(inferred.dims.size());
  bool experts_sharded = false;
  if (inferred.experts >= 0) {
    experts_sharded = inferred.Experts() % mesh_.ep == 0;
    if (experts_sharded) {
      base[AsIndex(inferred.experts)].push_back({"EXPERT", mesh_.ep});
    }
  } else if (inferred.expert_count > 1) {
    PlaceExperts(inferred, strategy, out);
  }
  const auto axes = DataAxes(inferred, experts_sharded, out.place_axis);
  int64_t most = -1;
  for (const Option& option : Options(k, strategy)) {
    AxisSpec spec = base;
    if (option.dim >= 0) {
      spec[AsIndex(option.dim)].push_back({option.axis, mesh_.tp});
    } else if (option.reason == Reason::kSlices) {
      continue;
    }
    if (!IsLegal(inferred, spec)) continue;
    spec = AddDataAxes(inferred, spec, axes);
    const int64_t parts = PartsOf(spec);
    if (parts <= most) continue;
    most = parts;
    out.spec = std::move(spec);
    out.reason = option.reason;
    out.inner_sharded = option.dim >= 0 && option.dim == inferred.inner;
    out.width_slices = option.reason == Reason::kSlices;
  }
  SetReason(inferred, axes, out);
  if (out.width_slices && inferred.heads_unknown) {
    out.reason = Reason::kHeadsUnknown;
  } else if (out.width_slices && inferred.role == Role::kProjection &&
             !inferred.units.empty()) {
    out.reason = Reason::kRoleUnknown;
  }
  if (out.replicated()) out.spec.clear();
  return out;
}

// Distributes experts that are separate tensors over an axis that divides their
// number. The axis is tp if the strategy is kExpertsOverTp. It is fsdp if the
// user prefers that and the mesh has no ep axis. Otherwise it is ep.
void SpecChooser::PlaceExperts(const InferredDims& inferred,
                               TensorParallelStrategy strategy,
                               Choice& out) const {
  const int64_t count = inferred.expert_count;
  if (strategy == TensorParallelStrategy::kExpertsOverTp) {
    out.place_axis = "TP";
    out.place_size = mesh_.tp;
  } else if (mesh_.ep == 1 && preferences_.place_experts && mesh_.fsdp > 1 &&
             count % mesh_.fsdp == 0) {
    out.place_axis = "FSDP";
    out.place_size = mesh_.fsdp;
  } else if (count % mesh_.ep == 0) {
    out.place_axis = "EP";
    out.place_size = mesh_.ep;
  }
  out.place_count = out.place_axis.empty() ? 0 : count;
}

void SpecChooser::SetReason(const InferredDims& inferred,
                            const std::vector<DataAxis>& axes,
                            Choice& out) const {
  const Role role = inferred.by_name.module_role;
  out.ignore_reshard = out.width_slices && mesh_.tp > 1 &&
                       inferred.by_name.attention && HasSibling(inferred) &&
                       inferred.OfOneLayer().size() == 2 &&
                       inferred.layers_shown &&
                       (role == Role::kQuery || role == Role::kKey ||
                        role == Role::kValue || role == Role::kFusedQkv);
  if (out.reason != Reason::kUsual) return;
  int64_t parts = 1;
  for (const DataAxis& axis : axes) parts *= axis.size;
  int64_t used = 1;
  for (size_t i = 0; i < out.spec.size(); ++i) {
    for (const AxisAssignment& one : out.spec[i]) {
      if (PurposeOf(one.axis) != AxisPurpose::kData) continue;
      used *= one.size;
      if (static_cast<int>(i) == inferred.inner && one.size > 1) {
        out.reason = Reason::kDataOnInner;
      }
    }
  }
  if (used < parts) out.reason = Reason::kLessData;
}

// Returns whether linting compares this projection with a projection of another
// role in the same module.
bool SpecChooser::HasSibling(const InferredDims& inferred) const {
  const ParameterRole& own = inferred.by_name;
  return IsComparedByLint(own) && siblings_.at(own.sibling_path).several;
}

}  // namespace shardc::suggest
