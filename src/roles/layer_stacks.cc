// Finds layer stacks. In a stack, a scan over layers has stacked the parameters
// of all layers in one tensor each. The stack is a subtree whose parameters all
// have the number of layers as the size of the same dimension. For example, in
// the subtree `verses`, dimension 0 counts 12 layers:
//
//   verses/query [12, 1024, 16, 64]  verses/up [12, 1024, 4096]
//   verses/down  [12, 4096, 1024]    verses/norm/scale [12, 1024]
//
// The width of a layer cannot be mistaken for the number of layers, because the
// width is the first dimension of `up` in a layer and the last one of `down`.
//
// A common size is no proof, because stacked experts have one too. A subtree is
// not a stack if one of its norms or biases has only one dimension, and names
// with numbers of layers, such as `layers.3.mlp.experts.up`, belong to separate
// tensors, so that a common size needs the evidence of norms or of a complete
// block. A stack is sure if one of these holds:
//
// - The user names the dimension of the stack.
// - The norms have one dimension more than in a layer.
// - The model's configuration has as many layers.
// - The path has a word such as `layers`, and the subtree has vectors or
//   attention.
//
// A stack is likely if it has attention with a feed-forward block, or many
// matrices with vectors. Judge() has further conditions. A subtree without such
// evidence may still be an undecided stack (MayBeStack).
//
// The search begins at the root, so that it finds the largest subtrees that are
// stacks. At each level it then searches the parameters that are in no stack
// yet, because a subtree may hold stacked and other parameters. Scans may be
// nested, so the search is repeated inside a stack, without the dimension of
// that stack.
#include "roles/layer_stacks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/manifest.h"
#include "model/name.h"
#include "roles/classify.h"
#include "roles/role.h"
#include "source/list.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Collects signs that a dimension counts layers. If it does, the remaining
// dimensions of each parameter must be a shape that is usual in one layer. For
// example, if dimension 0 counts 12 layers, one layer has these shapes:
//
//   calm/scale [12, 1024]      ->  [1024], a vector, as is usual for a scale
//   query [12, 1024, 16, 64]   ->  [1024, 16, 64], from the width to 16 heads
//   bias [12]                  ->  a single number, which is unusual for a bias
//
// A matrix of an adapter, such as `query/lora_a`, is a sign of the same kind as
// a matrix of its module.

// A parameter of the subtree that is examined.
struct StackMember {
  std::span<const std::string_view> parts;  // the parts of the name
  // The shape without those dimensions that are known to count layers; null if
  // it is unknown. Points to the stored shape or, if dimensions count layers,
  // to `rest`.
  const Shape* shape = nullptr;
  std::unique_ptr<Shape> rest = {};
  // Indexed by dimension of `shape`: the index that this dimension has in the
  // stored tensor. Empty if the indices are the same.
  std::vector<int> dims = {};
  const ParameterRole* role = nullptr;  // null if the shape is unknown
  // Whether the parameter is in a known stack.
  bool stacked = false;
};

// Indices into the list of all StackMembers.
using Indices = std::vector<uint32_t>;

// A dimension that several shapes have in common, and its size. If `dim` is
// below 0, it is counted from the last dimension.
struct StackDim {
  int dim = 0;
  int64_t size = 0;
};

// Returns the index from the first dimension of the dimension `dim`. Like an
// index in Python, `dim` counts from the last dimension if it is below 0: for
// three dimensions, -1 becomes 2.
int FromFront(const Shape& shape, int dim);

// Signs for and against the assumption that one dimension of a subtree's
// parameters counts layers. "In a layer" means: without this dimension.
struct StackSigns {
  // Whether some norm or bias would be a single number in a layer, or some
  // parameter of an adapter would be less than a matrix.
  bool contradiction = false;
  // Whether a parameter would be a single number without the dimension.
  bool numbers = false;
  // Whether a norm has another dimension besides this one.
  bool norm = false;
  // Whether there is a query, an attention output or a feed-forward weight.
  bool query = false, output = false, feed_forward = false;
  // Whether all members that would be matrices are below a part such as
  // `experts`. The others may be routers, which have a row for each expert.
  bool experts = true;
  // Whether the name of each member has a `*`, which stands for a number: the
  // layers are separate tensors.
  bool counted = true;
  // Whether each matrix would have over two dimensions without this one.
  bool spatial = true;
  // Whether a parameter would be a matrix without the dimension.
  bool stored_matrices = false;
  // Whether each matrix has a side that is longer than StackDim::size.
  bool narrow = true;
  int matrices = 0, vectors = 0;

