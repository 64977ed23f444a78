// Groups tensors whose names differ only in counters, such as layer numbers. A
// number that the template of a name replaces (model/name.h) is a counter.
// Other digits at the end of a part are a counter if at least four different
// numbers follow the same stem (the text before the digits) in the model:
//
//   layers.0.fc1.w .. layers.31.fc1.w  ->  layers.*.fc1.w, 32 tensors
//   verse0.w .. verse11.w              ->  verse*.w: 12 numbers after `verse`
//
// `fc1` and `fc2` stay different names, because only two numbers follow `fc`.
// Tensors with one name but two shapes or data types are two groups.
#include "suggest/parameter_groups.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "model/name.h"
#include "source/checked.h"

namespace shardc::suggest {
namespace {

// If fewer than this many different numbers follow a stem, they name the parts
// of one layer, such as fc1 and fc2.
constexpr size_t kFewestCounted = 4;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Returns the index at which the digits at the end of a part begin. If the part
// does not end with a digit, returns its size.
size_t StemEnd(std::string_view part) {
  size_t end = part.size();
  while (end > 0 && IsDigit(part[end - 1])) --end;
  return end;
}

// Maps each stem to the different numbers that follow it. At most
// kFewestCounted numbers are stored.
using Stems =
    std::unordered_map<std::string_view, std::vector<std::string_view>>;

template <class Take>
void ForParts(std::string_view name, char separator, const Take& take) {
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = PartEnd(name, begin, separator);
    take(name.substr(begin, end - begin));
    begin = end + 1;
  }
}

Stems StemsOf(const Manifest& manifest) {
  Stems out;
  for (const Tensor& tensor : manifest.tensors) {
    ForParts(tensor.name, manifest.separator, [&](std::string_view part) {
      const size_t at = StemEnd(part);
      if (at == 0 || at == part.size()) return;
      auto& numbers = out[part.substr(0, at)];
      if (numbers.size() >= kFewestCounted) return;
      const auto number = part.substr(at);
      if (std::find(numbers.begin(), numbers.end(), number) == numbers.end()) {
        numbers.push_back(number);
      }
    });
  }
  return out;
}

void Fold(std::string_view name, char separator, const Stems& stems,
          std::string& out) {
  out.clear();
  size_t done = 0;
  ForParts(name, separator, [&](std::string_view part) {
    size_t at = StemLength(part);
    if (at == part.size()) {
      const auto stem = stems.find(part.substr(0, StemEnd(part)));
      if (stem == stems.end() || stem->second.size() < kFewestCounted) return;
      at = StemEnd(part);
    }
    const auto begin = static_cast<size_t>(part.data() - name.data());
    out += name.substr(done, begin + at - done);
    out += '*';
    done = begin + part.size();
  });
  out += name.substr(done);
}

struct KeyHash {
  size_t operator()(const std::pair<std::string, uint32_t>& key) const {
    return std::hash<std::string>()(key.first) * 31 + key.second;
  }
};

}  // namespace

std::string_view ParameterGroup::stack() const {
  if (stack_size) return std::string_view(name).substr(0, *stack_size);
  const size_t at = name.find('*');
  return at == std::string::npos ? std::string_view()
                                 : std::string_view(name).substr(0, at);
}

bool ParameterGroup::Has(std::string_view part) const {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

Tree ParameterGroupsOf(const Manifest& manifest) {
  Tree tree;
  tree.manifest = &manifest;
  tree.separator = manifest.separator;
  const Stems stems = StemsOf(manifest);
  std::unordered_map<std::pair<std::string, uint32_t>, uint32_t, KeyHash> ids;
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> group_of(manifest.tensors.size(), kNone);
  std::pair<std::string, uint32_t> key;
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    const Tensor& tensor = manifest.tensors[i];
    const TensorType& type = manifest.TypeOf(tensor);
    if (!type.shape) {
      ++tree.shapeless;
      continue;
    }
    Fold(tensor.name, manifest.separator, stems, key.first);
    key.second = tensor.type;
    const auto [at, fresh] =
        ids.try_emplace(key, static_cast<uint32_t>(tree.groups.size()));
    if (fresh) {
      ParameterGroup group;
      group.name = key.first;
      group.shape = *type.shape;
      group.dtype = type.dtype;
      group.elements = type.Elements().value_or(0);
      group.bytes = type.Bytes().value_or(group.elements);
      tree.groups.push_back(std::move(group));
    }
    group_of[i] = at->second;
    ++tree.groups[at->second].end;
  }
  uint32_t begin = 0;
  for (ParameterGroup& group : tree.groups) {
    const uint32_t count = group.end;
    group.begin = group.end = begin;
    begin += count;
    group.parts = SplitName(group.name, manifest.separator);
    const auto all = CheckedMul(group.bytes, int64_t{count});
    tree.bytes =
        CheckedAdd(tree.bytes, all.value_or(INT64_MAX)).value_or(INT64_MAX);
  }
  tree.members.resize(begin);
  for (size_t i = 0; i < group_of.size(); ++i) {
    if (group_of[i] == kNone) continue;
    tree.members[tree.groups[group_of[i]].end++] = static_cast<uint32_t>(i);
  }
  return tree;
}

std::vector<std::string_view> CountersOf(std::string_view name,
                                         std::string_view folded) {
  std::vector<std::string_view> out;
  size_t at = 0;
  for (const char c : folded) {
    if (c != '*') {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < name.size() && IsDigit(name[end])) ++end;
    out.push_back(name.substr(at, end - at));
    at = end;
  }
  return out;
}

}  // namespace shardc::suggest
