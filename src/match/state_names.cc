// Finds optimizer states that a rule misses because its pattern is anchored.
// The path of a parameter is its name without a leading `params/`. A name is a
// state if it consists of a prefix and the path of a parameter whose first
// matching pattern is anchored. One more part may follow the path. For example,
// the anchored pattern `^params/dense` is the first that matches
// params/dense/kernel, whose path is dense/kernel:
//
//   opt_state/0/mu/dense/kernel      ends in dense/kernel: a missed state
//   opt_state/0/mu/dense/kernel/row  has one more part: another missed state
//
// Some names that end in the path of another parameter are parameters, not
// states: layers.0.norm.weight ends in norm.weight. Names are therefore grouped
// by their first part, such as `layers` or `opt_state`. The names of a group
// are states only if at least half of them end in the path of a parameter of
// another group.
#include "match/state_names.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "source/index.h"

namespace shardc {
namespace {

constexpr std::string_view kParams = "params";

// Returns a parameter's path without a leading `params`.
std::string_view Core(std::string_view name, char separator) {
  while (name.size() > kParams.size() && name.starts_with(kParams) &&
         name[kParams.size()] == separator) {
    name.remove_prefix(kParams.size() + 1);
  }
  return name;
}

std::string_view FirstPart(std::string_view name, char separator) {
  return name.substr(0, name.find(separator));
}

using Cores = std::unordered_map<std::string_view, uint32_t>;

// Returns the parameter with the longest path that follows a separator in
// `text` and extends to its end, or nullopt. In `opt_state/0/mu/dense/kernel`,
// this is the parameter with the path `dense/kernel`.
std::optional<uint32_t> Embedded(const Cores& cores, std::string_view text,
                                 char separator) {
  for (size_t at = text.find(separator); at != std::string_view::npos;
       at = text.find(separator, at + 1)) {
    auto found = cores.find(text.substr(at + 1));
    if (found != cores.end()) return found->second;
  }
  return std::nullopt;
}

// Returns the result of Embedded() for the text. If it is nullopt, returns the
// result of Embedded() for the text without its last part.
std::optional<uint32_t> ParameterIn(const Cores& cores, std::string_view text,
                                    char separator) {
  if (auto found = Embedded(cores, text, separator)) return found;
  const size_t last = text.rfind(separator);
  if (last == std::string_view::npos) return std::nullopt;
  return Embedded(cores, text.substr(0, last), separator);
}

// Counts the names with the same first part, such as `opt_state`: all of them
// (`names`), and those that look like copies of parameters elsewhere
// (`copies`). `opt_state.0.mu.layers.0.w` is such a copy, because it ends in
// `layers.0.w`, the name of a parameter whose first part is `layers`.
struct Copies {
  size_t names = 0;
  size_t copies = 0;
};

// Removes from `missed` the names that are not states. ParameterIn() is called
// again, with the paths of all `names` and not only those whose pattern is
// anchored. A name is removed if the result has another path than
// MissedState::parameter, such as a longer one. It is also removed if fewer
// than half of the names with its first part are copies (Copies).
void RemoveOthers(std::span<const std::string_view> names, char separator,
                  std::vector<MissedState>& missed) {
  Cores all;
  for (size_t i = 0; i < names.size(); ++i) {
    all.emplace(Core(names[i], separator), static_cast<uint32_t>(i));
  }
  std::unordered_map<std::string_view, Copies> by_first;
  for (const std::string_view name : names) {
    const std::string_view first = FirstPart(name, separator);
    Copies& copies = by_first[first];
    ++copies.names;
    const auto found = ParameterIn(all, name, separator);
    if (found && FirstPart(names[*found], separator) != first) ++copies.copies;
  }
  std::erase_if(missed, [&](const MissedState& one) {
    const std::string_view name = names[one.state];
    const auto found = ParameterIn(all, name, separator);
    const Copies& of = by_first[FirstPart(name, separator)];
    return !found || 2 * of.copies < of.names ||
           Core(names[*found], separator) !=
               Core(names[one.parameter], separator);
  });
}

// Returns the pattern without its opening groups `(`, `(?:`, `(?P<n>` and
// `(?i)`.
std::string_view PastOpening(std::string_view pattern) {
  while (pattern.starts_with('(')) {
    size_t length = 1;
    if (pattern.starts_with("(?")) {
      const size_t end = pattern.find_first_of(":>)");
      if (end == std::string_view::npos) return pattern;
      length = end + 1;
    }
    pattern.remove_prefix(length);
  }
  return pattern;
}

// Returns whether the pattern has a `|` outside of all groups and classes.
bool HasTopLevelAlternation(std::string_view pattern) {
  int depth = 0;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')') {
      --depth;
    } else if (c == '|' && depth == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool IsAnchoredAtStart(std::string_view pattern) {
  if (HasTopLevelAlternation(pattern)) return false;
  const std::string_view start = PastOpening(pattern);
  return start.starts_with('^') || start.starts_with("\\A");
}

std::vector<MissedState> FindMissedStates(
    std::span<const std::string_view> patterns, const Matches& matches,
    std::span<const std::string_view> names, char separator) {
  std::vector<MissedState> out;
  std::vector<bool> anchored;
  for (std::string_view pattern : patterns) {
    anchored.push_back(IsAnchoredAtStart(pattern));
  }
  if (std::find(anchored.begin(), anchored.end(), true) == anchored.end()) {
    return out;
  }
  Cores cores;
  for (size_t i = 0; i < names.size(); ++i) {
    const int32_t winner = matches.first[i];
    if (winner == Matches::kNone || !anchored[AsIndex(winner)]) {
      continue;
    }
    cores.emplace(Core(names[i], separator), static_cast<uint32_t>(i));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const auto parameter = ParameterIn(cores, names[i], separator);
    if (!parameter || *parameter == i) continue;
    const auto pattern = static_cast<uint32_t>(matches.first[*parameter]);
    const auto found = matches.Of(i);
    if (std::binary_search(found.begin(), found.end(), pattern)) continue;
    out.push_back({pattern, *parameter, static_cast<uint32_t>(i)});
  }
  if (!out.empty()) RemoveOthers(names, separator, out);
  return out;
}

}  // namespace shardc