  // Returns whether there is a query and a feed-forward weight, so that the
  // matrices make up a block.
  bool Block() const { return query && feed_forward; }
};

// What the words in the common path of all members name. `experts` is set for a
// word such as `experts`. `word` is set for a sure word for layers, such as
// `layers`, and `weak_word` for an unsure one, such as `block`. `counted` is
// set if the path has a `*`, which stands for a number. Words before a `*` are
// ignored: the layers in `layers.*.mlp`, for example, are separate tensors.
struct StackPath {
  bool counted = false, experts = false, word = false, weak_word = false;
};

// A dimension that is smaller than this is assumed to count the taps of a
// convolution, and not to be a side of a matrix.
constexpr int64_t kLeastSide = 16;

constexpr std::array<std::string_view, 3> kWeakWords = {"block", "layer", "h"};

bool IsStackWord(std::string_view part) {
  return part.ends_with("layers") || part.ends_with("blocks") ||
         Contains(part, "stack") || Contains(part, "scan") ||
         part.starts_with("Scan");
}

// Updates `out`, the signs that the dimension `one` counts layers, for a
// parameter that would be a matrix without this dimension.
void AddMatrix(const StackMember& member, const StackDim& one,
               StackSigns& out) {
  const int at = FromFront(*member.shape, one.dim);
  int64_t sides = 0, largest = 0;
  for (int d = 0; d < static_cast<int>(member.shape->size()); ++d) {
    if (d == at) continue;
    const int64_t size = (*member.shape)[AsIndex(d)];
    largest = std::max(largest, size);
    if (size >= kLeastSide) ++sides;
  }
  const bool adapter = IsAdapter(member.role->role);
  if (sides >= 2 || adapter) ++out.matrices;
  if (largest <= one.size) out.narrow = false;
  if (member.shape->size() == 3) out.spatial = false;
  const Role role = adapter ? member.role->module_role : member.role->role;
  out.output = out.output || role == Role::kOutput;
  out.query = out.query || role == Role::kQuery || role == Role::kFusedQkv ||
              role == Role::kLatentUp;
  // The role kDown is no sign of a feed-forward block, because the name `wo`,
  // which has this role, may also be the output of attention.
  out.feed_forward = out.feed_forward || (IsMlp(role) && role != Role::kDown);
}

int FromFront(const Shape& shape, int dim) {
  return dim < 0 ? static_cast<int>(shape.size()) + dim : dim;
}

// Returns the size of a dimension; 0 if the shape has no such dimension.
int64_t SizeAt(const Shape& shape, int dim) {
  const int at = FromFront(shape, dim);
  return at < 0 || at >= static_cast<int>(shape.size()) ? 0
                                                        : shape[AsIndex(at)];
}

StackSigns SignsOf(std::span<const StackMember> all, const Indices& members,
                   const StackDim& one) {
  StackSigns out;
  for (const uint32_t i : members) {
    const StackMember& member = all[i];
    const ParameterRole& role = *member.role;
    const size_t rest = member.shape->size() - 1;
    const bool norm = IsNorm(role.module_role) || IsNorm(role.role);
    if (rest == 0) {
      out.numbers = true;
      if (norm || role.leaf == Leaf::kBias) out.contradiction = true;
    }
    if (rest < 2 && IsAdapter(role.role)) out.contradiction = true;
    if (norm && rest > 0) out.norm = true;
    if (!norm && rest == 1) ++out.vectors;
    out.counted = out.counted &&
                  std::ranges::any_of(member.parts, [](std::string_view part) {
                    return part.ends_with('*');
                  });
    if (rest < 2) continue;
    if (!role.expert) out.experts = false;
    out.stored_matrices = true;
    AddMatrix(member, one, out);
  }
  return out;
}

