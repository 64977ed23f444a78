// Finds what each parameter group does. The words of a name suggest a role.
// Words that other frameworks use with another meaning need shapes that agree
// (facts/siblings.h). Sizes then correct single words, and show the orientation
// of matrices (roles/orientation.h). For example:
//
//   layers.*.attn.to_q.weight [4096, 4096], to_out.weight [4096, 4096]
//     ->  query and output projection, by a likely word and shapes
//   layers.*.mlp.w12.weight [8192, 1024], w3.weight [1024, 4096]
//     ->  `w3` is the down projection, and not the up projection as usual
#include "facts/parameters.h"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "facts/family_words.h"
#include "facts/name_groups.h"
#include "facts/neighbours.h"
#include "facts/siblings.h"
#include "facts/strange_names.h"
#include "model/name.h"
#include "roles/orientation.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::facts {

class Finder {
 public:
  explicit Finder(const ParameterInputs& inputs) : in_(inputs) {}

  ParameterTable Find() {
    FindGroups();
    FindStacks();
    FindRoles();
    FindDownProjections();
    UseSection();
    UseFamily();
    UseNeighbours();
    OrientGroups();
    return std::move(out_);
  }

 private:
  const TensorType& TypeOf(const Group& group) const {
    return in_.types[group.type];
  }
  const Shape* ShapeOf(const Group& group) const {
    const auto& shape = TypeOf(group).shape;
    return shape ? &*shape : nullptr;
  }

  void FindGroups() {
    // `kind` is a number for the type and the use in the section.
    std::map<std::pair<uint32_t, step::RoleUse>, uint32_t> kinds;
    LastGroups last(in_.separator);
    // The groups by the hash of the name, and the kind of each group.
    std::unordered_multimap<size_t, uint32_t> ids;
    std::vector<uint32_t> kind_of;
    std::string folded;
    out_.group_of.resize(in_.tensors.size());
    for (size_t i = 0; i < in_.tensors.size(); ++i) {
      const auto& [name, type] = in_.tensors[i];
      uint32_t kind = type;
      if (!in_.uses.empty()) {
        const auto next = static_cast<uint32_t>(kinds.size());
        kind = kinds.try_emplace({type, in_.uses[i]}, next).first->second;
      }
      if (const auto known = last.Find(name, kind)) {
        out_.group_of[i] = *known;
        ++out_.groups[*known].count;
        continue;
      }
      folded.clear();
      AppendTemplate(name, in_.separator, folded);
      const size_t hash = std::hash<std::string>()(folded);
      auto [at, end] = ids.equal_range(hash);
      at = std::find_if(at, end, [&](const auto& one) {
        return kind_of[one.second] == kind &&
               out_.groups[one.second].name == folded;
      });
      if (at == end) {
        at = ids.emplace(hash, static_cast<uint32_t>(out_.groups.size()));
        Group group;
        group.name = folded;
        group.type = type;
        group.first = static_cast<uint32_t>(i);
        out_.groups.push_back(std::move(group));
        kind_of.push_back(kind);
      }
      out_.group_of[i] = at->second;
      ++out_.groups[at->second].count;
      last.Keep(name, kind, at->second);
    }
  }

  // Classifies the names, and finds the dimensions that count layers by them.
  void FindStacks() {
    std::vector<StackCandidate> candidates;
    candidates.reserve(out_.groups.size());
    for (Group& group : out_.groups) {
      const Shape* const shape = ShapeOf(group);
      group.role_ =
          Classify(group.name, in_.separator, Confidence::kLikely,
                   shape == nullptr ? -1 : static_cast<int>(shape->size()));
      candidates.push_back(
          {.name = group.name, .shape = shape, .role = &group.role_});
    }
    out_.stacks = FindLayerStacks(
        candidates, in_.separator,
        in_.config == nullptr ? std::optional<int64_t>() : in_.config->layers);
  }

  std::vector<int> Unscanned(size_t g) const {
    const Shape* const shape = ShapeOf(out_.groups[g]);
    return shape == nullptr
               ? std::vector<int>()
               : UnscannedDims(*shape, out_.stacks, out_.stacks.dims[g]);
  }

