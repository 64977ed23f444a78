// A scan over layers stacks the parameters of one layer, so that all parameters
// of a subtree have the number of layers at one position, whatever the subtree
// is called:
//
//   verses/query [12, 1024, 16, 64]  verses/up [12, 1024, 4096]
//   verses/down  [12, 4096, 1024]    verses/norm/scale [12, 1024]
//     ->  dimension 0 counts 12 layers
//
// The width of a layer cannot be mistaken for the number of layers: it is the
// first dimension of `up` and the last one of `down`. A size that is shared is
// still no proof, since stacked experts share their number as well. A stack is
// sure if a norm, which has one dimension in a layer, has two, or if the
// subtree is called `layers` or the like; it is likely if the subtree holds
// all of attention or many matrices with vectors. It is not one if a norm or a
// bias of the subtree has one dimension only. Otherwise it is undecided.
//
// The search goes from the root downwards and takes the largest subtrees. Then
// it looks at the parameters that are left at each level: a tree may keep its
// stacked parameters next to others. Inside a stack the search is repeated
// without the stack's dimension, since scans nest.
#include "roles/layer_stacks.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "model/name.h"
#include "roles/classify.h"
#include "roles/words.h"
#include "source/index.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr int64_t kMostLayers = 1024;
// An undecided stack has no more layers than this.
constexpr int64_t kMostUndecided = 256;
// Smaller dimensions are a kernel's taps rather than a side of a matrix.
constexpr int64_t kLeastSide = 16;
constexpr size_t kMostDepth = 64;
constexpr int kMostNested = 3;
// Stacked parameters next to others: at least so many groups.
constexpr size_t kLeastFlat = 5;
// Feed-forward blocks have at most three matrices, so that more of them with
// vectors are a layer.
constexpr int kLayerMatrices = 4;

constexpr std::array<std::string_view, 3> kWeakWords = {"block", "layer", "h"};

bool Contains(std::string_view part, std::string_view word) {
  return part.find(word) != std::string_view::npos;
}

bool IsStackWord(std::string_view part) {
  return part.ends_with("layers") || part.ends_with("blocks") ||
         Contains(part, "stack") || Contains(part, "scan") ||
         part.starts_with("Scan");
}

struct Member {
  std::vector<std::string_view> parts;
  Shape shape;            // without dimensions that were found
  std::vector<int> dims;  // of the parameter as stored, by dimension of `shape`
  ParameterRole role;
  bool stacked = false;
};

using Indices = std::vector<uint32_t>;

// What the members of a subtree show if a dimension of theirs counts layers.
struct Signs {
  bool contradiction = false;  // a norm or bias would be a number a layer
  bool numbers = false;        // some parameter would be
  bool norm = false;           // a norm with one more dimension than it has
  bool query = false, output = false, feed_forward = false;
  bool experts = true;  // all are below a part that names experts
  bool spatial = true;  // all have the rank of a convolution
  int matrices = 0, vectors = 0;
};

struct Candidate {
  int dim = 0;
  int64_t size = 0;
};

class StackFinder {
 public:
  StackFinder(std::span<const StackCandidate> parameters, char separator,
              std::optional<int64_t> layers, const ScanAxis& axis)
      : separator_(separator), layers_(layers), axis_(axis) {
    out_.dims.resize(parameters.size());
    for (const StackCandidate& one : parameters) {
      Member member;
      if (one.shape != nullptr && !one.shape->empty()) {
        member.parts = SplitName(one.name, separator);
        member.shape = *one.shape;
        for (size_t i = 0; i < member.shape.size(); ++i) {
          member.dims.push_back(static_cast<int>(i));
        }
        member.role = Classify(one.name, separator, Confidence::kLikely,
                               static_cast<int>(member.shape.size()));
      }
      members_.push_back(std::move(member));
    }
  }

  LayerStacks Find() {
    Indices all;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (!members_[i].shape.empty()) all.push_back(static_cast<uint32_t>(i));
    }
    if (!axis_.none) {
      Visit(all, 0, 0);
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
  using Children = std::map<std::string_view, Indices>;

  Children ChildrenOf(const Indices& members, size_t depth) const {
    Children out;
    for (const uint32_t i : members) {
      const auto& parts = members_[i].parts;
      if (depth + 1 < parts.size()) out[parts[depth]].push_back(i);
    }
    return out;
  }

  // Finds the decided stacks among these members, which share `depth` parts.
  // `nested` is the number of stacks around them.
  void Visit(const Indices& members, size_t depth, int nested) {
    if (members.size() < 2 || depth > kMostDepth) return;
    if (Take(members, depth, nested)) {
      if (nested + 1 < kMostNested) Visit(members, depth, nested + 1);
      return;
    }
    for (const auto& [part, child] : ChildrenOf(members, depth)) {
      Visit(child, depth + 1, nested);
    }
    if (nested > 0) return;
    Indices left;
    for (const uint32_t i : members) {
      if (!members_[i].stacked) left.push_back(i);
    }
    TakeMost(left, depth);
  }

  // The largest subtrees that share a size and that nothing has decided.
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
    for (const auto& [part, child] : ChildrenOf(left, depth)) {
      VisitUndecided(child, depth + 1);
    }
  }