// The names of the members must share the first `depth` parts.
StackPath PathOf(std::span<const StackMember> all, const Indices& members,
                 size_t depth) {
  StackPath out;
  const auto& parts = all[members.front()].parts;
  const auto all_have = [&](size_t i) {
    return std::all_of(members.begin(), members.end(), [&](uint32_t member) {
      const auto& own = all[member].parts;
      return i + 1 < own.size() && own[i] == parts[i];
    });
  };
  while (all_have(depth)) ++depth;
  for (size_t i = 0; i < depth; ++i) {
    if (Contains(parts[i], "*")) {
      out = {.counted = true};
      continue;
    }
    out.experts = out.experts || NamesExperts(parts[i], Confidence::kLikely);
    out.word = out.word || IsStackWord(parts[i]);
    out.weak_word = out.weak_word || IsAmong(parts[i], kWeakWords);
  }
  return out;
}

// The largest number of layers in a stack, unless the configuration states the
// same number of layers.
constexpr int64_t kMostLayers = 1024;
// The largest number of layers in a stack whose only evidence is a common size.
constexpr int64_t kMostUndecided = 256;
// The largest number of parts of a name that are searched, and the largest
// number of nested stacks.
constexpr size_t kMostDepth = 64;
constexpr int kMostNested = 3;
// The smallest number of parameter groups in a stack if the same subtree also
// holds parameters that are not stacked.
constexpr size_t kLeastFlat = 5;
// A feed-forward block has at most three matrices. A subtree with vectors and
// at least this many matrices is therefore assumed to be layers.
constexpr int kLayerMatrices = 4;

using Candidate = StackDim;

class StackFinder {
 public:
  StackFinder(std::span<const StackCandidate> parameters, char separator,
              std::optional<int64_t> layers, const ScanAxis& axis)
      : separator_(separator), layers_(layers), axis_(axis) {
    out_.dims.resize(parameters.size());
    // Where the parts of each name begin in `parts_`.
    std::vector<size_t> first;
    members_.reserve(parameters.size());
    for (const StackCandidate& one : parameters) {
      StackMember member;
      if (one.shape != nullptr && !one.shape->empty()) {
        const auto parts = SplitName(one.name, separator);
        first.push_back(parts_.size());
        parts_.insert(parts_.end(), parts.begin(), parts.end());
        member.shape = one.shape;
        member.role = one.role;
      }
      first.resize(members_.size() + 1, parts_.size());
      members_.push_back(std::move(member));
    }
    first.push_back(parts_.size());
    for (size_t i = 0; i < members_.size(); ++i) {
      members_[i].parts =
          std::span(parts_).subspan(first[i], first[i + 1] - first[i]);
    }
  }

