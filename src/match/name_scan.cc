// Matches many names by several threads. The names are divided into one run for
// each thread. A thread numbers the sets of matching patterns in the order in
// which it finds them. Afterwards the sets of all threads are renumbered in the
// order of the first name that has the set. The result therefore does not
// depend on the number of threads. In this example, each thread has three
// names. The lines show the number of each name's set and, in braces, the sets:
//
//   thread 0:  0 0 1   {0: attn;   1: attn, kernel}
//   thread 1:  0 1 1   {0: kernel; 1: attn}
//   together:  0 0 1 2 0 0
//
// RE2 matches a pattern that the automaton does not support, and all patterns
// for a name that the automaton cannot match. A thread stops using its
// automaton if nearly every name needs new and large states. RE2::Set would be
// slow for the same reason, so RE2 then matches the remaining names pattern by
// pattern, after a filter (pattern_filter.h).
//
// The automaton is used because it was faster than RE2::Set in all
// measurements. The table has the milliseconds for building the automaton or
// the RE2::Set and matching one name of a model. With many names, the automaton
// takes between an eighth and a third of the time of RE2::Set.
//
//   rules      12    100   1,000
//   automaton  0.05  0.26  2.6
//   RE2::Set   0.07  0.8   6.9
#include "match/name_scan.h"

#include <re2/re2.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "match/automaton/automaton.h"
#include "match/automaton/nfa.h"
#include "source/thread_pool.h"

namespace shardc {
namespace {

// The smallest number of names for which a thread is started. Matching fewer
// names takes less time than starting a thread.
constexpr size_t kNamesPerThread = 4096;
// The bytes of memory for the states of all threads' automata together, and the
// smallest number of bytes for one thread.
constexpr size_t kStateBytes = size_t{64} << 20;
constexpr size_t kLeastStateBytes = size_t{4} << 20;

struct Tables {
  // The automaton; nullopt if RE2 matches all patterns.
  std::optional<Nfa> nfa;
  // A finder for the patterns that the automaton does not support.
  std::optional<Re2Finder> outside;
  // A finder for all patterns. It matches the names that remain when a worker
  // stops using the automaton.
  std::optional<Re2Finder> filtered;
};

Tables MakeTables(std::span<const CompiledPattern> patterns, char separator,
                  Engine engine) {
  Tables tables;
  if (engine == Engine::kRe2) return tables;
  std::vector<NfaPattern> texts;
  for (const CompiledPattern& pattern : patterns) {
    texts.push_back({pattern.re->pattern(), pattern.separator});
  }
  tables.nfa = Nfa::Build(texts, separator, Prefixes::kShared);
  if (!tables.nfa) return tables;
  std::vector<uint32_t> all(patterns.size());
  std::iota(all.begin(), all.end(), 0);
  tables.filtered.emplace(patterns, all, Re2Finder::Method::kFiltered);
  std::vector<uint32_t> outside;
  for (uint32_t p = 0; p < patterns.size(); ++p) {
    if (!tables.nfa->inside[p]) outside.push_back(p);
  }
  if (!outside.empty()) tables.outside.emplace(patterns, outside);
  return tables;
}

class Worker {
 public:
  Worker(const Tables& tables, const Re2Finder& all,
         const AutomatonLimits& limits)
      : tables_(tables), all_(all) {
    if (tables.nfa) automaton_.emplace(*tables.nfa, sets_, limits);
  }

  // Finds the set of patterns that match each name. Sets numbers[i] to the
  // number that sets() gives to the set of name i.
  void Scan(Texts names, char separator, std::span<uint32_t> numbers) {
    for (size_t i = 0; i < names.size(); ++i) {
      numbers[i] = NumberOf(names[i], separator);
    }
  }
  const RuleSets& sets() const { return sets_; }

 private:
  uint32_t NumberOf(std::string_view name, char separator) {
    std::optional<uint32_t> number;
    if (automaton_) number = automaton_->Find(name);
    if (number && !tables_.outside) return *number;
    found_.clear();
    if (number) {
      const auto known = sets_.Of(*number);
      found_.assign(known.begin(), known.end());
    }
    FinderFor(number.has_value()).Find(name, separator, scratch_, found_);
    std::sort(found_.begin(), found_.end());
    return sets_.Number(found_);
  }

  // Returns the finder for the patterns that still have to be matched: those
  // that the automaton does not support, or all patterns if the automaton did
  // not match the name.
  const Re2Finder& FinderFor(bool by_automaton) const {
    if (by_automaton) return *tables_.outside;
    const bool given_up = automaton_ && automaton_->given_up();
    return given_up ? *tables_.filtered : all_;
  }

  const Tables& tables_;
  const Re2Finder& all_;
  RuleSets sets_;
  std::optional<Automaton> automaton_;
  Re2Finder::Scratch scratch_;
  std::vector<uint32_t> found_;
};

// Replaces a worker's own set numbers in `numbers` by the numbers of the same
// sets in `sets`, which all workers share.
void Renumber(const RuleSets& own, std::span<uint32_t> numbers,
              RuleSets& sets) {
  constexpr uint32_t kNew = UINT32_MAX;
  std::vector<uint32_t> shared(own.size(), kNew);
  for (uint32_t& number : numbers) {
    if (shared[number] == kNew) {
      shared[number] = sets.Number(own.Of(number));
    }
    number = shared[number];
  }
}

}  // namespace

Matches ScanNames(std::span<const CompiledPattern> patterns,
                  const Re2Finder& all, Texts names, char separator,
                  const MatchOptions& options) {
  const Tables tables = MakeTables(patterns, separator, options.engine);
  const size_t count =
      std::clamp<size_t>(names.size() / kNamesPerThread, 1,
                         static_cast<size_t>(std::max(options.threads, 1)));
  const size_t run = (names.size() + count - 1) / count;
  AutomatonLimits limits;
  limits.bytes = std::max(kLeastStateBytes, kStateBytes / count);
  // A deque does not move its elements. Workers must not move, because they
  // hold pointers into themselves.
  std::deque<Worker> workers;
  for (size_t w = 0; w < count; ++w) {
    workers.emplace_back(tables, all, limits);
  }
  Matches matches;
  matches.set.resize(names.size());
  const auto run_of = [&](size_t w) {
    const size_t begin = std::min(names.size(), w * run);
    return std::pair(begin, std::min(run, names.size() - begin));
  };
  ParallelFor(static_cast<int64_t>(count), static_cast<int>(count),
              [&](int64_t task) {
                const auto w = static_cast<size_t>(task);
                const auto [begin, size] = run_of(w);
                workers[w].Scan(names.Part(begin, size), separator,
                                std::span(matches.set).subspan(begin, size));
              });

  RuleSets sets;
  for (size_t w = 0; w < count; ++w) {
    const auto [begin, size] = run_of(w);
    Renumber(workers[w].sets(), std::span(matches.set).subspan(begin, size),
             sets);
  }
  std::vector<int32_t> first(sets.size());
  matches.begin.push_back(0);
  for (uint32_t s = 0; s < sets.size(); ++s) {
    const auto rules = sets.Of(s);
    first[s] =
        rules.empty() ? Matches::kNone : static_cast<int32_t>(rules.front());
    matches.rules.insert(matches.rules.end(), rules.begin(), rules.end());
    matches.begin.push_back(static_cast<uint32_t>(matches.rules.size()));
  }
  matches.first.reserve(names.size());
  for (uint32_t set : matches.set) matches.first.push_back(first[set]);
  return matches;
}

}  // namespace shardc
