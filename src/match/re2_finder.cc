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
// The filter of re2_finder.h is for lists of patterns with which this
// happens.
#include "match/re2_finder.h"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "match/automaton/pattern_tree.h"
#include "match/globs.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Matches each name by RE2, one pattern at a time, but only against the
// patterns whose required texts the name contains. Required texts are literal
// texts without which a pattern cannot match.
//
// This is for lists for which one automaton of all patterns is slow, such as a
// thousand patterns `(block|blick_N).*N$` with different N. After `block`, each
// pattern has active nodes that wait for its own N. Every further byte of a
// name then makes a state of a thousand nodes, which no other name needs. The
// filter leaves most patterns out:
//
//   pattern                 required                      name block_17/kernel
//   (block|blick_17).*17$   (block or blick_17) and 17    matched by RE2
//   (block|blick_23).*23$   (block or blick_23) and 23    left out
//
// A requirement such as (block or blick_17) is met if the name contains one of
// its texts. All texts are found in one pass over a name. One requirement of
// each pattern is its key: the pattern is considered only if the name contains
// a text of the key. RE2 then matches the pattern if all its requirements are
// met. FindKeys() chooses as the key a requirement whose texts are rare. In the
// example this is `17`. With the key (block or blick_17), the pattern would be
// considered for every name that contains `block`.

// RE2 stores states for each pattern. kAllBytes, the limit on the bytes of all
// states, is divided equally among the patterns. A pattern gets at least
// kLeastBytes, because with less memory many patterns would not compile.
constexpr int64_t kAllBytes = int64_t{256} << 20;
constexpr int64_t kLeastBytes = int64_t{128} << 10;

// Returns `pattern` compiled again, with an equal share of kAllBytes as its
// memory limit. Returns `pattern` itself if its limit is not larger than this
// share, or if it does not compile with the share.
std::shared_ptr<const RE2> WithShare(const std::shared_ptr<const RE2>& pattern,
                                     size_t patterns) {
  RE2::Options options = pattern->options();
  const int64_t share = kAllBytes / static_cast<int64_t>(patterns);
  if (share >= options.max_mem()) return pattern;
  options.set_max_mem(std::max(share, kLeastBytes));
  auto re = std::make_shared<const RE2>(pattern->pattern(), options);
  return re->ok() ? re : pattern;
}

}  // namespace

struct PatternFilter::State {
  // One requirement, as indices into `texts`. A pattern can match a name only
  // if the name contains at least one of these texts.
  using AnyOf = std::vector<uint32_t>;

  void AddTexts(std::span<const std::shared_ptr<const RE2>> patterns);
  void FindKeys();
  bool MayMatch(uint32_t pattern, const std::vector<bool>& has) const;
  void AddIfFound(uint32_t pattern, std::string_view text,
                  std::vector<uint32_t>& out) const;

  std::vector<std::shared_ptr<const RE2>> patterns;
  // Indexed by pattern: all requirements of the pattern.
  std::vector<std::vector<AnyOf>> required;
  std::vector<std::string> texts;
  // Indexed by text: the patterns whose key (FindKeys) contains the text.
  std::vector<std::vector<uint32_t>> by_text;
  std::vector<uint32_t> always;  // The patterns without a required text.
  std::optional<LiteralFinder> finder;
};

void PatternFilter::State::AddTexts(
    std::span<const std::shared_ptr<const RE2>> all) {
  std::map<std::string, uint32_t, std::less<>> numbers;
  for (const auto& re : all) {
    patterns.push_back(WithShare(re, all.size()));
    std::vector<AnyOf>& own = required.emplace_back();
    for (const AnyOfTexts& any : RequiredTexts(re->pattern())) {
      AnyOf& one = own.emplace_back();
      for (const std::string& text : any) {
        const auto next = static_cast<uint32_t>(texts.size());
        const auto [at, fresh] = numbers.try_emplace(text, next);
        if (fresh) texts.push_back(text);
        one.push_back(at->second);
      }
      std::sort(one.begin(), one.end());
      one.erase(std::unique(one.begin(), one.end()), one.end());
    }
  }
}