  void FindRoles() {
    std::vector<Sibling> siblings;
    for (size_t g = 0; g < out_.groups.size(); ++g) {
      Group& group = out_.groups[g];
      const Shape* const shape = ShapeOf(group);
      const std::vector<int> dims = Unscanned(g);
      Shape sizes;
      for (const int dim : dims) sizes.push_back((*shape)[AsIndex(dim)]);
      group.sure_ = Classify(group.name, in_.separator);
      if (shape != nullptr && dims.size() < shape->size()) {
        group.role_ = Classify(group.name, in_.separator, Confidence::kLikely,
                               static_cast<int>(dims.size()));
      }
      const bool sure = group.sure_->module_role != Role::kOther;
      const bool layered = group.name.find('*') != group.name.npos ||
                           (shape != nullptr && dims.size() < shape->size());
      if (!sure) {
        const int rank =
            shape == nullptr ? -1 : static_cast<int>(shape->size());
        UseFamilyWord(group.name, in_.separator, rank, group.role_);
      }
      group.evidence = sure ? Evidence::kSureWord
                       : group.role_.module_role == Role::kOther
                           ? Evidence::kNone
                           : Evidence::kLikelyWord;
      siblings.push_back({.role = &group.role_,
                          .sure = sure,
                          .layered = layered,
                          .sizes = std::move(sizes),
                          .dtype = TypeOf(group).dtype,
                          .count = group.count});
    }
    KnownSizes known;
    if (in_.config != nullptr) {
      known = {.vocabulary = in_.config->vocab, .experts = in_.config->experts};
    }
    const std::vector<bool> confirmed = ConfirmedBySiblings(siblings, known);
    for (size_t g = 0; g < out_.groups.size(); ++g) {
      Group& group = out_.groups[g];
      if (group.evidence == Evidence::kLikelyWord && confirmed[g] &&
          group.role_.leaf == group.sure_->leaf) {
        group.evidence = Evidence::kShapes;
      }
      if (group.evidence == Evidence::kSureWord) group.sure_.reset();
    }
  }

  // Calls change(role) for the role by all evidence and the role by sure words
  // of a group.
  template <class Change>
  static void ForRoles(Group& group, const Change& change) {
    change(group.role_);
    if (group.sure_) change(*group.sure_);
  }

  // Corrects the role of `w3`, the up projection of blocks with `w1` and `w2`.
  // In other blocks it follows a matrix that holds gate and up, which is twice
  // as wide as the inner size that `w3` reads. It is then the down projection:
  //
  //   w12 [2 * inner, width], w3 [width, inner]
  void FindDownProjections() {
    const auto may_be = [&](const Group& group) {
      const Shape* const shape = ShapeOf(group);
      return group.role_.module_role == Role::kUp && IsWeight(group.role_) &&
             shape != nullptr && shape->size() >= 2;
    };
    if (!std::ranges::any_of(out_.groups, may_be)) return;
    // The last weight of each block, and the weight before each in its block.
    constexpr uint32_t kNone = UINT32_MAX;
    std::unordered_map<std::string_view, uint32_t> last;
    std::vector<uint32_t> before(out_.groups.size(), kNone);
    for (size_t g = 0; g < out_.groups.size(); ++g) {
      const ParameterRole& role = out_.groups[g].role_;
      if (!IsWeight(role)) continue;
      const auto [at, fresh] =
          last.try_emplace(role.block_path, static_cast<uint32_t>(g));
      if (fresh) continue;
      before[g] = std::exchange(at->second, static_cast<uint32_t>(g));
    }
    for (Group& group : out_.groups) {
      if (!may_be(group)) continue;
      const Shape* const shape = ShapeOf(group);
      bool follows = false;
      for (uint32_t other = last.at(group.role_.block_path); other != kNone;
           other = before[other]) {
        const Shape* const matrix = ShapeOf(out_.groups[other]);
        follows =
            follows || (&out_.groups[other] != &group && matrix != nullptr &&
                        HoldsGateAndUp(*matrix, *shape));
      }
      if (!follows) continue;
      ForRoles(group, [](ParameterRole& role) {
        if (role.module_role != Role::kUp) return;
        if (role.role == role.module_role) role.role = Role::kDown;
        role.module_role = Role::kDown;
      });
    }
  }

  // Returns whether a matrix is twice as wide as the inner size of a down
  // projection, in either orientation.
  static bool HoldsGateAndUp(const Shape& matrix, const Shape& down) {
    if (matrix.size() != down.size()) return false;
    Shape fused = down;
    const size_t last = fused.size() - 1;
    std::swap(fused[last - 1], fused[last]);
    Shape half = matrix;
    for (const size_t dim : {last - 1, last}) {
      if (half[dim] % 2 != 0) continue;
      half[dim] /= 2;
      if (half == fused && half[last - 1] != half[last]) return true;
      half[dim] *= 2;
    }
    return false;
  }

