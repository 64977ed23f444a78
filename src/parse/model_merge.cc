// Merges a `model:` section with the section that it extends. Each mapping is
// an ordered list of entries, and entries of the same name are merged:
//
//   base: {q: a, k: b, o: c}   own: {q: d, qnorm: e, o: null}
//     ->  {q: d, qnorm: e, k: b}
//
// The order of entries matters. The section is converted to a program that
// computes one step of the model. The program's parameters have the order of
// the section's roles, such as `q`, and its dimension labels have the order of
// the section's dimensions. A new role or dimension is therefore inserted after
// the entry that precedes it in its own section: `qnorm` after `q`. Blocks
// (named lists of ops) are inserted after merging. A section that replaces the
// block `mlp` therefore changes each inherited list that uses this block.
#include "parse/model_merge.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "source/wording.h"

namespace shardc {
namespace {

// The limits on a list of ops after its blocks are inserted: the number of ops,
// the number of inserted blocks (including empty ones), and the depth of nested
// blocks.
constexpr size_t kMostOps = 1000, kMostBlocks = 10000, kMostNested = 32;
// The largest number of entries in a mapping. It is low because names are found
// by a linear search.
constexpr size_t kMostEntries = 2000;

template <class T>
auto FindEntry(SectionEntries<T>& entries, const std::string& name) {
  return std::find_if(
      entries.begin(), entries.end(),
      [&](const SectionEntry<T>& entry) { return entry.name == name; });
}

template <class T>
std::vector<std::string> NamesOf(const SectionEntries<T>& entries) {
  std::vector<std::string> out;
  for (const SectionEntry<T>& entry : entries) out.push_back(entry.name);
  return out;
}

template <class T>
bool HasFewEntries(const SectionEntries<T>& base, const SectionEntries<T>& own,
                   Findings& findings) {
  if (base.size() + own.size() <= kMostEntries) return true;
  findings.Add(code::kLimit, own.empty() ? Place{} : own.back().place,
               "a mapping has more than " + CountText(kMostEntries) +
                   " entries, the inherited ones included",
               "remove entries");
  return false;
}

template <class T>
void Merge(SectionEntries<T>& base, SectionEntries<T> own, Findings& findings) {
  if (!HasFewEntries(base, own, findings)) return;
  size_t next = base.size();
  for (SectionEntry<T>& entry : own) {
    const auto found = FindEntry(base, entry.name);
    const auto at = static_cast<size_t>(found - base.begin());
    if (found == base.end() && !entry.value) {
      findings.Add(code::kUnknownName, entry.place,
                   "`" + entry.name +
                       "` is null, but there is no inherited entry of that"
                       " name to remove",
                   DidYouMean(entry.name, NamesOf(base), "remove this entry"));
    } else if (found == base.end()) {
      base.insert(base.begin() + static_cast<ptrdiff_t>(next),
                  std::move(entry));
      ++next;
    } else if (!entry.value) {
      base.erase(found);
      next = at;
    } else {
      *found = std::move(entry);
      next = at + 1;
    }
  }
}

// Merges settings. A null setting removes the inherited setting of the same
// name. A null group (`rope`) removes all inherited settings of the group. If
// there is nothing to remove, null has no effect.
void MergeSettings(SectionEntries<DescribedText>& base,
                   SectionEntries<DescribedText> own, Findings& findings) {
  if (!HasFewEntries(base, own, findings)) return;
  for (SectionEntry<DescribedText>& entry : own) {
    if (!entry.value) {
      std::erase_if(base, [&](const SectionEntry<DescribedText>& inherited) {
        return inherited.name == entry.name ||
               inherited.name.starts_with(entry.name + ".");
      });
      continue;
    }
    const auto found = FindEntry(base, entry.name);
    if (found == base.end()) {
      base.push_back(std::move(entry));
    } else {
      *found = std::move(entry);
    }
  }
}

void Merge(SectionStack& base, SectionStack own, Findings& findings) {
  base.place = own.place;
  if (own.repeat) base.repeat = std::move(own.repeat);
  Merge(base.roles, std::move(own.roles), findings);
  if (own.begin) base.begin = std::move(own.begin);
  if (own.layer) base.layer = std::move(own.layer);
  if (own.end) base.end = std::move(own.end);
}

class Describer {
 public:
  Describer(const ModelSection& section, Findings& findings)
      : section_(section), findings_(findings) {}

  std::shared_ptr<ModelDescription> Run() {
    const size_t before = findings_.errors();
    out_->source = section_.source;
    for (const auto& dim : section_.dims) {
      out_->dims.emplace_back(dim.name, *dim.value);
      dims_.insert(dim.name);
    }
    for (const auto& axis : section_.axes) {
      if (IsKnown(axis.name, axis.place)) out_->axes[axis.name] = *axis.value;
    }
    for (const auto& block : section_.blocks) {
      blocks_[block.name] = &*block.value;
    }
    Stack(section_.decoder, 0);
    if (section_.encoder) {
      out_->stacks.emplace_back();
      Stack(*section_.encoder, kEncoderStack);
    }
    if (section_.skip) out_->skip = *section_.skip;
    for (const auto& setting : section_.settings) {
      out_->settings[setting.name] = *setting.value;
    }
    return findings_.errors() > before ? nullptr : out_;
  }

