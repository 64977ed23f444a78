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
// layers has its role in all layers.
#include "step/roles.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "match/match.h"
#include "source/finding.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::step {
std::string DimText(const DescribedDim& dim) {
  std::string out;
  for (const auto& parts : dim.factors) {
    const std::string names = Join(parts, "+");
    AppendItem(out, " ", parts.size() > 1 ? "(" + names + ")" : names);
  }
  return out;
}

namespace {

// Checks the roles of a model's tensors. The shape of every tensor is compared
// with the sizes of its role's dimensions, and every layer with the roles that
// it needs. Roles that no op uses are reported too. Examples of problems:
//
//   `layers.0.q` is [4096, 1024], but [n h, d] is [4096, 4096]
//   layer 3 has no `k`
//   no op takes the role `extra`

void AddNames(const DescribedLine& line,
              std::set<std::string, std::less<>>& used) {
  for (const DescribedArgument& argument : line.arguments) {
    for (const std::string& name : argument.names) {
      used.insert(name);
      used.insert(name + ".bias");
    }
  }
}

// Returns the names of the roles that are used. A role is used if a line of
// the description reads it, if it replaces a missing role (`tied`), or if it is
// the bias with which routers choose experts.
std::set<std::string, std::less<>> UsedNames(
    const ModelDescription& description) {
  std::set<std::string, std::less<>> used;
  for (const DescribedStack& stack : description.stacks) {
    for (const auto* lines : {&stack.begin, &stack.layer, &stack.end}) {
      for (const DescribedLine& line : *lines) AddNames(line, used);
    }
  }
  for (const DescribedRole& role : description.roles) {
    if (used.contains(role.name) && !role.tied.empty()) used.insert(role.tied);
  }
  if (const auto* correction = description.Setting("router.correction")) {
    used.insert(correction->text);
  }
  return used;
}

class RoleChecker {
 public:
  explicit RoleChecker(RoleTree& tree) : tree_(tree) {}

  void Run() {
    CheckShapes();
    CheckMissing();
    CheckUnused();
  }

 private:
  int64_t SizeOf(const std::string& name) const {
    for (size_t i = 0; i < tree_.description.dims.size(); ++i) {
      if (tree_.description.dims[i].first == name) return tree_.roles.sizes[i];
    }
    return 0;
  }

  // Returns the size of a stored dimension, which is a product of sums such as
  // (n h) or (q+k+v). Returns 0 if the size of one of these names is unknown or
  // if the product is too large.
  int64_t SizeOf(const DescribedDim& dim) const {
    int64_t product = 1;
    for (const auto& parts : dim.factors) {
      int64_t sum = 0;
      for (const std::string& part : parts) {
        const int64_t size = SizeOf(part);
        if (size == 0) return 0;
        sum += size;
      }
      const auto next = CheckedMul(product, sum);
      if (!next) return 0;
      product = *next;
    }
    return product;
  }

  void CheckShapes() {
    std::vector<Shape> expected(tree_.role_count());
    for (size_t role = 0; role < tree_.role_count(); ++role) {
      for (const DescribedDim& dim : tree_.Stored(static_cast<int32_t>(role))) {
        expected[role].push_back(SizeOf(dim));
      }
    }
    for (size_t i = 0; i < tree_.roles.tensors.size(); ++i) {
      const int32_t role = tree_.roles.tensors[i].role;
      if (role < 0) continue;
      const auto shape = tree_.LayerShapeOf(static_cast<int64_t>(i));
      if (!shape) continue;
      const int dim = tree_.roles.tensors[i].stack_dim;
      if (dim >= 0) CheckStack(i, dim);
      if (*shape == expected[AsIndex(role)]) continue;
      CheckShape(static_cast<int64_t>(i), role, *shape,
                 expected[AsIndex(role)]);
    }
  }

