// All patterns are matched in one go; a tensor's layer and expert are the
// numbers that `$i` and `$e` stand for:
//
//   q: ['layers\.$i\.self_attn\.q_proj\.weight$', [n h, d]]
//   model.layers.7.self_attn.q_proj.weight  ->  role q, layer 7
//
// Sizes come from the configuration. Without one they are inferred from shapes:
// a stored dimension with one unknown factor determines the factor. Then every
// shape is checked.
#include "step/roles.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "match/match.h"
#include "source/checked.h"
#include "source/index.h"

namespace shardc::step {
namespace {

constexpr int64_t kMostLayers = 10000;
constexpr int64_t kMostExperts = 100000;

// A role's pattern for RE2, and which groups are the layer and the expert.
struct RolePattern {
  std::string text;
  int layer_group = 0, expert_group = 0;  // 0: none
};

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

std::string Text(const DescribedDim& dim) {
  std::string out;
  for (const auto& parts : dim.factors) {
    if (!out.empty()) out += ' ';
    if (parts.size() > 1) out += '(';
    for (size_t i = 0; i < parts.size(); ++i) {
      out += (i > 0 ? "+" : "") + parts[i];
    }
    if (parts.size() > 1) out += ')';
  }
  return out;
}

void AddNames(const DescribedLine& line,
              std::set<std::string, std::less<>>& used) {
  for (const DescribedArgument& argument : line.arguments) {
    for (const std::string& name : argument.names) {
      used.insert(name);
      used.insert(name + ".bias");
    }
  }
}

// Returns the names that lines, tied roles and the router's correction use.
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

class Assigner {
 public:
  Assigner(const ModelDescription& description, Formulas& formulas,
           const Manifest& manifest, Findings& findings)
      : description_(description),
        formulas_(formulas),
        manifest_(manifest),
        findings_(findings) {}

  std::optional<Roles> Run() {
    if (!Match() || !CountLayers()) return std::nullopt;
    Gather();
    if (!formulas_.has_config()) InferSizes();
    TakeSizes();
    CheckShapes();
    CheckMissing();
    CheckUnused();
    return std::move(out_);
  }

 private:
  size_t roles() const { return description_.roles.size(); }

  void Problem(RoleFault fault, int64_t tensor, int32_t role,
               std::string message) {
    out_.problems.push_back({fault, tensor, role, std::move(message), {}});
  }
  void ProblemOf(RoleFault fault, int64_t tensor, int32_t role,
                 std::string predicate) {
    out_.problems.push_back({fault, tensor, role,
                             NameOf(tensor) + " " + predicate,
                             std::move(predicate)});
  }
  std::string NameOf(int64_t tensor) const {
    return "`" + std::string(manifest_.tensors[AsIndex(tensor)].name) + "`";
  }

  bool Match() {
    std::vector<RolePattern> made;
    std::vector<size_t> role_of;  // by pattern
    for (const DescribedRole& role : description_.roles) {
      made.push_back(MakePattern(role.pattern.text));
      out_.in_layers.push_back(made.back().layer_group > 0);
      out_.by_expert.push_back(made.back().expert_group > 0);
      out_.exists.push_back(role.when.text.empty() || !formulas_.has_config() ||
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
        ProblemOf(RoleFault::kTwo, static_cast<int64_t>(i),
                  static_cast<int32_t>(role_of[found[0]]),
                  "is both `" + description_.roles[role_of[found[0]]].name +
                      "` and `" + description_.roles[role_of[found[1]]].name +
                      "`");
      }
      at.role = static_cast<int32_t>(role_of[found[0]]);
      const RolePattern& pattern = made[role_of[found[0]]];
      const auto number = [&](int group) {
        return group == 0 ? -1 : Number(*matcher, found[0], names[i], group);
      };
      at.layer = number(pattern.layer_group);
      at.expert = number(pattern.expert_group);
    }
    return true;
  }