  bool IsCandidate(const Indices& members, const Candidate& one) const {
    return std::all_of(members.begin(), members.end(), [&](uint32_t i) {
      return SizeAt(members_[i].shape, one.dim) == one.size;
    });
  }

  // The size at a position, counted from the last if below 0; 0: none.
  static int64_t SizeAt(const Shape& shape, int dim) {
    const int at = FromFront(shape, dim);
    return at < 0 || at >= static_cast<int>(shape.size()) ? 0
                                                          : shape[AsIndex(at)];
  }
  // The same position counted from the first dimension.
  static int FromFront(const Shape& shape, int dim) {
    return dim < 0 ? static_cast<int>(shape.size()) + dim : dim;
  }

  // Positions that have one size in all members, the smallest size first.
  std::vector<Candidate> CandidatesOf(const Indices& members) const {
    std::vector<Candidate> out;
    const Shape& first = members_[members.front()].shape;
    const int rank = static_cast<int>(first.size());
    const bool one_rank = std::all_of(
        members.begin(), members.end(),
        [&](uint32_t i) { return members_[i].shape.size() == first.size(); });
    for (int dim = 0; dim < rank; ++dim) {
      const Candidate front = {dim, SizeAt(first, dim)};
      if (IsCandidate(members, front)) out.push_back(front);
      const Candidate back = {-1 - dim, SizeAt(first, -1 - dim)};
      if (!one_rank && IsCandidate(members, back)) out.push_back(back);
    }
    std::stable_sort(
        out.begin(), out.end(),
        [](const Candidate& a, const Candidate& b) { return a.size < b.size; });
    return out;
  }

  Signs SignsOf(const Indices& members, const Candidate& one) const {
    Signs out;
    for (const uint32_t i : members) {
      const Member& member = members_[i];
      const ParameterRole& role = member.role;
      const size_t rest = member.shape.size() - 1;
      const bool norm = IsNorm(role.module_role) || IsNorm(role.role);
      if (rest == 0) {
        out.numbers = true;
        if (norm || role.leaf == Leaf::kBias) out.contradiction = true;
      }
      if (norm && rest > 0) out.norm = true;
      if (!norm && rest == 1) ++out.vectors;
      if (!role.expert) out.experts = false;
      if (rest < 2) continue;
      int64_t sides = 0;
      for (size_t d = 0; d < member.shape.size(); ++d) {
        const int at = FromFront(member.shape, one.dim);
        if (static_cast<int>(d) != at && member.shape[d] >= kLeastSide) ++sides;
      }
      if (sides >= 2) ++out.matrices;
      if (rest == 2) out.spatial = false;
      out.output = out.output || role.role == Role::kOutput;
      out.query = out.query || role.role == Role::kQuery ||
                  role.role == Role::kFusedQkv || role.role == Role::kLatentUp;
      out.feed_forward = out.feed_forward || IsMlp(role.role);
    }
    return out;
  }

  // Some member holds a matrix for each layer.
  bool HasMatrices(const Indices& members) const {
    return std::any_of(members.begin(), members.end(), [&](uint32_t i) {
      return members_[i].shape.size() >= 3;
    });
  }

