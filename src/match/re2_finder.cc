// Matches names by RE2. Unless a filter is used (kFiltered), there is one
// RE2::Set for each path separator (`/` or `.`), with all patterns that have
// this separator. A set reads the bytes of a name once and returns the patterns
// that match, in no particular order.
//
// RE2::Set can fail in two ways. Compile() may fail. Match() may run out of
// memory. It then returns false, as if no pattern matched, and only its
// ErrorInfo shows the failure. In both cases the patterns are matched one by
// one.
//
// RE2::Set is slow if nearly every name needs states that have not been built.
// The filter of pattern_filter.h is for lists of patterns with which this
// happens.
#include "match/re2_finder.h"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "source/index.h"

namespace shardc {
namespace {

constexpr int64_t kSetBytes = int64_t{256} << 20;

}  // namespace

struct Re2Finder::Groups {
  // The patterns that have the same path separator, such as `/` or `.`.
  class Group {
   public:
    Group(char separator, Method method)
        : separator_(separator), method_(method) {}

    char separator() const { return separator_; }
    void Add(uint32_t number, std::shared_ptr<const RE2> pattern) {
      numbers_.push_back(number);
      patterns_.push_back(std::move(pattern));
    }
    void Compile();
    void Find(re2::StringPiece text, Scratch& scratch,
              std::vector<uint32_t>& out) const;

   private:
    char separator_;
    Method method_;
    // The set; null if it is not used or was not compiled.
    std::unique_ptr<RE2::Set> set_;
    // The filter; nullopt unless the method is kFiltered.
    std::optional<PatternFilter> filter_;
    // numbers_[i] is the index of patterns_[i] in the constructor's `patterns`.
    std::vector<uint32_t> numbers_;
    std::vector<std::shared_ptr<const RE2>> patterns_;
  };

  std::vector<Group> all;
  std::once_flag compiled;
};

void Re2Finder::Groups::Group::Compile() {
  if (method_ == Method::kFiltered) {
    filter_.emplace(patterns_);
    return;
  }
  RE2::Options options = patterns_[0]->options();
  options.set_max_mem(kSetBytes);
  set_ = std::make_unique<RE2::Set>(options, RE2::UNANCHORED);
  const bool added = std::all_of(
      patterns_.begin(), patterns_.end(),
      [&](const auto& re) { return set_->Add(re->pattern(), nullptr) >= 0; });
  if (!added || !set_->Compile()) set_.reset();
}

void Re2Finder::Groups::Group::Find(re2::StringPiece text, Scratch& scratch,
                                    std::vector<uint32_t>& out) const {
  if (filter_) {
    scratch.filtered.clear();
    filter_->Find({text.data(), text.size()}, scratch.filter, scratch.filtered);
    for (uint32_t index : scratch.filtered) out.push_back(numbers_[index]);
    return;
  }
  if (set_ != nullptr) {
    RE2::Set::ErrorInfo error{RE2::Set::kNoError};
    scratch.hits.clear();
    if (set_->Match(text, &scratch.hits, &error)) {
      for (int hit : scratch.hits) out.push_back(numbers_[AsIndex(hit)]);
      return;
    }
    if (error.kind == RE2::Set::kNoError) return;
  }
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (RE2::PartialMatch(text, *patterns_[i])) out.push_back(numbers_[i]);
  }
}

std::string_view Convert(std::string_view name, char separator, char wanted,
                         std::string& scratch) {
  if (separator == 0 || wanted == 0 || separator == wanted) return name;
  scratch.assign(name);
  std::replace(scratch.begin(), scratch.end(), separator, wanted);
  return scratch;
}

Re2Finder::~Re2Finder() = default;
Re2Finder::Re2Finder(Re2Finder&&) noexcept = default;
Re2Finder& Re2Finder::operator=(Re2Finder&&) noexcept = default;

Re2Finder::Re2Finder(std::span<const CompiledPattern> patterns,
                     std::span<const uint32_t> numbers, Method method)
    : groups_(std::make_unique<Groups>()) {
  std::vector<Groups::Group>& all = groups_->all;
  for (uint32_t number : numbers) {
    const CompiledPattern& pattern = patterns[number];
    auto group =
        std::find_if(all.begin(), all.end(), [&](const Groups::Group& g) {
          return g.separator() == pattern.separator;
        });
    if (group == all.end()) {
      group = all.insert(all.end(), Groups::Group(pattern.separator, method));
    }
    group->Add(number, pattern.re);
  }
}

void Re2Finder::Find(std::string_view name, char separator, Scratch& scratch,
                     std::vector<uint32_t>& out) const {
  std::call_once(groups_->compiled, [this] {
    for (Groups::Group& group : groups_->all) group.Compile();
  });
  for (const Groups::Group& group : groups_->all) {
    const std::string_view text =
        Convert(name, separator, group.separator(), scratch.text);
    // `text` may be a view into scratch.text, which Group::Find() does not
    // change.
    group.Find({text.data(), text.size()}, scratch, out);
  }
}

}  // namespace shardc