  int32_t Number(const Matcher& matcher, size_t pattern, std::string_view name,
                 int group) const {
    const auto text = matcher.Rewrite(pattern, name, manifest_.separator,
                                      group == 1 ? "\\1" : "\\2");
    int32_t value = -1;
    if (text) {
      std::from_chars(text->data(), text->data() + text->size(), value);
    }
    return value;
  }

  size_t StackOf(int32_t role) const {
    return description_.roles[AsIndex(role)].stack;
  }
  bool IsInLayer(const TensorRole& at) const {
    return at.role >= 0 && out_.InLayers(at.role);
  }

  // Counts layers by the configuration, or by the largest layer number.
  bool CountStack(size_t stack) {
    const DescribedText& repeat = description_.stacks[stack].repeat;
    int64_t layers = 0;
    if (formulas_.has_config()) {
      const auto counted = formulas_.Integer(repeat);
      if (!counted) return false;
      layers = *counted;
    } else {
      for (const TensorRole& at : out_.tensors) {
        if (!IsInLayer(at) || StackOf(at.role) != stack) continue;
        layers = std::max<int64_t>(layers, int64_t{at.layer} + 1);
      }
    }
    out_.stack_layers.push_back(layers);
    out_.layers += layers;
    if (layers >= 1 && layers <= kMostLayers) return true;
    findings_.Add(code::kLimit, repeat.place,
                  "a model of " + std::to_string(layers) +
                      " layers is not one that can be built");
    return false;
  }

