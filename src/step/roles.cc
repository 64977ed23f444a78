// Finds the role of each tensor by its name. The patterns of all roles are
// matched at the same time. `$i` and `$e` match the numbers of a tensor's layer
// and expert:
//
//   q: ['layers\.$i\.self_attn\.q_proj\.weight$', [n h, d]]
//   model.layers.7.self_attn.q_proj.weight  ->  role q, layer 7
//
// Sizes are read from the configuration. Without a configuration they are
// inferred from shapes: a stored dimension with one unknown factor determines
// this factor. Then every shape is checked. A tensor that holds all scanned
// layers (scanned_roles.h) has its role in all layers.
#include "step/roles.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "match/match.h"
#include "source/checked.h"
#include "source/index.h"
#include "source/wording.h"
#include "step/role_checks.h"
#include "step/role_pattern.h"
#include "step/role_tree.h"
#include "step/scanned_roles.h"

namespace shardc::step {
namespace {

constexpr int64_t kMostLayers = 10000;

class Assigner {
 public:
  Assigner(const ModelDescription& description, Formulas& formulas,
           const Manifest& manifest, Findings& findings)
      : description_(description),
        formulas_(formulas),
        manifest_(manifest),
        findings_(findings),
        tree_{description, formulas, manifest} {}

  std::optional<Roles> Run() {
    if (!Match() || !MatchScanned(tree_, findings_)) return std::nullopt;
    FindTowers(tree_);
    if (!CountLayers()) return std::nullopt;
    LimitExperts();
    Gather();
    GatherScanned(tree_);
    if (!formulas_.has_config()) InferSizes();
    TakeSizes();
    CheckRoles(tree_);
    return std::move(out_);
  }

 private:
  bool Match() {
    std::vector<RolePattern> made;
    // Maps the index of a pattern to the index of its role.
    std::vector<size_t> role_of;
    for (const DescribedRole& role : description_.roles) {
      made.push_back(MakePattern(role.pattern.text));
      out_.in_layers.push_back(made.back().layer_group > 0);
      out_.by_expert.push_back(made.back().expert_group > 0);
      out_.exists.push_back(role.when.text.empty() || !formulas_.has_config() ||
                            formulas_.DependsOnLayer(role.when) ||
                            formulas_.Condition(role.when));
    }
    std::vector<Pattern> patterns;
    for (size_t i = 0; i < made.size(); ++i) {
      if (!out_.exists[i]) continue;
      role_of.push_back(i);
      patterns.push_back({made[i].text, description_.roles[i].pattern.place,
                          description_.separator});
    }
    for (const DescribedText& skip : description_.skip) {
      patterns.push_back({skip.text, skip.place, description_.separator});
    }
    const auto matcher = Matcher::Compile(patterns, findings_);
    if (!matcher) return false;
    std::vector<std::string_view> names;
    names.reserve(manifest_.tensors.size());
    for (const Tensor& tensor : manifest_.tensors) names.push_back(tensor.name);
    const Matches matches = matcher->Match(names, manifest_.separator);
    out_.tensors.resize(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      const auto found = matches.Of(i);
      TensorRole& at = out_.tensors[i];
      if (found.empty()) continue;
      if (found.back() >= role_of.size()) {
        at.role = kSkipped;
        continue;
      }
      if (found.size() > 1) {
        tree_.ProblemOf(
            RoleFault::kTwo, static_cast<int64_t>(i),
            static_cast<int32_t>(role_of[found[0]]),
            "is both `" + description_.roles[role_of[found[0]]].name +
                "` and `" + description_.roles[role_of[found[1]]].name + "`");
      }
      at.role = static_cast<int32_t>(role_of[found[0]]);
      const RolePattern& pattern = made[role_of[found[0]]];
      const auto number = [&](int group) {
        return NumberIn(*matcher, found[0], names[i], manifest_.separator,
                        group);
      };
      at.layer = number(pattern.layer_group);
      at.expert = number(pattern.expert_group);
    }
    return true;
  }

  bool IsInLayer(const TensorRole& at) const {
    return at.role >= 0 && out_.InLayers(at.role) && at.stack_dim < 0;
  }

  // Counts the layers of a stack. With a configuration, the description's
  // formula is evaluated. Without one, the number follows from the largest
  // layer number in a name and from the tensors of scanned layers. Reports an
  // error and returns false if there is no number from 1 to kMostLayers.
  bool CountStack(size_t stack) {
    const DescribedText& repeat = description_.stacks[stack].repeat;
    int64_t layers = 0;
    if (formulas_.has_config()) {
      const auto counted = formulas_.Integer(repeat);
      if (!counted) return false;
      layers = *counted;
    } else {
      for (const TensorRole& at : out_.tensors) {
        if (!IsInLayer(at) || tree_.StackOf(at.role) != stack) continue;
        layers = std::max<int64_t>(layers, int64_t{at.layer} + 1);
      }
      layers = std::max(layers, tree_.leading[stack] +
                                    ScannedLayers(tree_, stack).value_or(0));
    }
    FindStackDims(tree_, stack, layers - tree_.leading[stack]);
    out_.stack_layers.push_back(layers);
    out_.layers += layers;
    if (layers >= 1 && layers <= kMostLayers) return true;
    findings_.Add(code::kLimit, repeat.place,
                  "a model of " + std::to_string(layers) +
                      " layers is not one that can be built");
    return false;
  }