  // Finds the orientation of matrices by the widths of their stacks. Weak
  // evidence of a role shows no orientation.
  void OrientGroups() {
    std::vector<ShapedParameter> entries;
    entries.reserve(out_.groups.size());
    std::vector<Shape> shapes(out_.groups.size());
    for (size_t g = 0; g < out_.groups.size(); ++g) {
      const Group& group = out_.groups[g];
      const TensorType& type = TypeOf(group);
      const Shape* shape = ShapeOf(group);
      if (shape != nullptr && shape->size() > 2) {
        shapes[g] = LayersFirst(*shape, Unscanned(g));
        shape = &shapes[g];
      }
      entries.push_back({.name = group.name,
                         .role = &group.RoleBy(Evidence::kShapes),
                         .shape = shape,
                         .count = group.count,
                         .packed = type.dtype && MayPack(*type.dtype)});
    }
    const Widths widths(
        entries, in_.config == nullptr ? std::nullopt : in_.config->hidden);
    const auto found = OrientationsOf(entries, widths);
    // Of the names that have a number.
    std::unordered_map<std::string_view, int> matrices;
    for (const ShapedParameter& entry : entries) {
      const std::string_view stack = StackOf(entry.name);
      if (entry.shape != nullptr && entry.shape->size() > 1 &&
          stack.size() < entry.name.size()) {
        ++matrices[stack];
      }
    }
    for (size_t g = 0; g < out_.groups.size(); ++g) {
      if (!found[g]) continue;
      const Group& group = out_.groups[g];
      // The sizes of the only matrix of numbered layers do not show which of
      // them is the width, unless the configuration does.
      const std::string_view stack = StackOf(group.name);
      const bool alone = stack.size() < group.name.size() &&
                         matrices[stack] == 1 && group.role_.in_first &&
                         (in_.config == nullptr || !in_.config->hidden);
      // Its own sizes show the orientation of a matrix, and those of other
      // matrices that of a square one, unless the section states it. A matrix
      // may be stored unlike the others: its own sizes then confirm what the
      // section states.
      const Shape& shape = *entries[g].shape;
      const bool square = shape[shape.size() - 2] == shape.back();
      const auto stated = StatedOrientation(group);
      if (alone || (stated && (square || OrientationBySizes(
                                             entries[g], widths) == stated))) {
        continue;
      }
      ForRoles(out_.groups[g],
               [&](ParameterRole& role) { role.in_first = found[g]; });
    }
  }

  // Returns the part of a name before its first number; the name if it has
  // none.
  static std::string_view StackOf(std::string_view name) {
    return name.substr(0, std::min(name.find('*'), name.size()));
  }

  // Takes the roles that the description of the family shows, where names show
  // none or others.
  void UseFamily() {
    if (in_.family == nullptr) return;
    const std::vector<bool> strange =
        StrangeGroups(out_, in_.types, in_.separator);
    for (size_t g = 0; g < out_.groups.size(); ++g) {
      Group& group = out_.groups[g];
      const Shape* const shape = ShapeOf(group);
      if (shape == nullptr || group.evidence == Evidence::kSection) continue;
      const auto* const param =
          in_.family->Find(in_.tensors[group.first].name, *shape);
      if (param == nullptr) continue;
      const Role words = strange[g] ? Role::kOther : group.role_.role;
      const Role named =
          words == group.role_.module_role ? words : Role::kOther;
      // An adapter, a bias or a scale is not the weight of its module.
      if (named == Role::kOther && words != Role::kOther &&
          words != Role::kVector) {
        continue;
      }
      const Role shown = in_.family->RoleOf(*param, named);
      const bool vector = shown == Role::kNorm || shown == Role::kBias;
      if (shown == named || (vector && !strange[g])) continue;
      ParameterRole& role = group.role_;
      if (strange[g]) ForgetWords(role);
      group.evidence = Evidence::kFamily;
      group.sure_.reset();
      if (shown == Role::kBias) {
        role.role = shown;
        role.leaf = Leaf::kBias;
        continue;
      }
      role.role = role.module_role = shown;
      role.confidence = Confidence::kSure;
      role.attention = IsAttention(shown);
      role.expert = role.expert || (!IsNorm(shown) && shape->size() > 2);
      role.shared_expert = in_.family->IsShared(*param);
    }
  }

  // Takes from a role what words of the name show, and keeps the paths.
  static void ForgetWords(ParameterRole& role) {
    ParameterRole unknown;
    unknown.sibling_path = std::move(role.sibling_path);
    unknown.module_path = std::move(role.module_path);
    unknown.block_path = std::move(role.block_path);
    role = std::move(unknown);
  }