 private:
  void Stack(const SectionStack& from, size_t stack) {
    DescribedStack& to = out_->stacks[stack];
    if (!from.repeat) {
      findings_.Add(code::kSchema, from.place,
                    "this stack of layers has no `repeat`, neither its own nor"
                    " an inherited one",
                    "write `repeat: num_hidden_layers`");
      return;
    }
    to.repeat = *from.repeat;
    for (const auto& entry : from.roles) {
      Role(entry.value->role, stack);
      if (entry.value->bias) Role(*entry.value->bias, stack);
    }
    ExpandList(from.begin, to.begin);
    ExpandList(from.layer, to.layer);
    ExpandList(from.end, to.end);
  }

  void Role(const DescribedRole& role, size_t stack) {
    for (const DescribedDim& dim : role.dims) {
      for (const auto& parts : dim.factors) {
        for (const std::string& part : parts) {
          if (!IsKnown(part, dim.place)) return;
        }
      }
    }
    out_->roles.push_back(role);
    out_->roles.back().stack = stack;
  }

  bool IsKnown(const std::string& dim, const Place& place) {
    if (dims_.contains(dim)) return true;
    findings_.Add(code::kSchema, place,
                  "`" + dim + "` is not one of this model's `dims`",
                  "add its size to `dims`");
    return false;
  }

  void ExpandList(const std::optional<SectionOps>& from,
                  std::vector<DescribedLine>& to) {
    inserted_ = 0;
    if (from) Expand(*from, to);
  }

  void Expand(const SectionOps& from, std::vector<DescribedLine>& to) {
    for (const SectionOp& op : from) {
      if (findings_.Full()) return;
      if (op.block.empty()) {
        if (to.size() < kMostOps) {
          to.push_back(op.line);
          continue;
        }
        findings_.Add(code::kLimit, op.line.place,
                      "a list has more than " + CountText(kMostOps) +
                          " ops with its blocks inserted",
                      "remove ops or blocks");
        return;
      }
      if (!Insert(op, to)) return;
    }
  }

  // Appends the ops of the block that `use` names. Returns false after a
  // finding about a limit, a cycle, or the content of the block. The caller
  // then skips the rest of the list.
  bool Insert(const SectionOp& use, std::vector<DescribedLine>& to) {
    const auto found = blocks_.find(use.block);
    if (found == blocks_.end()) {
      findings_.Add(code::kUnknownName, use.line.place,
                    "there is no block `" + use.block + "`",
                    DidYouMean(use.block, NamesOf(section_.blocks),
                               "add it to `blocks`, or write an op such as `y ="
                               " rmsnorm(x, norm1)`"));
      return true;
    }
    if (const auto open = std::find(open_.begin(), open_.end(), use.block);
        open != open_.end()) {
      std::string chain;
      for (auto at = open; at != open_.end(); ++at) {
        chain += "`" + *at + "` -> ";
      }
      findings_.Add(code::kCycle, use.line.place,
                    "a block contains itself: " + chain + "`" + use.block + "`",
                    "remove this entry");
      return false;
    }
    if (open_.size() == kMostNested || ++inserted_ > kMostBlocks) {
      findings_.Add(code::kLimit, use.line.place,
                    "a list inserts more than " + CountText(kMostBlocks) +
                        " blocks, or blocks in more than " +
                        CountText(kMostNested) + " others",
                    "remove blocks");
      return false;
    }
    const size_t before = findings_.errors();
    open_.push_back(use.block);
    Expand(*found->second, to);
    open_.pop_back();
    return findings_.errors() == before;
  }

  const ModelSection& section_;
  Findings& findings_;
  std::set<std::string, std::less<>> dims_;
  std::map<std::string, const SectionOps*> blocks_;
  // The blocks that are being inserted, from the outermost to the innermost. A
  // block whose name is already in this list contains itself.
  std::vector<std::string> open_;
  size_t inserted_ = 0;  // number of blocks inserted in the current list
  std::shared_ptr<ModelDescription> out_ = std::make_shared<ModelDescription>();
};

}  // namespace

ModelSection MergeSections(ModelSection base, ModelSection own,
                           Findings& findings) {
  base.source = std::move(own.source);
  Merge(base.dims, std::move(own.dims), findings);
  Merge(base.axes, std::move(own.axes), findings);
  Merge(base.decoder, std::move(own.decoder), findings);
  if (own.removes_encoder) base.encoder.reset();
  if (own.encoder) {
    if (!base.encoder) base.encoder.emplace();
    Merge(*base.encoder, std::move(*own.encoder), findings);
  }
  Merge(base.blocks, std::move(own.blocks), findings);
  if (own.skip) base.skip = std::move(own.skip);
  MergeSettings(base.settings, std::move(own.settings), findings);
  return base;
}

std::shared_ptr<ModelDescription> DescribeModel(const ModelSection& section,
                                                Findings& findings) {
  return Describer(section, findings).Run();
}

}  // namespace shardc
