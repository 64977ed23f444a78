// Treats values as the Python classes do. A field of PartitionAxis is the given
// value or, if none is given, is derived from other fields once, at
// construction.
//
// Example: PartitionAxis(tensor_parallel_axis="x") has head_axis "x", because
// heads derive from it. If head_axis=None is given, it stays None.
#include "reference/values.h"

#include <algorithm>
#include <numeric>

#include "source/digest.h"

namespace shardc::reference {
namespace {

using R = AxisRule;
constexpr std::string_view kFieldSuffix = "_axis";

std::optional<Value> MeshName(AxisRule rule) {
  switch (rule) {
    case R::kDataParallel:
      return Value::Name("dp");
    case R::kFullyShardedDataParallel:
      return Value::Name("fsdp");
    case R::kTensorParallel:
      return Value::Name("tp");
    case R::kSequenceParallel:
      return Value::Name("sp");
    case R::kExpertParallel:
      return Value::Name("ep");
    default:
      return std::nullopt;
  }
}

bool IsEmpty(const Value& value) {
  return value.IsNone() || (value.IsName() && value.name.empty()) ||
         (value.IsSequence() && value.items.empty());
}

void Walk(const Tree& tree, std::vector<std::string>& path,
          std::vector<Leaf>& out) {
  if (tree.kind == Tree::Kind::kNone) return;
  if (tree.kind != Tree::Kind::kBranch) {
    out.push_back({path, &tree});
    return;
  }
  std::vector<size_t> order(tree.members.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (!tree.is_list) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return tree.members[a].first < tree.members[b].first;
    });
  }
  for (size_t index : order) {
    path.push_back(tree.members[index].first);
    Walk(tree.members[index].second, path, out);
    path.pop_back();
  }
}

void GatherNames(const Value& value, std::set<std::string>& out) {
  if (value.IsName()) out.insert(value.name);
  for (const Value& item : value.items) GatherNames(item, out);
}

// Converts base 16 to base 10, digit by digit. Digests have at most 128 digits.
std::string DecimalOf(std::string_view hex) {
  std::vector<int> digits = {0};  // least significant first
  for (char c : hex) {
    int carry = c <= '9' ? c - '0' : c - 'a' + 10;
    for (int& digit : digits) {
      carry += digit * 16;
      digit = carry % 10;
      carry /= 10;
    }
    for (; carry > 0; carry /= 10) digits.push_back(carry % 10);
  }
  std::string out;
  for (auto it = digits.rbegin(); it != digits.rend(); ++it) {
    out += static_cast<char>('0' + *it);
  }
  return out;
}

void AddAxes(const Value& value, AxisGroup& out) {
  if (value.IsName() && !value.name.empty()) out.push_back(value.name);
  for (const Value& item : value.items) AddAxes(item, out);
}

}  // namespace

Value Value::Name(std::string_view name) {
  Value value;
  value.kind = Kind::kName;
  value.name = name;
  return value;
}

Value Value::Tuple(std::vector<Value> items) {
  Value value;
  value.kind = Kind::kTuple;
  value.items = std::move(items);
  return value;
}

Value Value::List(std::vector<Value> items) {
  Value value = Tuple(std::move(items));
  value.kind = Kind::kList;
  return value;
}

Result<PartitionSpec> MakePartitionSpec(std::span<const Value> entries) {
  PartitionSpec spec;
  for (const Value& entry : entries) {
    if (IsEmpty(entry)) {
      spec.push_back(Value::None());
      continue;
    }
    if (!entry.IsSequence()) {
      spec.push_back(entry);
      continue;
    }
    for (const Value& item : entry.items) {
      if (item.IsSequence()) {
        return Error{
            "ValueError", "nested_tuple_in_spec",
            "A tuple inside PartitionSpec cannot contain a nested tuple."};
      }
    }
    spec.push_back(entry.items.size() == 1 ? entry.items[0]
                                           : Value::Tuple(entry.items));
  }
  return spec;
}

PartitionAxis::PartitionAxis(const Given& given) {
  // Fields derive only from fields before them in this order.
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    Value& field = fields_[i];
    if (given[i]) {
      field = *given[i];
    } else if (auto name = MeshName(rule)) {
      field = *name;
    } else if (rule == R::kBatch) {
      field = Value::Tuple(
          {Field(R::kFullyShardedDataParallel), Field(R::kDataParallel)});
    } else if (auto from = DerivedFrom(rule)) {
      field = Field(*from);
    }
  }
}

std::string FieldName(AxisRule rule) {
  return std::string(AxisRuleName(rule)) + std::string(kFieldSuffix);
}

std::optional<AxisRule> ParseFieldName(std::string_view name) {
  if (!name.ends_with(kFieldSuffix)) return std::nullopt;
  return ParseAxisRule(name.substr(0, name.size() - kFieldSuffix.size()));
}

std::vector<Leaf> Flatten(const Tree& tree) {
  std::vector<Leaf> out;
  std::vector<std::string> path;
  Walk(tree, path, out);
  return out;
}

std::string JoinPath(std::span<const std::string> path,
                     std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < path.size(); ++i) {
    if (i > 0) out += separator;
    out += path[i];
  }
  return out;
}

Spec AxesOf(std::span<const Value> values) {
  Spec spec;
  for (const Value& value : values) {
    spec.emplace_back();
    AddAxes(value, spec.back());
  }
  return spec;
}

std::set<std::string> NamesIn(const Value& value) {
  std::set<std::string> out;
  GatherNames(value, out);
  return out;
}

bool NamesInMesh(std::span<const std::string> names,
                 std::span<const std::string> mesh_axes) {
  return std::all_of(names.begin(), names.end(), [&](const auto& name) {
    return std::find(mesh_axes.begin(), mesh_axes.end(), name) !=
           mesh_axes.end();
  });
}

Result<std::string> SafeHashInt(std::string_view text,
                                std::string_view algorithm) {
  auto hex = HexDigest(algorithm, text);
  if (!hex) {
    return Error{"ValueError", "unknown_hash_algorithm",
                 "Unsupported hash algorithm: " + std::string(algorithm)};
  }
  return DecimalOf(*hex);
}

}  // namespace shardc::reference