void PatternFilter::State::FindKeys() {
  // Indexed by text: the number of requirements that have the text.
  std::vector<size_t> used(texts.size());
  for (const auto& own : required) {
    for (const AnyOf& any : own) {
      for (const uint32_t text : any) ++used[text];
    }
  }
  // Returns the cost of a requirement. The cheapest requirement of a pattern
  // becomes its key. The first number of the cost is the largest used[text] of
  // the requirement's texts, so rare texts are cheap. If two first numbers are
  // equal, the requirement whose shortest text is longer has the lower cost,
  // because short texts are in many names.
  const auto cost = [&](const AnyOf& any) {
    std::pair<size_t, size_t> out{0, 0};
    size_t least = SIZE_MAX;
    for (const uint32_t text : any) {
      out.first = std::max(out.first, used[text]);
      least = std::min(least, texts[text].size());
    }
    out.second = SIZE_MAX - least;
    return out;
  };
  by_text.resize(texts.size());
  for (uint32_t p = 0; p < patterns.size(); ++p) {
    const auto key = std::min_element(
        required[p].begin(), required[p].end(),
        [&](const AnyOf& a, const AnyOf& b) { return cost(a) < cost(b); });
    if (key == required[p].end()) {
      always.push_back(p);
      continue;
    }
    for (const uint32_t text : *key) by_text[text].push_back(p);
  }
}

bool PatternFilter::State::MayMatch(uint32_t pattern,
                                    const std::vector<bool>& has) const {
  return std::all_of(required[pattern].begin(), required[pattern].end(),
                     [&](const AnyOf& any) {
                       return std::any_of(
                           any.begin(), any.end(),
                           [&](uint32_t text) { return has[text]; });
                     });
}

void PatternFilter::State::AddIfFound(uint32_t pattern, std::string_view text,
                                      std::vector<uint32_t>& out) const {
  if (patterns[pattern]->Match({text.data(), text.size()}, 0, text.size(),
                               RE2::UNANCHORED, nullptr, 0)) {
    out.push_back(pattern);
  }
}

PatternFilter::~PatternFilter() = default;
PatternFilter::PatternFilter(PatternFilter&&) noexcept = default;
PatternFilter& PatternFilter::operator=(PatternFilter&&) noexcept = default;

PatternFilter::PatternFilter(
    std::span<const std::shared_ptr<const re2::RE2>> patterns)
    : state_(std::make_unique<State>()) {
  state_->AddTexts(patterns);
  state_->FindKeys();
  state_->finder.emplace(state_->texts);
}

void PatternFilter::Find(std::string_view text, Scratch& scratch,
                         std::vector<uint32_t>& out) const {
  const State& state = *state_;
  auto& [found, has] = scratch;
  found.clear();
  has.resize(state.texts.size());
  state.finder->Find(text, found);
  for (const uint32_t one : found) has[one] = true;
  for (const uint32_t pattern : state.always) {
    state.AddIfFound(pattern, text, out);
  }
  const size_t begin = out.size();
  for (const uint32_t one : found) {
    for (const uint32_t pattern : state.by_text[one]) {
      if (state.MayMatch(pattern, has)) state.AddIfFound(pattern, text, out);
    }
  }
  // A pattern was found once for each text of its key that the name contains.
  // The repetitions are removed.
  const auto own = out.begin() + static_cast<std::ptrdiff_t>(begin);
  std::sort(own, out.end());
  out.erase(std::unique(own, out.end()), out.end());
  for (const uint32_t one : found) has[one] = false;
}

// Finds many literal texts in a name in one pass, whatever their number, by the
// automaton of Aho and Corasick (Efficient string matching, 1975). The
// automaton is a tree of all literals. Each node represents a text and has a
// link to the longest suffix of its text that is also a node. With the literals
// `attn` and `tn/k`, the text `attn/` is read as follows:
//
//   attn  --/-->  no edge; its suffix `tn`  --/-->  tn/
//
// From the node `attn` there is no edge for `/`, so the search continues at the
// node `tn`.