  void CheckStack(size_t tensor, int dim) {
    const int32_t role = tree_.roles.tensors[tensor].role;
    const size_t stack = tree_.StackOf(role);
    const int64_t layers =
        tree_.roles.stack_layers[stack] - tree_.leading[stack];
    const auto index = static_cast<int64_t>(tensor);
    if ((*tree_.ShapeOf(index))[AsIndex(dim)] == layers) return;
    tree_.ProblemOf(
        RoleFault::kShape, index, role,
        "is " + ShapeText(*tree_.ShapeOf(index)) +
            " without a dimension of the model's " + std::to_string(layers) +
            (tree_.leading[stack] > 0 ? " scanned" : "") + " layers");
  }

  void CheckShape(int64_t tensor, int32_t role, const Shape& shape,
                  const Shape& expected) {
    std::string said;
    for (const DescribedDim& dim : tree_.Stored(role)) {
      said += (said.empty() ? "[" : ", ") + DimText(dim);
    }
    const bool stacked = tree_.roles.tensors[AsIndex(tensor)].stack_dim >= 0;
    const std::string has =
        "is " + ShapeText(shape) + (stacked ? " in a layer" : "");
    // An expected size is 0 if it is unknown. Without a config.json, the number
    // of heads and the size of a head are unknown if every tensor has only
    // their product. With the config.json of another family, a key that the
    // description reads may be absent.
    if (IsAmong(0, expected)) {
      const std::string why = tree_.formulas.has_config()
                                  ? ", and the model's config.json does not "
                                    "give all sizes of "
                                  : ", and without the model's config.json not "
                                    "all sizes of ";
      tree_.ProblemOf(RoleFault::kShape, tensor, role,
                      has + why + said +
                          (tree_.formulas.has_config() ? "]" : "] are known"));
      return;
    }
    tree_.ProblemOf(RoleFault::kShape, tensor, role,
                    has + ", but " + said + "] is " + ShapeText(expected));
  }

  void CheckMissing() {
    for (size_t role = 0; role < tree_.role_count(); ++role) {
      const DescribedRole& described = tree_.description.roles[role];
      if (!tree_.roles.exists[role]) continue;
      const size_t stack = described.stack;
      const int64_t layers =
          tree_.roles.in_layers[role] ? tree_.roles.stack_layers[stack] : 1;
      const int64_t begin =
          tree_.roles.in_layers[role] ? tree_.roles.BeginOf(stack) : 0;
      const int64_t experts =
          tree_.roles.by_expert[role] ? tree_.Experts(role) : 0;
      for (int64_t layer = begin; layer < begin + layers; ++layer) {
        const auto& rows =
            tree_.roles
                .rows[role * AsIndex(tree_.roles.layers) + AsIndex(layer)];
        const bool hole =
            IsAmong(-1, rows) ||
            (!rows.empty() && static_cast<int64_t>(rows.size()) < experts);
        if (!hole && (!rows.empty() || described.optional)) continue;
        if (rows.empty() && !tree_.ExistsIn(role, layer - begin)) continue;
        std::string where;
        if (tree_.roles.in_layers[role]) {
          where = (stack == 0 ? "layer " : "the encoder's layer ") +
                  std::to_string(layer - begin);
        }
        tree_.Problem(RoleFault::kMissing, -1, static_cast<int32_t>(role),
                      (where.empty() ? "the tree" : where) + " has " +
                          (hole ? "not every expert's" : "no") + " `" +
                          described.name + "`");
        break;
      }
    }
  }

  void CheckUnused() {
    const auto used = UsedNames(tree_.description);
    for (size_t role = 0; role < tree_.role_count(); ++role) {
      const std::string& name = tree_.description.roles[role].name;
      if (used.contains(name) || tree_.FirstTensor(role) < 0) continue;
      tree_.Problem(RoleFault::kUnused, tree_.FirstTensor(role),
                    static_cast<int32_t>(role),
                    "no op takes the role `" + name + "`");
    }
  }

  RoleTree& tree_;
};

// Appends the problems that it finds to `tree.roles.problems`. The rows of the
// manifest for each role, and the sizes of dimensions, must already be known.
void CheckRoles(RoleTree& tree) { RoleChecker(tree).Run(); }

}  // namespace