  LayerStacks Find() {
    Indices all;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (members_[i].shape != nullptr) all.push_back(static_cast<uint32_t>(i));
    }
    if (!axis_.none) {
      Visit(all, 0, {});
      if (!axis_.dim) VisitUndecided(all, 0);
    }
    for (auto& dims : out_.dims) {
      std::sort(dims.begin(), dims.end(),
                [](const ScannedDim& a, const ScannedDim& b) {
                  return a.dim < b.dim;
                });
    }
    return std::move(out_);
  }

 private:
  // How many stacks contain the subtree that is being searched.
  struct Outer {
    int stacks = 0;      // the number of these stacks
    size_t members = 0;  // number of parameter groups in the innermost stack
  };

  // Returns the members below each part of names that several of them share,
  // sorted by the part.
  std::vector<Indices> ChildrenOf(const Indices& members, size_t depth) const {
    std::unordered_map<std::string_view, uint32_t> counts;
    counts.reserve(members.size());
    for (const uint32_t i : members) {
      const auto& parts = members_[i].parts;
      if (depth + 1 < parts.size()) ++counts[parts[depth]];
    }
    std::map<std::string_view, Indices> shared;
    for (const uint32_t i : members) {
      const auto& parts = members_[i].parts;
      if (depth + 1 >= parts.size() || counts[parts[depth]] < 2) continue;
      shared[parts[depth]].push_back(i);
    }
    std::vector<Indices> out;
    out.reserve(shared.size());
    for (auto& [part, child] : shared) out.push_back(std::move(child));
    return out;
  }

  // Adds the stacks among these parameters for which Judge() finds evidence.
  // The names of all `members` share the first `depth` parts.
  void Visit(const Indices& members, size_t depth, const Outer& outer) {
    if (members.size() < 2 || depth > kMostDepth) return;
    if (Take(members, depth, outer)) {
      const Outer own = {outer.stacks + 1, members.size()};
      if (own.stacks < kMostNested) Visit(members, depth, own);
      return;
    }
    for (const Indices& child : ChildrenOf(members, depth)) {
      Visit(child, depth + 1, outer);
    }
    if (outer.stacks > 0) return;
    Indices left;
    for (const uint32_t i : members) {
      if (!members_[i].stacked) left.push_back(i);
    }
    TakeMost(left, depth);
  }

  // Adds stacks for which Judge() finds no evidence. They are the largest
  // subtrees whose parameters all have the same size in one dimension. Such a
  // subtree is a likely stack if another stack has as many layers in the same
  // dimension. Otherwise it is an undecided stack.
  void VisitUndecided(const Indices& members, size_t depth) {
    Indices left;
    for (const uint32_t i : members) {
      if (!members_[i].stacked) left.push_back(i);
    }
    if (left.size() < 2 || depth > kMostDepth) return;
    for (const Candidate& one : CandidatesOf(left)) {
      if (!MayBeStack(left, depth, one)) continue;
      const bool known = std::any_of(
          out_.stacks.begin(), out_.stacks.end(), [&](const LayerStack& stack) {
            return stack.dim == one.dim && stack.layers == one.size &&
                   stack.confidence != StackConfidence::kUndecided;
          });
      Add(left, depth, one,
          known ? StackConfidence::kLikely : StackConfidence::kUndecided,
          known ? "another subtree has as many layers in the same dimension"
                : "no norm, attention or name shows whether these are layers "
                  "or experts");
      return;
    }
    for (const Indices& child : ChildrenOf(left, depth)) {
      VisitUndecided(child, depth + 1);
    }
  }

  bool IsCandidate(const Indices& members, const Candidate& one) const {
    return std::all_of(members.begin(), members.end(), [&](uint32_t i) {
      return SizeAt(*members_[i].shape, one.dim) == one.size;
    });
  }

  // Returns the dimensions that have the same size in all members, sorted by
  // this size. Dimensions are also counted from the last one, as negative
  // numbers, if the members differ in rank or if the user's scan axis is
  // negative.
  std::vector<Candidate> CandidatesOf(const Indices& members) const {
    std::vector<Candidate> out;
    const Shape& first = *members_[members.front()].shape;
    const int rank = static_cast<int>(first.size());
    const bool one_rank = std::all_of(
        members.begin(), members.end(),
        [&](uint32_t i) { return members_[i].shape->size() == first.size(); });
    for (int dim = 0; dim < rank; ++dim) {
      const Candidate front = {dim, SizeAt(first, dim)};
      if (IsCandidate(members, front)) out.push_back(front);
      const Candidate back = {-1 - dim, SizeAt(first, -1 - dim)};
      const bool from_last = !one_rank || axis_.dim.value_or(0) < 0;
      if (from_last && IsCandidate(members, back)) out.push_back(back);
    }
    std::stable_sort(
        out.begin(), out.end(),
        [](const Candidate& a, const Candidate& b) { return a.size < b.size; });
    return out;
  }

  // Returns whether programs usually scan over this dimension: the first, the
  // second or the last one.
  static bool IsUsual(const Candidate& one) {
    return one.dim == 0 || one.dim == 1 || one.dim == -1;
  }

  struct Verdict {
    std::optional<StackConfidence> confidence;  // nullopt if there is no stack
    std::string evidence;
  };

  Verdict Judge(const Indices& members, size_t depth, const Candidate& one,
                const Outer& outer) const {
    const StackSigns signs = SignsOf(members_, members, one);
    const StackPath path = PathOf(members_, members, depth);
    if (signs.contradiction || !signs.stored_matrices) return {};
    if (axis_.dim) {
      if (one.dim != *axis_.dim || outer.stacks > 0) return {};
      return {StackConfidence::kSure, "the scan axis is given"};
    }
    const bool configured = layers_ && *layers_ == one.size;
    const bool nested = outer.stacks > 0;
    const bool named = path.word && !nested;
    if (one.size < 2 && !(named && signs.norm)) return {};
    if (one.size > kMostLayers && !configured) return {};
    if ((path.experts || signs.experts || path.counted || signs.counted) &&
        !signs.norm && !signs.Block()) {
      return {};
    }
    if (signs.norm) {
      return {StackConfidence::kSure,
              "norms, which are vectors in one layer, have a dimension more"};
    }
    const bool whole = signs.vectors > 0 || members.size() == outer.members;
    if (nested && (!signs.Block() || !whole)) return {};
    // If all parameters have the same size in a dimension after the second one,
    // this size may also be a width, or the columns of a head. So such a
    // dimension needs more evidence than one of the first two.
    const bool front = one.dim == 0 || one.dim == 1;
    if (!nested && configured && (front || signs.narrow || named)) {
      return {StackConfidence::kSure, "the configuration has as many layers"};
    }
    const bool layer = signs.query && (signs.output || signs.feed_forward);
    if (named && (front || signs.narrow)) {
      return {signs.vectors > 0 || layer ? StackConfidence::kSure
                                         : StackConfidence::kLikely,
              "the path names a layer stack"};
    }
    if (signs.numbers || (!front && !signs.narrow)) return {};
    if (layer && (one.dim == 0 || signs.feed_forward)) {
      return {StackConfidence::kLikely,
              signs.feed_forward ? "attention and feed-forward share it"
                                 : "all projections of attention share it"};
    }
    if (signs.query && signs.matrices > kLayerMatrices && one.dim == 0) {
      return {StackConfidence::kLikely,
              "attention and further matrices share it"};
    }
    if (signs.matrices >= kLayerMatrices && signs.vectors > 0) {
      return {StackConfidence::kLikely,
              "matrices and vectors of more than a feed-forward block share "
              "it"};
    }
    if (path.weak_word && (signs.query || signs.vectors > 0)) {
      return {StackConfidence::kLikely, "the path names a layer"};
    }
    return {};
  }

  // Returns whether the common size `one` may count layers or experts, although
  // neither names nor norms show it. At least two members must be matrices. The
  // last dimension of a matrix may also count the taps of a convolution. A last
  // dimension is therefore accepted only if some members are vectors, which
  // have no taps.
  bool MayBeStack(const Indices& members, size_t depth,
                  const Candidate& one) const {
    const StackSigns signs = SignsOf(members_, members, one);
    const StackPath path = PathOf(members_, members, depth);
    return !signs.contradiction && !signs.numbers && !signs.experts &&
           !signs.spatial && signs.matrices >= 2 && !path.experts &&
           !path.counted && !signs.counted && one.size >= 2 &&
           one.size <= kMostUndecided &&
           (one.dim == 0 || one.dim == 1 ||
            (one.dim == -1 && signs.narrow && signs.vectors > 0));
  }

  bool Take(const Indices& members, size_t depth, const Outer& outer) {
    std::optional<Candidate> best;
    Verdict verdict;
    bool also = false;  // whether another dimension has equally good evidence
    for (const Candidate& one : CandidatesOf(members)) {
      Verdict found = Judge(members, depth, one, outer);
      if (!found.confidence) continue;
      const bool configured = layers_ && *layers_ == one.size;
      const bool better =
          !best || *found.confidence > *verdict.confidence ||
          (configured && best->size != *layers_) ||
          (one.size == best->size && IsUsual(one) && !IsUsual(*best));
      if (better) {
        also = false;
        best = one;
        verdict = std::move(found);
      } else if (one.size == best->size && one.dim != best->dim &&
                 IsUsual(one) == IsUsual(*best)) {
        also = true;
      }
    }
    if (!best || ChildHasFewer(members, depth, *best, outer)) return false;
    if (also) {
      verdict.confidence = StackConfidence::kUndecided;
      verdict.evidence = "two dimensions of every parameter have size " +
                         std::to_string(best->size);
    }
    Add(members, depth, *best, *verdict.confidence, verdict.evidence);
    return true;
  }

  // Returns whether a part of the subtree has a stack of fewer layers in
  // another dimension. If so, the common size of all members is not a number of
  // layers, but the width of square matrices.
  bool ChildHasFewer(const Indices& members, size_t depth,
                     const Candidate& best, const Outer& outer) const {
    for (const Indices& child : ChildrenOf(members, depth)) {
      if (child.size() == members.size()) continue;
      for (const Candidate& one : CandidatesOf(child)) {
        if (one.size < best.size && one.dim != best.dim &&
            Judge(child, depth + 1, one, outer).confidence) {
          return true;
        }
      }
    }
    return false;
  }

  // Returns whether a parameter has this size, but not in this dimension. The
  // size is then a width and no number of layers: `up` [12, 1024, 4096] shares
  // dimension 1 with the queries, and `down` [12, 4096, 1024] does not.
  bool IsWidth(const Indices& left, const Candidate& one) const {
    return std::any_of(left.begin(), left.end(), [&](uint32_t i) {
      const Shape& shape = *members_[i].shape;
      return SizeAt(shape, one.dim) != one.size && IsAmong(one.size, shape);
    });
  }

  // Adds a stack whose subtree also holds parameters that are not stacked. At
  // least half of the parameters, and at least kLeastFlat, must have a common
  // size in one dimension. These parameters must include a norm, or both
  // kLayerMatrices matrices and a vector, unless the user names the dimension.
  void TakeMost(const Indices& left, size_t depth) {
    std::map<std::pair<int64_t, int>, Indices> by_size;
    for (const uint32_t i : left) {
      const Shape& shape = *members_[i].shape;
      const int rank = static_cast<int>(shape.size());
      for (const int dim : {0, 1, -1}) {
        if (dim >= rank || (axis_.dim && *axis_.dim != dim)) continue;
        by_size[{SizeAt(shape, dim), dim}].push_back(i);
      }
    }
    for (const auto& [key, members] : by_size) {
      const Candidate one = {key.second, key.first};
      if (members.size() < kLeastFlat || 2 * members.size() < left.size()) {
        continue;
      }
      const StackSigns signs = SignsOf(members_, members, one);
      const Verdict verdict = Judge(members, depth, one, {});
      const bool layers =
          signs.norm || axis_.dim ||
          (signs.vectors > 0 && signs.matrices >= kLayerMatrices &&
           !signs.counted && !PathOf(members_, members, depth).counted);
      const bool given = axis_.dim || layers_ == one.size;
      if (!verdict.confidence || !layers || signs.matrices < 2 ||
          (!given && IsWidth(left, one))) {
        continue;
      }
      Add(members, depth, one, *verdict.confidence, verdict.evidence);
      return;
    }
  }

  void Add(const Indices& members, size_t depth, const Candidate& one,
           StackConfidence confidence, std::string evidence) {
    const auto stack = static_cast<uint32_t>(out_.stacks.size());
    LayerStack added;
    const auto& parts = members_[members.front()].parts;
    for (size_t i = 0; i < depth; ++i) {
      added.path += std::string(parts[i]) + separator_;
    }
    added.dim = one.dim;
    added.layers = one.size;
    added.members = members.size();
    added.confidence = confidence;
    added.evidence = std::move(evidence);
    out_.stacks.push_back(std::move(added));
    for (const uint32_t i : members) {
      StackMember& member = members_[i];
      const int at = FromFront(*member.shape, one.dim);
      if (member.rest == nullptr) {
        member.rest = std::make_unique<Shape>(*member.shape);
        member.shape = member.rest.get();
        member.dims.resize(member.rest->size());
        std::iota(member.dims.begin(), member.dims.end(), 0);
      }
      out_.dims[i].push_back({member.dims[AsIndex(at)], stack});
      member.rest->erase(member.rest->begin() + at);
      member.dims.erase(member.dims.begin() + at);
      member.stacked = true;
      if (member.rest->empty()) *member.rest = {1};
      if (member.dims.empty()) member.dims = {0};
    }
  }

  char separator_;
  std::optional<int64_t> layers_;
  ScanAxis axis_;
  std::vector<std::string_view> parts_;  // the parts of all names
  std::vector<StackMember> members_;
  LayerStacks out_;
};

}  // namespace