LiteralFinder::LiteralFinder(std::span<const std::string> literals)
    : nodes_(1) {
  struct Step {
    uint32_t from = 0;
    uint32_t to = 0;
    char byte = 0;
    size_t depth = 0;
  };
  std::vector<Step> steps;
  for (size_t i = 0; i < literals.size(); ++i) {
    uint32_t at = kRoot;
    for (size_t depth = 0; depth < literals[i].size(); ++depth) {
      const char byte = literals[i][depth];
      const auto fresh = static_cast<uint32_t>(nodes_.size());
      const auto [edge, added] = edges_.try_emplace(Edge(at, byte), fresh);
      if (added) {
        nodes_.emplace_back();
        steps.push_back({at, fresh, byte, depth});
      }
      at = edge->second;
    }
    nodes_[at].literal = static_cast<uint32_t>(i);
  }
  // The link of a node depends on the links of nodes with shorter texts, so the
  // links are computed in ascending order of the lengths of the texts.
  std::stable_sort(
      steps.begin(), steps.end(),
      [](const Step& a, const Step& b) { return a.depth < b.depth; });
  for (const Step& step : steps) {
    // The text has one character, so its only suffix is the empty text.
    if (step.from == kRoot) continue;
    Node& node = nodes_[step.to];
    node.shorter = Next(nodes_[step.from].shorter, step.byte);
    const Node& suffix = nodes_[node.shorter];
    node.ending = suffix.literal != kNoLiteral ? node.shorter : suffix.ending;
  }
}

uint32_t LiteralFinder::Next(uint32_t from, char byte) const {
  while (true) {
    const auto edge = edges_.find(Edge(from, byte));
    if (edge != edges_.end()) return edge->second;
    if (from == kRoot) return kRoot;
    from = nodes_[from].shorter;
  }
}

void LiteralFinder::Find(std::string_view text,
                         std::vector<uint32_t>& out) const {
  uint32_t at = kRoot;
  for (char byte : text) {
    at = Next(at, byte);
    for (uint32_t end = at; end != kRoot; end = nodes_[end].ending) {
      if (nodes_[end].literal != kNoLiteral) {
        out.push_back(nodes_[end].literal);
      }
    }
  }
}

// Finds the texts that a pattern requires. Consecutive literal characters of
// the pattern are one required text. A choice of literal texts requires one of
// them, and a part that is repeated at least once requires the texts of one
// repetition. Any other part except an assertion ends a text:
//
//   (block|blick_17).*17$   ->  (block or blick_17) and 17
//   layers/\d+/(q|k)/(a)+   ->  `layers/`, `/`, (`q` or `k`), `/`, `a`

namespace {

constexpr uint32_t kAsciiEnd = 0x80;

bool IsLiteral(const PatternTree& tree) {
  return tree.kind == TreeKind::kPoint && tree.point < kAsciiEnd;
}

// Returns the text of a tree that consists of ASCII literals, or nullopt for
// any other tree.
std::optional<std::string> TextOf(const PatternTree& tree) {
  if (IsLiteral(tree)) return std::string(1, static_cast<char>(tree.point));
  if (tree.kind != TreeKind::kSequence) return std::nullopt;
  std::string out;
  for (const PatternTree& part : tree.parts) {
    const auto text = TextOf(part);
    if (!text) return std::nullopt;
    out += *text;
  }
  return out;
}

class Gatherer {
 public:
  void Add(const PatternTree& tree) {
    if (IsLiteral(tree)) {
      text_ += static_cast<char>(tree.point);
      return;
    }
    switch (tree.kind) {
      case TreeKind::kSequence:
        for (const PatternTree& part : tree.parts) Add(part);
        return;
      case TreeKind::kRepeat:
        EndText();
        if (tree.least > 0) Add(tree.parts[0]);
        EndText();
        return;
      case TreeKind::kChoice:
        EndText();
        AddChoice(tree);
        return;
      // An assertion matches the empty text. Literal characters before and
      // after the assertion are therefore consecutive in the name.
      case TreeKind::kAssertion:
        return;
      case TreeKind::kPoint:
      case TreeKind::kSet:
        EndText();
        return;
    }
  }