  // Counts the layers of all stacks. Tensors of layers beyond the last one do
  // not belong to the model, for example layers that predict additional tokens.
  bool CountLayers() {
    for (size_t stack = 0; stack < description_.stacks.size(); ++stack) {
      if (!CountStack(stack)) return false;
    }
    int64_t extra = 0;
    const auto* const more = description_.Setting("extra_layers");
    if (more != nullptr && formulas_.has_config()) {
      extra = static_cast<int64_t>(formulas_.Real(*more).value_or(0));
    }
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      TensorRole& at = out_.tensors[i];
      if (IsInLayer(at)) {
        const size_t stack = tree_.StackOf(at.role);
        const int64_t layers = out_.stack_layers[stack];
        if (at.layer >= layers) {
          at.role =
              stack == 0 && at.layer < layers + extra ? kSkipped : kNoRole;
        } else if (!tree_.ExistsIn(AsIndex(at.role), at.layer)) {
          at.role = kNoRole;
        } else {
          at.layer += static_cast<int32_t>(out_.BeginOf(stack));
        }
      }
      if (at.role != kNoRole) continue;
      tree_.ProblemOf(RoleFault::kNone, static_cast<int64_t>(i), kNoRole,
                      "has no role in the model's section");
    }
    return true;
  }

  // Removes the role of tensors whose expert's number is at least the limit,
  // and reports each of these tensors.
  void LimitExperts() {
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      TensorRole& at = out_.tensors[i];
      if (at.role < 0 || at.expert < kMostExperts) continue;
      at.role = kNoRole;
      at.stack_dim = -1;
      tree_.ProblemOf(RoleFault::kNone, static_cast<int64_t>(i), kNoRole,
                      "has an expert numbered above " +
                          CountText(kMostExperts - 1) +
                          ", the largest number that is supported");
    }
  }

  void Gather() {
    out_.rows.resize(tree_.role_count() * AsIndex(out_.layers));
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      const TensorRole& at = out_.tensors[i];
      if (at.role < 0 || at.stack_dim >= 0) continue;
      tree_.AddRow(i, out_.InLayers(at.role) ? at.layer : 0);
    }
  }

  // Infers sizes from one tensor of each role. A size that was found in one
  // tensor may determine a factor of another tensor, so the loop is repeated
  // until it finds no new size.
  void InferSizes() {
    bool learned = true;
    while (learned) {
      learned = false;
      for (size_t role = 0; role < tree_.role_count(); ++role) {
        const int64_t tensor = tree_.FirstTensor(role);
        const auto shape =
            tensor < 0 ? std::nullopt : tree_.LayerShapeOf(tensor);
        if (!shape) continue;
        const auto dims = tree_.Stored(static_cast<int32_t>(role));
        if (out_.by_expert[role] && !description_.roles[role].dims.empty()) {
          learned |=
              Learn(description_.roles[role].dims[0], tree_.Experts(role));
        }
        for (size_t d = 0; d < dims.size() && d < shape->size(); ++d) {
          learned |= Learn(dims[d], (*shape)[d]);
        }
      }
    }
  }

  // Sets the size of a factor of the dimension if it is the only unknown
  // factor. Returns whether a size was set.
  bool Learn(const DescribedDim& dim, int64_t size) {
    const std::string* unknown = nullptr;
    int64_t known = 1;
    for (const auto& parts : dim.factors) {
      int64_t sum = 0;
      for (const std::string& part : parts) {
        const auto is = formulas_.Known(part);
        if (is) {
          sum += *is;
        } else if (unknown != nullptr || parts.size() > 1) {
          return false;
        } else {
          unknown = &part;
        }
      }
      if (sum == 0) continue;
      const auto product = CheckedMul(known, sum);
      if (!product) return false;
      known = *product;
    }
    if (unknown == nullptr || size % known != 0 || size < known) return false;
    formulas_.SetDim(*unknown, size / known);
    return true;
  }

  void TakeSizes() {
    std::set<std::string, std::less<>> used;
    for (size_t role = 0; role < tree_.role_count(); ++role) {
      if (tree_.FirstTensor(role) < 0) continue;
      for (const DescribedDim& dim : description_.roles[role].dims) {
        for (const auto& parts : dim.factors) {
          used.insert(parts.begin(), parts.end());
        }
      }
    }
    for (const auto& [name, size] : description_.dims) {
      out_.sizes.push_back(used.contains(name) ? formulas_.Dim(name).value_or(0)
                                               : 0);
    }
  }

  const ModelDescription& description_;
  Formulas& formulas_;
  const Manifest& manifest_;
  Findings& findings_;
  RoleTree tree_;
  Roles& out_ = tree_.roles;
};

}  // namespace

std::optional<Roles> AssignRoles(const ModelDescription& description,
                                 Formulas& formulas, const Manifest& manifest,
                                 Findings& findings) {
  const size_t before = findings.errors();
  auto roles = Assigner(description, formulas, manifest, findings).Run();
  if (findings.errors() > before) return std::nullopt;
  return roles;
}

}  // namespace shardc::step