LayerStacks FindLayerStacks(std::span<const StackCandidate> parameters,
                            char separator, std::optional<int64_t> layers,
                            const ScanAxis& axis) {
  return StackFinder(parameters, separator, layers, axis).Find();
}

std::string StackText(const LayerStack& stack) {
  const std::string dim =
      stack.dim >= 0    ? "dimension " + std::to_string(stack.dim)
      : stack.dim == -1 ? "the last dimension"
                        : "dimension " + std::to_string(stack.dim);
  return dim + " of " +
         Counted(static_cast<int64_t>(stack.members), "parameter") +
         (stack.path.empty() ? "" : " below `" + stack.path + "`") +
         " counts " + Counted(stack.layers, "layer");
}

// Reads the number of a layer from a name, and finds the end of the model of a
// parameter outside of layers. Its role comes first, and the words of its name
// decide only where the role does not:
//
//   embed_out.weight              ->  after the layers: a head
//   token_type_embeddings.weight  ->  before the layers, by `embed`
//   head_table.weight             ->  neither: it may be a head or a table

namespace {

// The largest number that is read as a layer number. The number of all layers,
// plus one for the embedding and one for the output head, then still fits in 64
// bits.
constexpr int64_t kLargestLayer = INT64_MAX - 3;

std::optional<int64_t> Number(std::string_view text) {
  int64_t out = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < 0 ||
      out > kLargestLayer) {
    return std::nullopt;
  }
  return out;
}

