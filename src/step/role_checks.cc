// Checks the roles of a model's tensors. The shape of every tensor is compared
// with the sizes of its role's dimensions, and every layer with the roles that
// it needs. Roles that no op uses are reported too. Examples of problems:
//
//   `layers.0.q` is [4096, 1024], but [n h, d] is [4096, 4096]
//   layer 3 has no `k`
//   no op takes the role `extra`
#include "step/role_checks.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "source/checked.h"

namespace shardc::step {
namespace {

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
      said += (said.empty() ? "[" : ", ") + Text(dim);
    }
    const bool stacked = tree_.roles.tensors[AsIndex(tensor)].stack_dim >= 0;
    const std::string has =
        "is " + ShapeText(shape) + (stacked ? " in a layer" : "");
    // An expected size is 0 if it is unknown. Without a config.json, the number
    // of heads and the size of a head are unknown if every tensor has only
    // their product. With the config.json of another family, a key that the
    // description reads may be absent.
    if (std::find(expected.begin(), expected.end(), 0) != expected.end()) {
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
            std::find(rows.begin(), rows.end(), -1) != rows.end() ||
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

}  // namespace

void CheckRoles(RoleTree& tree) { RoleChecker(tree).Run(); }

}  // namespace shardc::step