  std::vector<AnyOfTexts> Take() {
    EndText();
    return std::move(out_);
  }

 private:
  void EndText() {
    if (!text_.empty()) out_.push_back({std::exchange(text_, {})});
  }

  void AddChoice(const PatternTree& choice) {
    AnyOfTexts any;
    for (const PatternTree& part : choice.parts) {
      auto text = TextOf(part);
      if (!text || text->empty()) return;
      any.push_back(std::move(*text));
    }
    if (!any.empty()) out_.push_back(std::move(any));
  }

  std::string text_;
  std::vector<AnyOfTexts> out_;
};

}  // namespace

std::vector<AnyOfTexts> RequiredTexts(std::string_view pattern) {
  const auto tree = ReadPatternTree(pattern);
  if (!tree) return {};
  Gatherer gatherer;
  gatherer.Add(*tree);
  return gatherer.Take();
}

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
    void Add(uint32_t number, const CompiledPattern& pattern) {
      numbers_.push_back(number);
      patterns_.push_back(pattern.re);
      if (pattern.unicode) unicode_.emplace_back(number, pattern.unicode);
    }
    void Compile();
    void Find(re2::StringPiece text, Scratch& scratch,
              std::vector<uint32_t>& out) const;

   private:
    void FindPlain(re2::StringPiece text, Scratch& scratch,
                   std::vector<uint32_t>& out) const;

    char separator_;
    Method method_;
    // The set; null if it is not used or was not compiled.
    std::unique_ptr<RE2::Set> set_;
    // The filter; nullopt unless the method is kFiltered.
    std::optional<PatternFilter> filter_;
    // numbers_[i] is the index of patterns_[i] in the constructor's `patterns`.
    std::vector<uint32_t> numbers_;
    std::vector<std::shared_ptr<const RE2>> patterns_;
    // The patterns that mean something else in texts beyond ASCII, each with
    // its number in numbers_. Compile() sorts them by number.
    std::vector<std::pair<uint32_t, std::shared_ptr<const UnicodePattern>>>
        unicode_;
  };

  std::vector<Group> all;
  std::once_flag compiled;
};