  // The parts that all members have in common, and words among them. A word
  // that a counter follows names layers that are tensors of their own.
  struct Path {
    bool counted = false, experts = false, word = false, weak_word = false;
  };
  Path PathOf(const Indices& members, size_t depth) const {
    Path out;
    const auto& parts = members_[members.front()].parts;
    const auto all_have = [&](size_t i) {
      return std::all_of(members.begin(), members.end(), [&](uint32_t member) {
        const auto& own = members_[member].parts;
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

  struct Verdict {
    std::optional<StackConfidence> confidence;  // empty: it is none
    std::string evidence;
  };

  Verdict Judge(const Indices& members, size_t depth, const Candidate& one,
                int nested) const {
    const Signs signs = SignsOf(members, one);
    const Path path = PathOf(members, depth);
    if (signs.contradiction || !HasMatrices(members)) return {};
    if (axis_.dim) {
      if (one.dim != *axis_.dim || nested > 0) return {};
      return {StackConfidence::kSure, "the scan axis is given"};
    }
    const bool configured = layers_ && *layers_ == one.size;
    const bool named = path.word && nested == 0;
    if (one.size < 2 && !(named && signs.norm)) return {};
    if (one.size > kMostLayers && !configured) return {};
    if ((path.experts || signs.experts || path.counted) && !signs.norm) {
      return {};
    }
    if (signs.norm) {
      return {StackConfidence::kSure,
              "norms, which are vectors in one layer, have a dimension more"};
    }
    if (nested > 0) return {};
    if (configured && (one.dim >= 0 || named)) {
      return {StackConfidence::kSure, "the configuration has as many layers"};
    }
    const bool layer = signs.query && (signs.output || signs.feed_forward);
    if (named) {
      return {signs.vectors > 0 || layer ? StackConfidence::kSure
                                         : StackConfidence::kLikely,
              "the path names a layer stack"};
    }
    if (signs.numbers || one.dim < 0) return {};
    if (layer && (one.dim == 0 || signs.feed_forward)) {
      return {StackConfidence::kLikely,
              signs.feed_forward ? "attention and feed-forward share it"
                                 : "all projections of attention share it"};
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

  // Shared by matrices of unknown use: layers or experts.
  bool MayBeStack(const Indices& members, size_t depth,
                  const Candidate& one) const {
    const Signs signs = SignsOf(members, one);
    const Path path = PathOf(members, depth);
    return !signs.contradiction && !signs.numbers && !signs.experts &&
           !signs.spatial && signs.matrices >= 2 && !path.experts &&
           !path.counted && one.dim >= 0 && one.dim <= 1 && one.size >= 2 &&
           one.size <= kMostUndecided;
  }

  bool Take(const Indices& members, size_t depth, int nested) {
    std::optional<Candidate> best;
    Verdict verdict;
    bool also = false;  // another position is as good
    for (const Candidate& one : CandidatesOf(members)) {
      Verdict found = Judge(members, depth, one, nested);
      if (!found.confidence) continue;
      const bool configured = layers_ && *layers_ == one.size;
      const bool better = !best || *found.confidence > *verdict.confidence ||
                          (configured && best->size != *layers_);
      if (better) {
        also = false;
        best = one;
        verdict = std::move(found);
      } else if (one.size == best->size && one.dim != best->dim) {
        also = true;
      }
    }
    if (!best || ChildHasFewer(members, depth, *best, nested)) return false;
    if (also) {
      verdict.confidence = StackConfidence::kUndecided;
      verdict.evidence = "two dimensions of every parameter have size " +
                         std::to_string(best->size);
    }
    Add(members, depth, *best, *verdict.confidence, verdict.evidence);
    return true;
  }

  // Whether a subtree has a stack of fewer layers in another dimension: then
  // the size that all share is the width of its square matrices.
  bool ChildHasFewer(const Indices& members, size_t depth,
                     const Candidate& best, int nested) const {
    for (const auto& [part, child] : ChildrenOf(members, depth)) {
      if (child.size() < 2 || child.size() == members.size()) continue;
      for (const Candidate& one : CandidatesOf(child)) {
        if (one.size < best.size && one.dim != best.dim &&
            Judge(child, depth + 1, one, nested).confidence) {
          return true;
        }
      }
    }
    return false;
  }

  // Of parameters that stand next to others, those that share a size with a
  // norm at one position.
  void TakeMost(const Indices& left, size_t depth) {
    std::map<std::pair<int64_t, int>, Indices> by_size;
    for (const uint32_t i : left) {
      const Shape& shape = members_[i].shape;
      const int rank = static_cast<int>(shape.size());
      for (int dim = 0; dim < std::min(rank, 2); ++dim) {
        if (axis_.dim && *axis_.dim != dim) continue;
        by_size[{SizeAt(shape, dim), dim}].push_back(i);
      }
    }
    for (const auto& [key, members] : by_size) {
      const Candidate one = {key.second, key.first};
      if (members.size() < kLeastFlat || 2 * members.size() < left.size()) {
        continue;
      }
      const Signs signs = SignsOf(members, one);
      const Verdict verdict = Judge(members, depth, one, 0);
      if (!verdict.confidence || (!signs.norm && !axis_.dim) ||
          signs.matrices < 2) {
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
      Member& member = members_[i];
      const int at = FromFront(member.shape, one.dim);
      out_.dims[i].push_back({member.dims[AsIndex(at)], stack});
      member.shape.erase(member.shape.begin() + at);
      member.dims.erase(member.dims.begin() + at);
      member.stacked = true;
      if (member.shape.empty()) member.shape = {1};
      if (member.dims.empty()) member.dims = {0};
    }
  }

  char separator_;
  std::optional<int64_t> layers_;
  ScanAxis axis_;
  std::vector<Member> members_;
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

}  // namespace shardc