  // Tensors of layers beyond the last belong to another model, such as layers
  // that predict additional tokens.
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
        const size_t stack = StackOf(at.role);
        const int64_t layers = out_.stack_layers[stack];
        if (at.layer >= layers) {
          at.role =
              stack == 0 && at.layer < layers + extra ? kSkipped : kNoRole;
        }
        at.layer += static_cast<int32_t>(out_.BeginOf(stack));
      }
      if (at.role != kNoRole) continue;
      ProblemOf(RoleFault::kNone, static_cast<int64_t>(i), kNoRole,
                "has no role in the model's section");
    }
    return true;
  }

  void Gather() {
    out_.rows.resize(roles() * AsIndex(out_.layers));
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      const TensorRole& at = out_.tensors[i];
      if (at.role < 0) continue;
      const int64_t layer = out_.InLayers(at.role) ? at.layer : 0;
      auto& rows = out_.rows[AsIndex(at.role * out_.layers + layer)];
      const size_t place =
          at.expert < 0 ? rows.size()
                        : AsIndex(std::min<int64_t>(at.expert, kMostExperts));
      if (at.expert >= kMostExperts) continue;
      if (rows.size() <= place) rows.resize(place + 1, -1);
      rows[place] = static_cast<int64_t>(i);
    }
  }

  // The dimensions of one tensor of a role: without that of experts, if each
  // expert has a tensor of its own.
  std::span<const DescribedDim> Stored(int32_t role) const {
    const std::span<const DescribedDim> dims =
        description_.roles[AsIndex(role)].dims;
    return out_.by_expert[AsIndex(role)] && !dims.empty() ? dims.subspan(1)
                                                          : dims;
  }
  const Shape* ShapeOf(int64_t tensor) const {
    const auto& type = manifest_.TypeOf(manifest_.tensors[AsIndex(tensor)]);
    return type.shape ? &*type.shape : nullptr;
  }

  // Infers sizes from one tensor of each role, until a round adds none.
  void InferSizes() {
    bool learned = true;
    while (learned) {
      learned = false;
      for (size_t role = 0; role < roles(); ++role) {
        const int64_t tensor = FirstTensor(role);
        const Shape* const shape = tensor < 0 ? nullptr : ShapeOf(tensor);
        if (shape == nullptr) continue;
        const auto dims = Stored(static_cast<int32_t>(role));
        if (out_.by_expert[role] && !description_.roles[role].dims.empty()) {
          learned |= Learn(description_.roles[role].dims[0], Experts(role));
        }
        for (size_t d = 0; d < dims.size() && d < shape->size(); ++d) {
          learned |= Learn(dims[d], (*shape)[d]);
        }
      }
    }
  }

  int64_t Experts(size_t role) const {
    size_t most = 0;
    for (int64_t layer = 0; layer < out_.layers; ++layer) {
      most = std::max(
          most, out_.rows[role * AsIndex(out_.layers) + AsIndex(layer)].size());
    }
    return static_cast<int64_t>(most);
  }

  int64_t FirstTensor(size_t role) const {
    const size_t begin = role * AsIndex(out_.layers);
    for (size_t i = begin; i < begin + AsIndex(out_.layers); ++i) {
      for (const int64_t row : out_.rows[i]) {
        if (row >= 0) return row;
      }
    }
    return -1;
  }

  // Sets the size of the only unknown factor of a dimension. Returns whether a
  // size was set.
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
    for (size_t role = 0; role < roles(); ++role) {
      if (FirstTensor(role) < 0) continue;
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

  int64_t SizeOf(const std::string& name) const {
    for (size_t i = 0; i < description_.dims.size(); ++i) {
      if (description_.dims[i].first == name) return out_.sizes[i];
    }
    return 0;
  }

  // 0 where a size is not known.
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
    std::vector<Shape> expected(roles());
    for (size_t role = 0; role < roles(); ++role) {
      for (const DescribedDim& dim : Stored(static_cast<int32_t>(role))) {
        expected[role].push_back(SizeOf(dim));
      }
    }
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      const int32_t role = out_.tensors[i].role;
      if (role < 0) continue;
      const Shape* const shape = ShapeOf(static_cast<int64_t>(i));
      if (shape == nullptr || *shape == expected[AsIndex(role)]) continue;
      CheckShape(static_cast<int64_t>(i), role, *shape,
                 expected[AsIndex(role)]);
    }
  }

  void CheckShape(int64_t tensor, int32_t role, const Shape& shape,
                  const Shape& expected) {
    std::string said;
    for (const DescribedDim& dim : Stored(role)) {
      said += (said.empty() ? "[" : ", ") + Text(dim);
    }
    ProblemOf(RoleFault::kShape, tensor, role,
              "is " + ShapeText(shape) + ", but " + said + "] is " +
                  ShapeText(expected));
  }

  void CheckMissing() {
    for (size_t role = 0; role < roles(); ++role) {
      const DescribedRole& described = description_.roles[role];
      if (!out_.exists[role]) continue;
      const size_t stack = described.stack;
      const int64_t layers =
          out_.in_layers[role] ? out_.stack_layers[stack] : 1;
      const int64_t begin = out_.in_layers[role] ? out_.BeginOf(stack) : 0;
      const int64_t experts = out_.by_expert[role] ? Experts(role) : 0;
      for (int64_t layer = begin; layer < begin + layers; ++layer) {
        const auto& rows =
            out_.rows[role * AsIndex(out_.layers) + AsIndex(layer)];
        const bool hole =
            std::find(rows.begin(), rows.end(), -1) != rows.end() ||
            (!rows.empty() && static_cast<int64_t>(rows.size()) < experts);
        if (!hole && (!rows.empty() || described.optional)) continue;
        std::string where;
        if (out_.in_layers[role]) {
          where = (stack == 0 ? "layer " : "the encoder's layer ") +
                  std::to_string(layer - begin);
        }
        Problem(RoleFault::kMissing, -1, static_cast<int32_t>(role),
                (where.empty() ? "the tree" : where) + " has " +
                    (hole ? "not every expert's" : "no") + " `" +
                    described.name + "`");
        break;
      }
    }
  }

  void CheckUnused() {
    const auto used = UsedNames(description_);
    for (size_t role = 0; role < roles(); ++role) {
      const std::string& name = description_.roles[role].name;
      if (used.contains(name) || FirstTensor(role) < 0) continue;
      Problem(RoleFault::kUnused, FirstTensor(role), static_cast<int32_t>(role),
              "no op takes the role `" + name + "`");
    }
  }

  const ModelDescription& description_;
  Formulas& formulas_;
  const Manifest& manifest_;
  Findings& findings_;
  Roles out_;
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