void Re2Finder::Groups::Group::Compile() {
  std::sort(unicode_.begin(), unicode_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
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
  const auto before = static_cast<std::ptrdiff_t>(out.size());
  FindPlain(text, scratch, out);
  const std::string_view view(text.data(), text.size());
  if (unicode_.empty() || !UnicodePattern::IsNeededFor(view)) return;
  const auto is_unicode = [&](uint32_t number) {
    const auto at = std::lower_bound(
        unicode_.begin(), unicode_.end(), number,
        [](const auto& one, uint32_t wanted) { return one.first < wanted; });
    return at != unicode_.end() && at->first == number;
  };
  out.erase(std::remove_if(out.begin() + before, out.end(), is_unicode),
            out.end());
  for (const auto& [number, pattern] : unicode_) {
    if (pattern->Found(view)) out.push_back(number);
  }
}

void Re2Finder::Groups::Group::FindPlain(re2::StringPiece text,
                                         Scratch& scratch,
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

const UnicodePattern* CompiledPattern::UnicodeFor(std::string_view text) const {
  return unicode && UnicodePattern::IsNeededFor(text) ? unicode.get() : nullptr;
}

const RE2& CompiledPattern::For(std::string_view text) const {
  const UnicodePattern* const other = UnicodeFor(text);
  return other != nullptr ? other->Expression() : *re;
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
    group->Add(number, pattern);
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

// Explains why RE2 refuses a pattern, and suggests how to rewrite it. RE2
// itself reports only the error and the text where the error occurs. If RE2
// does not know the syntax of a group, the pattern is searched for features
// that RE2 lacks and that Python's `re` or other engines have. If RE2 does not
// know an escape, the pattern is searched for back-references. The finding is
// placed at the feature:
//
//   `a(?=/b)`  ->  look-ahead is not part of RE2 at position 2 (`(?=`),
//                  help: `a(?=/b)` becomes `a/b`
//
// Other errors are reported with RE2's own message, some with help.

namespace {

struct Lacking {
  std::string_view text;
  std::string_view reason;
  std::string_view help;
};

constexpr std::string_view kNamedGroup = "(?P<";

// The features that Python's `re` or other engines have and RE2 lacks. A
// feature comes before any feature that is its prefix: `(?<=` before `(?<`.
constexpr std::array kLacking = {
    Lacking{"(?<=", "look-behind is not part of RE2",
            "write the text before as part of the pattern: `(?<=a/)b` becomes "
            "`a/b`"},
    Lacking{"(?<!", "negative look-behind is not part of RE2",
            "put a rule for the excluded names above this one: the first "
            "match wins"},
    Lacking{"(?=", "look-ahead is not part of RE2",
            "write the text after as part of the pattern: `a(?=/b)` becomes "
            "`a/b`"},
    Lacking{"(?!", "negative look-ahead is not part of RE2",
            "put a rule for the excluded names above this one: the first "
            "match wins"},
    Lacking{"(?>", "atomic groups are not part of RE2",
            "RE2 never backtracks: write `(?:...)`"},
    Lacking{"(?P=", "back-references are not part of RE2",
            "spell the alternatives out, one rule each"},
    Lacking{kNamedGroup, "the group's name is not usable",
            "a name is one or more letters, digits or `_`, closed by `>`"},
    Lacking{"(?<", "this spelling of a named group is not part of RE2",
            "write `(?P<name>...)`"},
    Lacking{"(?#", "comments inside a pattern are not part of RE2",
            "put the comment behind a `#` of the YAML file"},
    Lacking{"(?(", "conditional groups are not part of RE2",
            "spell the alternatives out, one rule each"},
};

// Returns the position of the first group of the pattern that begins with
// `text`, such as `(?=`; npos if there is no such group.
size_t FindGroup(std::string_view pattern, std::string_view text) {
  for (size_t i = 0; i < pattern.size(); i = AtomEnd(pattern, i)) {
    if (pattern.substr(i).starts_with(text)) return i;
  }
  return std::string_view::npos;
}

// Returns the position of the first back-reference, which is an escaped digit
// other than 0; npos if the pattern has no back-reference.
size_t FindBackReference(std::string_view pattern) {
  for (size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] != '\\') continue;
    if (pattern[i + 1] >= '1' && pattern[i + 1] <= '9') return i;
    ++i;
  }
  return std::string_view::npos;
}

std::string_view EscapeHelp(char letter) {
  switch (letter) {
    case 'Z':
      return "write `\\z` or `$` for the end of the text";
    case 'h':
      return "write `[ \\t]`";
    case 'K':
      return "leave it out: a match is found anywhere in the name";
    default:
      return "double the backslash for a literal one, or leave it out";
  }
}

Place Inside(const Place& place, std::string_view pattern, size_t begin,
             size_t end) {
  // If the YAML file escapes characters of the pattern, offsets in the file
  // differ from offsets in the pattern. The place of the finding is then the
  // whole pattern.
  if (!place.HasPosition() || place.source == nullptr) return place;
  const std::string_view written = place.source->text();
  if (place.end <= written.size() && place.begin < place.end) {
    const std::string_view text =
        written.substr(place.begin, place.end - place.begin);
    const size_t at = text.find(pattern);
    if (at != std::string_view::npos) {
      return {place.source, place.begin + at + begin, place.begin + at + end};
    }
  }
  return place;
}

// Returns the numbers in a repetition such as `{2,5}`. A number that an int
// cannot represent becomes INT_MAX.
std::vector<int> NumbersOf(std::string_view repetition) {
  std::vector<int> numbers;
  for (size_t at = 0; at < repetition.size();) {
    int number = 0;
    const auto [end, error] = std::from_chars(
        repetition.data() + at, repetition.data() + repetition.size(), number);
    if (error == std::errc::invalid_argument) {
      ++at;
      continue;
    }
    numbers.push_back(error == std::errc() ? number
                                           : std::numeric_limits<int>::max());
    at = static_cast<size_t>(end - repetition.data());
  }
  return numbers;
}

constexpr int kMostRepeats = 1000;

// Returns whether the numbers of a repetition are invalid, as in `{1001}`. RE2
// reports the same error for `(.{1000}){1000}`, where each repetition is valid
// and only the number of copies, 1,000,000, is too large.
bool IsBadRepetition(std::string_view argument) {
  const std::vector<int> numbers = NumbersOf(argument);
  const bool too_many =
      std::any_of(numbers.begin(), numbers.end(),
                  [](int number) { return number > kMostRepeats; });
  return too_many || !std::is_sorted(numbers.begin(), numbers.end());
}

std::string RepetitionHelp(std::string_view argument) {
  const std::vector<int> numbers = NumbersOf(argument);
  if (numbers.size() == 2 && numbers[1] < numbers[0] &&
      numbers[0] <= kMostRepeats) {
    return "write the smaller number first: `{" + std::to_string(numbers[1]) +
           "," + std::to_string(numbers[0]) + "}`";
  }
  return "RE2 repeats at most 1000 times, nested counts multiplied: "
         "write `+` or `*`";
}

}  // namespace

PatternFault ExplainFault(std::string_view pattern, std::string_view error,
                          std::string_view argument) {
  PatternFault fault;
  fault.end = pattern.size();
  const bool is_name =
      error.find("invalid named capture") != std::string_view::npos;
  if (is_name ||
      error.find("invalid perl operator") != std::string_view::npos) {
    for (const Lacking& lacking : kLacking) {
      // `argument` is the beginning of the group that RE2 refuses, such as
      // `(?=` or `(?P<1a>`. A feature is skipped unless its text begins with
      // `argument`, or `argument` begins with its text.
      if (!argument.starts_with(lacking.text) &&
          !lacking.text.starts_with(argument)) {
        continue;
      }
      if (is_name != (lacking.text == kNamedGroup)) continue;
      const size_t at = FindGroup(
          pattern, is_name && !argument.empty() ? argument : lacking.text);
      if (at == std::string_view::npos) continue;
      fault.reason = lacking.reason;
      fault.help = lacking.help;
      fault.begin = at;
      fault.end = at + lacking.text.size();
      return fault;
    }
  }
  if (error.find("invalid escape") != std::string_view::npos) {
    const size_t at = FindBackReference(pattern);
    const bool about_digit = argument.size() >= 2 && argument[0] == '\\' &&
                             argument[1] >= '1' && argument[1] <= '9';
    if (at != std::string_view::npos && about_digit) {
      fault.reason = "back-references are not part of RE2";
      fault.help = "spell the alternatives out, one rule each";
      fault.begin = at;
      fault.end = at + 2;
      return fault;
    }
  }
  fault.reason = std::string(error);
  if (!argument.empty()) {
    const size_t at = pattern.find(argument);
    if (at != std::string_view::npos) {
      fault.begin = at;
      fault.end = at + argument.size();
    }
    if (error.find("invalid escape") != std::string_view::npos &&
        argument.size() >= 2) {
      fault.help = EscapeHelp(argument[1]);
    }
  }
  if (error.find("repetition size") != std::string_view::npos) {
    fault.help = RepetitionHelp(argument);
  } else if (error.find("no argument for repetition") !=
                 std::string_view::npos ||
             error.find("bad repetition") != std::string_view::npos) {
    const auto regex = RegexOfGlob(pattern);
    fault.help = regex ? "a pattern is a regular expression and not a glob: "
                         "write `" +
                             *regex + "`"
                       : "put something before it, or escape it: `\\*`";
  } else if (error.find("missing )") != std::string_view::npos) {
    fault.help = "close the group, or escape the parenthesis: `\\(`";
  } else if (error.find("unexpected )") != std::string_view::npos) {
    fault.help = "open the group, or escape the parenthesis: `\\)`";
  } else if (error.find("missing ]") != std::string_view::npos) {
    fault.help = "close the class, or escape the bracket: `\\[`";
  }
  return fault;
}

bool CheckPattern(const re2::RE2& re, const Pattern& pattern,
                  Findings& findings) {
  if (re.ok()) {
    if (pattern.text.find('\0') != std::string_view::npos) {
      findings.Add(code::kRegexSemantic, pattern.place,
                   "the pattern holds a NUL byte, which no name has",
                   "remove it");
      return false;
    }
    return true;
  }
  const bool too_large = re.error_code() == RE2::ErrorPatternTooLarge ||
                         (re.error_code() == RE2::ErrorRepeatSize &&
                          !IsBadRepetition(re.error_arg()));
  const PatternFault fault =
      ExplainFault(pattern.text, re.error(), re.error_arg());
  constexpr size_t kShown = 200;
  std::string message =
      "pattern " +
      (pattern.text.size() <= kShown ? "`" + std::string(pattern.text) + "`"
                                     : ShortQuote(pattern.text)) +
      " is not usable: " + fault.reason;
  if (fault.begin > 0 || fault.end < pattern.text.size()) {
    message +=
        " at position " + std::to_string(fault.begin + 1) + " (`" +
        std::string(pattern.text.substr(fault.begin, fault.end - fault.begin)) +
        "`)";
  }
  std::string help = fault.help;
  if (re.error_code() == RE2::ErrorPatternTooLarge) {
    help = "write it with fewer or smaller repetitions";
  }
  findings.Add(too_large ? code::kRegexLimit : code::kRegexSyntax,
               Inside(pattern.place, pattern.text, fault.begin, fault.end),
               std::move(message), std::move(help));
  return false;
}

namespace {

// Searches for `text` from offset `at` on. Returns the offset after the text,
// or the size of the pattern if the text is not found.
size_t After(std::string_view pattern, std::string_view text, size_t at) {
  const size_t found = pattern.find(text, at);
  return found == pattern.npos ? pattern.size() : found + text.size();
}

size_t EscapeEnd(std::string_view pattern, size_t at) {
  if (pattern.substr(at, 2) == "\\Q") return After(pattern, "\\E", at + 2);
  // The braces of `\x{600}` and `\p{Greek}` are part of the escape, not a
  // repetition.
  const bool braces =
      pattern.substr(at + 2).starts_with('{') &&
      std::string_view("xpP").find(pattern[at + 1]) != std::string_view::npos;
  return braces ? After(pattern, "}", at + 2) : at + 2;
}

// Returns the offset after the class that begins at `at`. A `]` directly after
// `[` or `[^` is literal.
size_t ClassEnd(std::string_view pattern, size_t at) {
  ++at;
  if (pattern.substr(at).starts_with('^')) ++at;
  if (pattern.substr(at).starts_with(']')) ++at;
  while (at < pattern.size() && pattern[at] != ']') {
    if (pattern.substr(at, 2) == "[:") {
      at = After(pattern, ":]", at + 2);
    } else {
      at += pattern[at] == '\\' ? 2 : 1;
    }
  }
  return at + 1;
}

}  // namespace

size_t AtomEnd(std::string_view pattern, size_t at) {
  size_t end = at + 1;
  if (pattern[at] == '\\' && end < pattern.size()) end = EscapeEnd(pattern, at);
  if (pattern[at] == '[') end = ClassEnd(pattern, at);
  return std::min(end, pattern.size());
}

}  // namespace shardc
