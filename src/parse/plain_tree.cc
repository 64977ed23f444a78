// A fast reader of parameter trees in the usual syntax, in one pass. An object
// is a leaf (a parameter) if its first key is `shape` or `dtype`, and the value
// of this key is not an object. Outside of leaves, the reader stops at a value
// that is not an object, and at a duplicate key. The full parser then reads the
// file instead. If a name consists of several keys, the joined name is stored:
//
//   {"a": {"b": {"shape": [2], "dtype": "F32"}}}  ->  `a/b`, joined and stored
//   {"a.b": {"shape": [2], "dtype": "F32"}}       ->  `a.b`, a view into the
//                                                     text
#include "parse/plain_tree.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parse/plain_leaf.h"
#include "source/plain_json.h"
#include "source/text_order.h"

namespace shardc {
namespace {

constexpr int kDeepest = 64;

class TreeReader {
 public:
  TreeReader(std::string_view text, TextStore& texts)
      : json_(text), texts_(texts) {
    leaves.ReserveFor(text.size());
  }

  bool Read() {
    return json_.Take('{') && Branch(0) && json_.End() &&
           !leaves.tensors.empty();
  }

  PlainLeaves leaves;
  bool joined = false;  // whether a name was joined from several keys

 private:
  // Reads the members of an object after its opening brace.
  bool Branch(int depth) {
    if (depth == kDeepest) return false;
    if (json_.Take('}')) return true;
    const size_t first_key = keys_.size();
    const size_t first_name = leaves.tensors.size();
    const size_t prefix = path_.empty() ? 0 : path_.size() + 1;
    bool branches = false;
    do {
      std::string_view key;
      if (!json_.String(key) || key.empty() || !json_.Take(':') ||
          !json_.Take('{')) {
        return false;
      }
      const size_t above = path_.size();
      if (!path_.empty()) path_ += '/';
      path_ += key;
      if (AtLeaf()) {
        uint32_t type = 0;
        if (!leaves.Take(json_, type)) return false;
        Add(key, depth, type);
      } else {
        if (!branches) KeepKeys(first_name, prefix);
        branches = true;
        if (!Branch(depth + 1)) return false;
      }
      if (branches) keys_.push_back(key);
      path_.resize(above);
    } while (json_.Take(','));
    // Keys are compared only in an object that contains branches. If all
    // members are leaves, a duplicate key causes a duplicate name, which
    // TakeTensors detects.
    if (!AreDistinct(std::span(keys_).subspan(first_key))) return false;
    keys_.resize(first_key);
    return json_.Take('}');
  }

  // Stores the keys of the members that precede an object's first branch. These
  // members are leaves, so each key is the last part of a leaf's name.
  void KeepKeys(size_t first_name, size_t prefix) {
    for (size_t i = first_name; i < leaves.tensors.size(); ++i) {
      keys_.push_back(leaves.tensors[i].name.substr(prefix));
    }
  }

  // Returns whether the object is a leaf: its first key is `shape` or `dtype`,
  // and the value of this key is not an object. Otherwise the key may name a
  // branch.
  bool AtLeaf() const {
    PlainJson ahead = json_;
    if (!ahead.Take('"')) return false;
    const bool typed = ahead.TakeKey("shape\"") || ahead.TakeKey("dtype\"");
    return typed && !ahead.Next('{');
  }

  void Add(std::string_view key, int depth, uint32_t type) {
    joined = joined || depth > 0;
    leaves.tensors.push_back({depth > 0 ? texts_.Keep(path_) : key, type});
  }

  PlainJson json_;
  TextStore& texts_;
  std::string path_;
  // The keys read so far in each open object that has at least one branch.
  std::vector<std::string_view> keys_;
};

}  // namespace

std::optional<Manifest> ReadPlainTree(const SourceRef& source) {
  auto texts = std::make_shared<TextStore>();
  TreeReader reader(source->text(), *texts);
  if (!reader.Read()) return std::nullopt;
  Manifest manifest;
  if (!TakeTensors(std::move(reader.leaves), manifest)) return std::nullopt;
  if (reader.joined) {
    manifest.separator = '/';
    manifest.texts = std::move(texts);
  }
  manifest.source = source;
  return manifest;
}

}  // namespace shardc