  // Corrects the roles by all evidence. A role by sure words, where there is
  // one of its own, is corrected as well if it was the same.
  void UseNeighbours() {
    std::vector<Neighbour> groups;
    groups.reserve(out_.groups.size());
    std::vector<Role> before;
    before.reserve(out_.groups.size());
    // The role of adapters, which are no projections of their modules.
    ParameterRole unknown;
    for (size_t g = 0; g < out_.groups.size(); ++g) {
      Group& group = out_.groups[g];
      const bool adapter = IsAdapter(group.role_.role);
      before.push_back(group.role_.module_role);
      Neighbour& one = groups.emplace_back();
      one.name = group.name;
      one.shape = ShapeOf(group);
      one.count = group.count;
      one.stated = group.evidence == Evidence::kSection;
      one.role = adapter ? &unknown : &group.role_;
      one.mixes = &group.mixes;
      if (one.shape != nullptr) SetSizes(g, one);
    }
    StatedSizes stated;
    if (in_.config != nullptr) {
      stated = {.hidden = in_.config->hidden,
                .vocabulary = in_.config->vocab,
                .experts = in_.config->experts};
    }
    CorrectByNeighbours(groups, in_.separator, stated);
    for (size_t g = 0; g < out_.groups.size(); ++g) {
      Group& group = out_.groups[g];
      const ParameterRole& now = group.role_;
      if (group.evidence == Evidence::kNone &&
          now.module_role != Role::kOther) {
        group.evidence = Evidence::kShapes;
      }
      if (!group.sure_ || IsAdapter(now.role)) continue;
      ParameterRole& sure = *group.sure_;
      if (sure.module_role == before[g]) {
        sure.role = now.role;
        sure.module_role = now.module_role;
        sure.attention = now.attention;
      }
      sure.expert = now.expert;
      sure.counted_expert = now.counted_expert;
      sure.shared_expert = now.shared_expert;
    }
  }

  // Sets the rank and the first sizes without dimensions that count layers.
  void SetSizes(size_t g, Neighbour& out) const {
    const auto add = [&](int64_t size) {
      if (AsIndex(out.rank) < out.sizes.size()) {
        out.sizes[AsIndex(out.rank)] = size;
      }
      ++out.rank;
    };
    if (out_.stacks.dims[g].empty()) {
      for (const int64_t size : *out.shape) add(size);
      return;
    }
    for (const int dim : Unscanned(g)) add((*out.shape)[AsIndex(dim)]);
  }

  // Takes the roles that the section shows. They take precedence over names.
  void UseSection() {
    if (in_.uses.empty()) return;
    for (Group& group : out_.groups) {
      const step::RoleUse& use = in_.uses[group.first];
      group.skipped = use.skipped;
      if (!use.IsKnown() || use.skipped) continue;
      group.evidence = Evidence::kSection;
      group.sure_.reset();
      ParameterRole& role = group.role_;
      role.role = use.role;
      role.module_role = use.module_role;
      role.confidence = Confidence::kSure;
      role.attention = use.attention;
      role.expert = use.expert;
      role.counted_expert = use.expert && use.counted_expert;
      role.shared_expert = use.shared_expert;
      if (use.role == Role::kBias) {
        role.leaf = Leaf::kBias;
      } else if (!IsWeight(role)) {
        role.leaf = Leaf::kWeight;
      }
      if (const auto stated = StatedOrientation(group)) {
        role.in_first = stated;
      }
    }
  }

  // Returns the orientation that the section states; nullopt if it states none.
  // That of a table follows from its sizes, because a step may both look up
  // its rows and multiply with it.
  std::optional<bool> StatedOrientation(const Group& group) const {
    if (in_.uses.empty()) return std::nullopt;
    const step::RoleUse& use = in_.uses[group.first];
    if (!use.IsKnown() || use.skipped || use.in <= 0 ||
        use.module_role == Role::kEmbedding) {
      return std::nullopt;
    }
    return use.in > use.out;
  }

  // Returns the sizes of a shape, those that count layers first.
  static Shape LayersFirst(const Shape& shape, const std::vector<int>& last) {
    Shape out;
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      if (!IsAmong(dim, last)) out.push_back(shape[AsIndex(dim)]);
    }
    for (const int dim : last) out.push_back(shape[AsIndex(dim)]);
    return out;
  }

  const ParameterInputs& in_;
  ParameterTable out_;
};

std::string_view EvidenceText(Evidence evidence) {
  switch (evidence) {
    case Evidence::kNone:
      return "nothing shows it";
    case Evidence::kLikelyWord:
      return "by a word of its name that also has other meanings";
    case Evidence::kShapes:
      return "by its name and the shapes of its block";
    case Evidence::kSureWord:
      return "by its name";
    case Evidence::kFamily:
      return "by the description of the model's family";
    case Evidence::kSection:
      return "by the `model:` section";
  }
  return {};
}