// Finds the roles of tensors that hold the parameters of all scanned layers. A
// scan over layers stacks the parameters of a role in one tensor. The tensor's
// name has no layer number, and its shape has an additional dimension that
// counts the layers. The position of this dimension depends on the model. For
// example, with 32 layers:
//
//   layers/$i/self_attn/q_proj/kernel [d, n h]
//     ->  layers/self_attn/q_proj/kernel        [32, 4096, 4096]
//         layers/block/self_attn/q_proj/kernel  [4096, 32, 4096]

struct RoleTree;

namespace {

// Returns the size of a dimension according to the configuration; 0 if the size
// is unknown.
int64_t KnownSize(const RoleTree& tree, const DescribedDim& dim) {
  if (!tree.formulas.has_config()) return 0;
  int64_t product = 1;
  for (const auto& parts : dim.factors) {
    int64_t sum = 0;
    for (const std::string& part : parts) {
      const auto size = tree.formulas.Dim(part);
      if (!size) return 0;
      sum += *size;
    }
    const auto next = CheckedMul(product, sum);
    if (!next) return 0;
    product = *next;
  }
  return product;
}

bool IsLayerShape(const Shape& shape, const Shape& known) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (known[d] != 0 && known[d] != shape[d]) return false;
  }
  return true;
}

// Returns the first dimension that has `layers` elements and whose removal
// leaves the shape of one layer's parameter. If there is no such dimension,
// returns the first dimension with `layers` elements, or else 0.
int StackDimOf(const Shape& shape, const Shape& known, int64_t layers) {
  std::optional<int> of_size;
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
    if (shape[AsIndex(dim)] != layers) continue;
    if (IsLayerShape(WithoutDim(shape, dim), known)) return dim;
    if (!of_size) of_size = dim;
  }
  return of_size.value_or(0);
}

// Returns the indices of the tensors that hold all scanned layers of a stack.
std::vector<size_t> ScannedOf(const RoleTree& tree, size_t stack) {
  std::vector<size_t> out;
  for (size_t i = 0; i < tree.roles.tensors.size(); ++i) {
    const TensorRole& at = tree.roles.tensors[i];
    if (at.stack_dim >= 0 && tree.StackOf(at.role) == stack) out.push_back(i);
  }
  return out;
}

const Shape& ShapeOf(const RoleTree& tree, size_t tensor) {
  return *tree.ShapeOf(static_cast<int64_t>(tensor));
}

}  // namespace

// Finds the roles of tensors that hold the parameters of all layers. The name
// of such a tensor is a name of the role without the layer's number, and the
// tensor has one more dimension. Reports errors and returns false if a pattern
// is invalid.
bool MatchScanned(RoleTree& tree, Findings& findings) {
  std::vector<size_t> tensors;
  std::vector<std::string_view> names;
  for (size_t i = 0; i < tree.roles.tensors.size(); ++i) {
    if (tree.roles.tensors[i].role != kNoRole) continue;
    tensors.push_back(i);
    names.push_back(tree.manifest.tensors[i].name);
  }
  if (names.empty()) return true;
  std::vector<Pattern> patterns;
  std::vector<RolePattern> made;
  // Maps the index of a pattern to the index of its role.
  std::vector<size_t> role_of;
  for (size_t role = 0; role < tree.role_count(); ++role) {
    const DescribedText& text = tree.description.roles[role].pattern;
    const char separator = tree.description.separator;
    const std::string scanned = ScannedPattern(text.text, separator);
    if (!tree.roles.exists[role] || scanned.empty()) continue;
    made.push_back(MakePattern(scanned));
    patterns.push_back({made.back().text, text.place, separator});
    role_of.push_back(role);
  }
  if (patterns.empty()) return true;
  const auto matcher = Matcher::Compile(patterns, findings);
  if (!matcher) return false;
  const Matches matches = matcher->Match(names, tree.manifest.separator);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = matches.Of(i);
    if (found.empty()) continue;
    const auto role = static_cast<int32_t>(role_of[found[0]]);
    const Shape* const shape = tree.ShapeOf(static_cast<int64_t>(tensors[i]));
    const size_t rank = tree.Stored(role).size() + 1;
    if (shape == nullptr || shape->size() != rank) continue;
    TensorRole& at = tree.roles.tensors[tensors[i]];
    at.role = role;
    at.expert = NumbersIn(*matcher, found[0], made[found[0]], names[i],
                          tree.manifest.separator)
                    .expert;
    // The dimension is found later, when the number of layers is known.
    at.stack_dim = 0;
  }
  return true;
}

