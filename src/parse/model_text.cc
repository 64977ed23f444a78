// Parses the two small languages of a `model:` section: ops and dimensions.
// One scanner splits the texts of both into names, numbers and punctuation.
// Names are stored as text, because the roles that they refer to are known only
// when the model's step is built.
//
//   kn, w = part(kv, p+w) @q   ->  results kn, w; op part; arguments kv and
//                                  (p, w); role of the sharding constraint q
//   n (p+r)                    ->  factors n and (p, r)
#include "parse/model_section.h"
#include "source/utf8.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "source/wording.h"

namespace shardc {
namespace {

bool IsWordStart(char c) { return IsLetter(c) || c == '_'; }
bool IsWordPart(char c) { return IsWordStart(c) || IsDigit(c) || c == '.'; }
bool IsNumberPart(char c) { return IsDigit(c) || c == '.'; }

// Reads the names, numbers and punctuation of a text one by one. Skips the
// spaces before each of them.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool AtEnd() {
    SkipBlanks();
    return at_ == text_.size();
  }
  bool Take(char sign) {
    SkipBlanks();
    if (at_ == text_.size() || text_[at_] != sign) return false;
    ++at_;
    return true;
  }
  std::string Word() {
    SkipBlanks();
    if (at_ == text_.size() || !IsWordStart(text_[at_])) return {};
    return Run(IsWordPart);
  }
  std::optional<double> Number() {
    SkipBlanks();
    const bool negative = at_ < text_.size() && text_[at_] == '-';
    const size_t begin = at_;
    if (negative) ++at_;
    const std::string digits = Run(IsNumberPart);
    double value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc{} && end == digits.data() + digits.size()) {
      return negative ? -value : value;
    }
    at_ = begin;
    return std::nullopt;
  }

 private:
  void SkipBlanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  std::string Run(bool (*part)(char)) {
    const size_t begin = at_;
    while (at_ < text_.size() && part(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Parses names that are joined by plus signs, such as `a+b`. Returns an empty
// list if a name is missing.
std::vector<std::string> Sum(Scanner& scanner) {
  std::vector<std::string> words;
  do {
    words.push_back(scanner.Word());
    if (words.back().empty()) return {};
  } while (scanner.Take('+'));
  return words;
}

std::optional<DescribedArgument> Argument(Scanner& scanner) {
  DescribedArgument argument;
  if (const auto number = scanner.Number()) {
    argument.is_number = true;
    argument.number = *number;
    return argument;
  }
  argument.names = Sum(scanner);
  if (argument.names.empty()) return std::nullopt;
  argument.optional = scanner.Take('?');
  return argument;
}

}  // namespace

std::optional<DescribedDim> ParseDescribedDim(std::string_view text) {
  Scanner scanner(text);
  DescribedDim dim;
  while (!scanner.AtEnd()) {
    const bool sum = scanner.Take('(');
    auto parts = sum ? Sum(scanner) : std::vector<std::string>{scanner.Word()};
    const bool empty = parts.empty() || parts[0].empty();
    if (empty || (sum && !scanner.Take(')'))) return std::nullopt;
    dim.factors.push_back(std::move(parts));
  }
  if (dim.factors.empty()) return std::nullopt;
  return dim;
}

std::optional<DescribedLine> ParseDescribedLine(std::string_view text) {
  static constexpr std::string_view kIf = " if ";
  DescribedLine line;
  if (const size_t at = text.find(kIf); at != text.npos) {
    line.when.text = text.substr(at + kIf.size());
    text = text.substr(0, at);
  }
  Scanner scanner(text);
  do {
    line.results.push_back(scanner.Word());
    if (line.results.back().empty()) return std::nullopt;
  } while (scanner.Take(','));
  if (!scanner.Take('=')) return std::nullopt;
  line.op = scanner.Word();
  if (line.op.empty() || !scanner.Take('(')) return std::nullopt;
  do {
    auto argument = Argument(scanner);
    if (!argument) return std::nullopt;
    line.arguments.push_back(std::move(*argument));
  } while (scanner.Take(','));
  if (!scanner.Take(')')) return std::nullopt;
  if (scanner.Take('@')) {
    line.constraint = scanner.Word();
    if (line.constraint.empty()) return std::nullopt;
  }
  if (!scanner.AtEnd()) return std::nullopt;
  return line;
}

bool IsModelWord(std::string_view text) {
  Scanner scanner(text);
  return !scanner.Word().empty() && scanner.AtEnd();
}

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