std::string_view EvidenceWord(Evidence evidence) {
  switch (evidence) {
    case Evidence::kNone:
      return "none";
    case Evidence::kLikelyWord:
      return "likely_word";
    case Evidence::kShapes:
      return "shapes";
    case Evidence::kSureWord:
      return "word";
    case Evidence::kFamily:
      return "family";
    case Evidence::kSection:
      return "section";
  }
  return {};
}

ParameterTable FindParameters(const ParameterInputs& inputs) {
  return Finder(inputs).Find();
}

LayerStacks FindStacks(std::span<const NamedGroup> groups, char separator,
                       std::optional<int64_t> layers, const ScanAxis& axis) {
  std::vector<ParameterRole> roles;
  roles.reserve(groups.size());
  std::vector<StackCandidate> candidates;
  candidates.reserve(groups.size());
  for (const NamedGroup& group : groups) {
    roles.push_back(Classify(
        group.name, separator, Confidence::kLikely,
        group.shape == nullptr ? -1 : static_cast<int>(group.shape->size())));
    candidates.push_back(
        {.name = group.name, .shape = group.shape, .role = &roles.back()});
  }
  return FindLayerStacks(candidates, separator, layers, axis);
}

std::vector<bool> StrangeGroups(const ParameterTable& table,
                                std::span<const TensorType> types,
                                char separator) {
  std::vector<NamedShape> names;
  names.reserve(table.groups.size());
  for (const Group& group : table.groups) {
    const auto& shape = types[group.type].shape;
    names.push_back({group.name, shape ? &*shape : nullptr});
  }
  std::vector<bool> out = StrangeNames(names, separator);
  for (size_t g = 0; g < out.size(); ++g) {
    out[g] = out[g] && table.groups[g].evidence < Evidence::kFamily;
  }
  return out;
}

ParameterRole RoleOfModule(std::string_view name, char separator) {
  const std::string weight = std::string(name) + separator + "weight";
  return Classify(weight, separator);
}

std::vector<int> ParameterTable::ScannedDims(uint32_t group) const {
  std::vector<int> out;
  for (const ScannedDim& one : stacks.dims[group]) {
    if (stacks.stacks[one.stack].confidence == StackConfidence::kUndecided) {
      return {};
    }
    out.push_back(one.dim);
  }
  return out;
}

std::vector<int> UnscannedDims(const Shape& shape, const LayerStacks& stacks,
                               const std::vector<ScannedDim>& scanned) {
  std::vector<int> out;
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
    const bool layers =
        std::ranges::any_of(scanned, [&](const ScannedDim& one) {
          return one.dim == dim && stacks.stacks[one.stack].confidence !=
                                       StackConfidence::kUndecided;
        });
    if (!layers) out.push_back(dim);
  }
  return out;
}

TargetParameters::TargetParameters(const ParameterTable& whole, Texts names,
                                   Texts chosen) {
  std::call_once(once_, [&] {
    std::unordered_map<std::string_view, uint32_t> index;
    for (size_t i = 0; i < chosen.size(); ++i) {
      index.emplace(chosen[i], static_cast<uint32_t>(i));
    }
    table_.groups = whole.groups;
    table_.stacks = whole.stacks;
    table_.group_of.resize(chosen.size());
    for (size_t i = 0; i < names.size(); ++i) {
      const auto at = index.find(names[i]);
      if (at != index.end()) table_.group_of[at->second] = whole.group_of[i];
    }
  });
}

const ParameterTable& TargetParameters::Of(const Manifest& manifest,
                                           const ModelConfig* config,
                                           const DescribedRoles* family,
                                           const ModelDescription* section,
                                           step::ParameterUses& uses) {
  std::call_once(once_, [&] {
    std::span<const step::RoleUse> used;
    if (section != nullptr) {
      used = uses.Of(*section, NamesOf(manifest.tensors), manifest.separator);
    }
    table_ = FindParameters({.tensors = manifest.tensors,
                             .types = manifest.types,
                             .separator = manifest.separator,
                             .config = config,
                             .family = family,
                             .uses = used});
  });
  return table_;
}

const std::vector<bool>& TargetParameters::Strange(const Manifest& manifest) {
  std::call_once(strange_once_, [&] {
    strange_ = StrangeGroups(table_, manifest.types, manifest.separator);
  });
  return strange_;
}

}  // namespace shardc::facts