// Returns whether a part of the name ends with `head` or `heads`, as
// `classification_head` does. The part `head_table` does not.
bool HasHeadWord(std::string_view name) {
  constexpr std::string_view kHead = "head";
  for (size_t at = name.find(kHead); at != name.npos;
       at = name.find(kHead, at + 1)) {
    std::string_view rest = name.substr(at + kHead.size());
    if (rest.starts_with('s')) rest.remove_prefix(1);
    if (rest.empty() || !IsWordByte(rest.front())) return true;
  }
  return false;
}

}  // namespace

std::optional<LayerName> LayerOf(std::string_view name, char separator) {
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = PartEnd(name, begin, separator);
    const std::string_view part = name.substr(begin, end - begin);
    const size_t stem = StemLength(part);
    const size_t before = begin + stem;  // the separator or `_` ends here
    const auto number =
        stem < part.size() ? Number(part.substr(stem)) : std::nullopt;
    begin = end + 1;
    if (!number || before == 0 || part.starts_with("expert")) continue;
    while (end < name.size() && name[end] != separator && name[end] != '[') {
      ++end;  // the closing quote and bracket of `['layers_5']`
    }
    return LayerName{name.substr(0, before - 1), name.substr(0, end), *number};
  }
  return std::nullopt;
}

bool IsBeforeLayers(const ParameterRole& role, std::string_view name) {
  if (role.module_role == Role::kHead) return false;
  return role.module_role == Role::kEmbedding || role.role == Role::kPosition ||
         (name.find("embed") != name.npos && name.find("unembed") == name.npos);
}

bool IsAfterLayers(const ParameterRole& role, std::string_view name) {
  return role.module_role == Role::kHead || IsNorm(role.role) ||
         IsNorm(role.module_role) || name.find("norm") != name.npos ||
         HasHeadWord(name);
}

}  // namespace shardc
