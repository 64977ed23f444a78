// Looks up keys in an OCDBT store, which may consist of several databases. All
// keys are in one sorted list, so a key is found by binary search. The texts of
// all keys, and all small values, are stored in one string. If several
// processes have written a database each, their keys are sorted together. For
// example:
//
//   process 0: w/.zarray, w/0.0    process 1: w/0.1
//     ->  w/.zarray, w/0.0, w/0.1
#include "stored/ocdbt.h"

#include <algorithm>

#include "source/index.h"
#include "source/wording.h"

namespace shardc::stored {

std::string_view OcdbtStore::HeldOf(const Entry& entry) const {
  return std::string_view(texts_).substr(AsIndex(entry.offset),
                                         AsIndex(entry.bytes));
}

// Sorts the entries of several databases and removes duplicates. Processes that
// hold replicas may have written the same value twice. Returns false after a
// finding if two values of a key differ. If B-tree nodes contain both values,
// their bytes are compared, otherwise only their sizes.
bool OcdbtStore::Unite(const std::string& root, Findings& findings) {
  std::stable_sort(
      entries_.begin(), entries_.end(),
      [&](const Entry& a, const Entry& b) { return KeyOf(a) < KeyOf(b); });
  for (size_t i = 1; i < entries_.size(); ++i) {
    const Entry& a = entries_[i - 1];
    const Entry& b = entries_[i];
    if (KeyOf(a) != KeyOf(b)) continue;
    const bool held = a.file == kHeld && b.file == kHeld;
    if (a.bytes == b.bytes && (!held || HeldOf(a) == HeldOf(b))) continue;
    findings.Add(
        code::kDuplicateKey, {MakeSource(root, {})},
        "two processes saved different values for " + ShortQuote(KeyOf(a)),
        "save the checkpoint again");
    return false;
  }
  const auto same = [&](const Entry& a, const Entry& b) {
    return KeyOf(a) == KeyOf(b);
  };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same),
                 entries_.end());
  return true;
}

std::optional<Value> OcdbtStore::Find(std::string_view key, Findings&) const {
  const auto found = std::lower_bound(
      entries_.begin(), entries_.end(), key,
      [&](const Entry& entry, std::string_view k) { return KeyOf(entry) < k; });
  Value out;
  if (found == entries_.end() || KeyOf(*found) != key) return out;
  out.found = true;
  out.bytes = found->bytes;
  if (found->file == kHeld) {
    out.held = HeldOf(*found);
  } else {
    out.file = files_[found->file];
    out.offset = found->offset;
  }
  return out;
}

std::optional<std::vector<std::string>> OcdbtStore::MetadataKeys(
    Findings&) const {
  std::vector<std::string> out;
  for (const Entry& entry : entries_) {
    if (IsMetadataKey(KeyOf(entry))) out.emplace_back(KeyOf(entry));
  }
  return out;
}

}  // namespace shardc::stored
