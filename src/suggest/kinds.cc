// A part of digits alone is a counter, and so are the digits at the end of a
// part if the tree has four numbers or more behind that stem:
//
//   layers.0.fc1.w .. layers.31.fc1.w  ->  layers.*.fc1.w, 32 tensors
//   h_0.w .. h_11.w                    ->  h_*.w: 12 numbers behind `h_`
//
// `fc1` and `fc2` stay apart. One name with two shapes is two kinds.
#include "suggest/kinds.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "model/name.h"
#include "source/checked.h"

namespace shardc::suggest {
namespace {

// Fewer numbers behind a stem tell parts of one layer apart.
constexpr size_t kFewestCounted = 4;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Where the digits at the end of a part begin.
size_t StemEnd(std::string_view part) {
  size_t end = part.size();
  while (end > 0 && IsDigit(part[end - 1])) --end;
  return end;
}

// Numbers met behind each stem, up to the few that decide.
using Stems =
    std::unordered_map<std::string_view, std::vector<std::string_view>>;

template <class Take>
void ForParts(std::string_view name, char separator, const Take& take) {
  size_t begin = 0;
  while (true) {
    const size_t end =
        separator == 0 ? std::string_view::npos : name.find(separator, begin);
    take(name.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return;
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
  bool first = true;
  ForParts(name, separator, [&](std::string_view part) {
    if (!first) out += separator;
    first = false;
    size_t at = StemEnd(part);
    if (at > 0 && at < part.size()) {
      const auto stem = stems.find(part.substr(0, at));
      if (stem == stems.end() || stem->second.size() < kFewestCounted) {
        at = part.size();
      }
    }
    out += part.substr(0, at);
    if (at < part.size()) out += '*';
  });
}

struct KeyHash {
  size_t operator()(const std::pair<std::string, uint32_t>& key) const {
    return std::hash<std::string>()(key.first) * 31 + key.second;
  }
};

}  // namespace

std::string_view Kind::stack() const {
  const size_t at = name.find('*');
  return at == std::string::npos ? std::string_view()
                                 : std::string_view(name).substr(0, at);
}

bool Kind::Has(std::string_view part) const {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

Tree KindsOf(const Manifest& manifest) {
  Tree tree;
  tree.manifest = &manifest;
  tree.separator = manifest.separator;
  const Stems stems = StemsOf(manifest);
  std::unordered_map<std::pair<std::string, uint32_t>, uint32_t, KeyHash> ids;
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> kind_of(manifest.tensors.size(), kNone);
  std::pair<std::string, uint32_t> key;
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    const Tensor& tensor = manifest.tensors[i];
    const TensorType& type = manifest.TypeOf(tensor);
    if (!type.shape) {
      ++tree.nameless;
      continue;
    }
    Fold(tensor.name, manifest.separator, stems, key.first);
    key.second = tensor.type;
    const auto [at, fresh] =
        ids.try_emplace(key, static_cast<uint32_t>(tree.kinds.size()));
    if (fresh) {
      Kind kind;
      kind.name = key.first;
      kind.shape = *type.shape;
      kind.dtype = type.dtype;
      kind.elements = type.Elements().value_or(0);
      kind.bytes = type.Bytes().value_or(kind.elements);
      tree.kinds.push_back(std::move(kind));
    }
    kind_of[i] = at->second;
    ++tree.kinds[at->second].end;
  }
  uint32_t begin = 0;
  for (Kind& kind : tree.kinds) {
    const uint32_t count = kind.end;
    kind.begin = kind.end = begin;
    begin += count;
    kind.parts = SplitName(kind.name, manifest.separator);
    const auto all = CheckedMul(kind.bytes, int64_t{count});
    tree.bytes =
        CheckedAdd(tree.bytes, all.value_or(INT64_MAX)).value_or(INT64_MAX);
  }
  tree.members.resize(begin);
  for (size_t i = 0; i < kind_of.size(); ++i) {
    if (kind_of[i] == kNone) continue;
    tree.members[tree.kinds[kind_of[i]].end++] = static_cast<uint32_t>(i);
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