// Finds further tensors that hold the parameters of scanned layers: those that
// a role's pattern matches without a layer's number, such as `tower/q` of
// `(block_$i|tower)/q`, if they have one more dimension than the role. Sets
// `tree.leading` to the number of layers with numbers before them: 1 if the
// tree also has `block_0/q`. Removes the role of a tensor that should have a
// layer's number and has none.
void FindTowers(RoleTree& tree) {
  Roles& roles = tree.roles;
  std::vector<std::set<std::string_view>> read(tree.description.stacks.size());
  for (size_t stack = 0; stack < read.size(); ++stack) {
    for (const DescribedLine& line : tree.description.stacks[stack].layer) {
      for (const DescribedArgument& argument : line.arguments) {
        read[stack].insert(argument.names.begin(), argument.names.end());
      }
    }
  }
  std::vector<bool> has_tower(read.size());
  for (size_t i = 0; i < roles.tensors.size(); ++i) {
    TensorRole& at = roles.tensors[i];
    if (at.role < 0 || at.layer >= 0 || at.stack_dim >= 0) continue;
    const size_t stack = tree.StackOf(at.role);
    const std::string_view name = tree.description.roles[AsIndex(at.role)].name;
    const Shape* const shape = tree.ShapeOf(static_cast<int64_t>(i));
    if (!read[stack].contains(name.substr(0, name.find('.'))) ||
        shape == nullptr || shape->size() != tree.Stored(at.role).size() + 1) {
      continue;
    }
    at.stack_dim = 0;
    roles.in_layers[AsIndex(at.role)] = true;
    has_tower[stack] = true;
  }
  tree.leading.assign(read.size(), 0);
  for (TensorRole& at : roles.tensors) {
    if (at.role < 0 || at.stack_dim >= 0 || !roles.InLayers(at.role)) continue;
    const size_t stack = tree.StackOf(at.role);
    if (at.layer < 0) {
      at.role = kNoRole;
    } else if (has_tower[stack]) {
      tree.leading[stack] =
          std::max(tree.leading[stack], int64_t{at.layer} + 1);
    }
  }
}

// Returns the number of layers of a stack's scanned tensors: the size of the
// first dimension that has the same size in all of these tensors. Returns
// nullopt if there is no such dimension.
std::optional<int64_t> ScannedLayers(const RoleTree& tree, size_t stack) {
  const std::vector<size_t> scanned = ScannedOf(tree, stack);
  if (scanned.empty()) return std::nullopt;
  const Shape& first = ShapeOf(tree, scanned.front());
  for (size_t d = 0; d < first.size(); ++d) {
    const bool all =
        std::all_of(scanned.begin(), scanned.end(), [&](size_t tensor) {
          const Shape& shape = ShapeOf(tree, tensor);
          return d < shape.size() && shape[d] == first[d];
        });
    if (all) return first[d];
  }
  return std::nullopt;
}

// Sets the dimension that counts the layers in each scanned tensor of a stack.
// It is the first dimension of size `layers` whose removal leaves the shape of
// one layer's parameter. If there is no such dimension, it is the first
// dimension of size `layers`, or else dimension 0.
void FindStackDims(RoleTree& tree, size_t stack, int64_t layers) {
  for (const size_t tensor : ScannedOf(tree, stack)) {
    TensorRole& at = tree.roles.tensors[tensor];
    Shape known;
    for (const DescribedDim& dim : tree.Stored(at.role)) {
      known.push_back(KnownSize(tree, dim));
    }
    at.stack_dim = StackDimOf(ShapeOf(tree, tensor), known, layers);
  }
}

// Adds each scanned tensor to the rows of its role in every layer of its stack
// except the leading ones. If the role already has a tensor in the first of
// these layers, the scanned tensor is not added, and a problem (kTwo) is added
// instead. The tensors of single experts are always added.
void GatherScanned(RoleTree& tree) {
  Roles& roles = tree.roles;
  for (size_t i = 0; i < roles.tensors.size(); ++i) {
    const TensorRole& at = roles.tensors[i];
    if (at.stack_dim < 0) continue;
    const size_t stack = tree.StackOf(at.role);
    const auto begin = static_cast<int32_t>(roles.BeginOf(stack));
    const auto first = static_cast<int32_t>(begin + tree.leading[stack]);
    if (tree.leading[stack] >= roles.stack_layers[stack]) continue;
    if (at.expert < 0 && !roles.RowsOf(at.role, first).empty()) {
      tree.ProblemOf(
          RoleFault::kTwo, static_cast<int64_t>(i), at.role,
          "holds `" + tree.description.roles[AsIndex(at.role)].name +
              "` of all layers, and another parameter is that of a layer");
      continue;
    }
    for (int64_t layer = tree.leading[stack]; layer < roles.stack_layers[stack];
         ++layer) {
      tree.AddRow(i, begin + layer);
    }
  }
}

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
      const NameNumbers numbers =
          NumbersIn(*matcher, found[0], made[role_of[found[0]]], names[i],
                    manifest_.separator);
      at.layer = numbers.layer;
      at.expert = numbers.expert;
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

// Replaces `$i` and `$e` in a pattern by groups of digits. RE2 numbers the
// groups of a pattern from left to right, so the other groups of the pattern
// are counted as well:
//
//   (model\.)?layers\.$i\.w1  ->  (model\.)?layers\.(\d+)\.w1, $i is group 2

namespace {

// The largest number of a group in a rewrite of RE2.
constexpr int kMostGroups = 9;

}  // namespace

RolePattern MakePattern(const std::string& text) {
  RolePattern out;
  int groups = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      out.text += text.substr(i++, 2);
      continue;
    }
    const char next = i + 1 < text.size() ? text[i + 1] : ' ';
    if (text[i] == '$' && (next == 'i' || next == 'e')) {
      out.text += "(\\d+)";
      (next == 'i' ? out.layer_group : out.expert_group) = ++groups;
      ++i;
      continue;
    }
    if (text[i] == '(' && next != '?') ++groups;
    out.text += text[i];
  }
  return out;
}

std::string ScannedPattern(const std::string& pattern, char separator) {
  const bool dotted = separator == '.';
  const std::string_view part = dotted ? "$i\\." : "$i/";
  const size_t at = pattern.find(part);
  if (at == std::string::npos) return "";
  const std::string other = dotted ? "[^.]" : "[^/]";
  const std::string word = dotted ? "[^.0-9]" : "[^/0-9]";
  std::string between = "(?:";
  between += other + "*" + word + other + "*" + std::string(part.substr(2));
  between += ")?";
  return pattern.substr(0, at) + between + pattern.substr(at + part.size());
}

NameNumbers NumbersIn(const Matcher& matcher, size_t index,
                      const RolePattern& made, std::string_view name,
                      char separator) {
  const auto group = [](int number) {
    return number == 0 || number > kMostGroups ? std::string()
                                               : "\\" + std::to_string(number);
  };
  const std::string groups =
      group(made.layer_group) + "," + group(made.expert_group);
  NameNumbers out;
  if (groups == ",") return out;
  const auto text = matcher.Rewrite(index, name, separator, groups);
  if (!text) return out;
  const auto read = [&](size_t begin, size_t end, int32_t& value) {
    const auto done =
        std::from_chars(text->data() + begin, text->data() + end, value);
    if (done.ec == std::errc::result_out_of_range) value = INT32_MAX;
  };
  const size_t comma = text->find(',');
  read(0, comma, out.layer);
  read(comma + 1, text->size(), out.expert);
  return out;
}

}  // namespace shardc::step
