// Removes redundant findings. A topic is a fact that a finding reports. Each
// finding lists the topics that it reports (`reports`), and may list topics
// that make it redundant (`unless`). A finding without `unless` always stays.
// The other findings are visited by level, and within a level the findings that
// report the most topics come first. A finding is removed if the findings that
// stay so far report all topics of its `unless`:
//
//   SHD101 reports the topic "dead rule 4", so SHD105 about rule 4 is removed.
//   If SHD101 is ignored, no finding reports the topic, and SHD105 stays.
//
// Then findings with the same cause, or with messages that differ only in their
// parameters, are joined. The places of all findings except the first become
// labels:
//
//   "`a` is split", "`b` is split" at one rule  ->  "`a` and `b` are split"
#include "lint/once.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "lint/analysis/phrase.h"

namespace shardc {
namespace {

// Returns, indexed by finding, whether the finding stays because it is not
// redundant.
std::vector<bool> Untold(const FindingSink& findings) {
  std::vector<size_t> order(findings.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto rank = [&](size_t i) {
    const LintFinding& one = findings[i];
    return std::tuple(!one.unless.empty(), static_cast<int>(one.level),
                      -static_cast<int64_t>(one.reports.size()),
                      one.code->number);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank(a) < rank(b); });
  std::vector<bool> stays(findings.size());
  std::set<Topic> reported;
  for (size_t i : order) {
    const LintFinding& one = findings[i];
    stays[i] =
        one.unless.empty() || std::any_of(one.unless.begin(), one.unless.end(),
                                          [&](const Topic& topic) {
                                            return reported.count(topic) == 0;
                                          });
    if (stays[i]) reported.insert(one.reports.begin(), one.reports.end());
  }
  return stays;
}

// Findings with equal keys are joined. If the finding has a cause, its key has
// the code, the level and the cause. Otherwise it has the code, the level, the
// place, the help, and the words of the message around the parameters.
using Key = std::tuple<int, int, const Source*, size_t, std::string,
                       std::string, std::string>;

// The key of a label: its place and its text. Labels with equal keys are equal.
using LabelKey = std::tuple<const Source*, size_t, std::string>;

struct Joined {
  size_t at = 0;  // index of the joined finding in the result
  std::vector<std::string> subjects;
  // The text of the joined message before its subjects, and after them.
  std::string before, after;
  // The subjects and labels that have been joined, for look-ups. Empty until a
  // second finding is joined to the first one.
  std::unordered_set<std::string> known;
  std::set<LabelKey> labels;
};

Key KeyOf(const LintFinding& one, const Joined& fresh) {
  const int code = one.code->number;
  const int level = static_cast<int>(one.level);
  if (!one.several.cause.empty()) {
    return {code, level, nullptr, 0, one.several.cause, "", ""};
  }
  return {code,
          level,
          one.place.source.get(),
          one.place.begin,
          fresh.before,
          fresh.after,
          one.help};
}

// Splits a message at its subject. Returns nullopt if it has no subject.
std::optional<Joined> Cut(const LintFinding& one) {
  const size_t at =
      one.subject.empty() ? std::string::npos : one.message.find(one.subject);
  if (at == std::string::npos) return std::nullopt;
  Joined out;
  out.subjects = {one.subject};
  out.before = one.message.substr(0, at);
  out.after = one.message.substr(at + one.subject.size());
  return out;
}

// Changes the words around the subject from singular to plural, such as " is "
// to " are ".
void MakeSeveral(const LintFinding& one, Joined& joined) {
  if (!one.several.cause.empty()) {
    joined.before = one.several.before;
    joined.after = one.several.after;
  } else if (joined.before.empty() && joined.after.starts_with(" is ")) {
    // The verb after the subject becomes plural, as in "`a` is split" and "`a`
    // and `b` are split", but not in "the size of `a` is 4".
    joined.after.replace(0, 4, " are ");
  }
}

bool SamePlace(const Place& a, const Place& b) {
  return a.source == b.source && a.begin == b.begin;
}

LabelKey KeyOf(const Label& label) {
  return {label.place.source.get(), label.place.begin, label.text};
}

void Join(Joined& joined, LintFinding& into, LintFinding&& more) {
  if (joined.known.empty()) {
    joined.known.insert(joined.subjects.front());
    for (const Label& label : into.labels) joined.labels.insert(KeyOf(label));
  }
  if (joined.known.insert(more.subject).second) {
    joined.subjects.push_back(more.subject);
    MakeSeveral(more, joined);
  }
  into.message = joined.before + ListText(joined.subjects) + joined.after;
  into.members.insert(into.members.end(), more.members.begin(),
                      more.members.end());
  std::ranges::move(more.params, std::back_inserter(into.params));
  if (!SamePlace(into.place, more.place)) {
    more.labels.insert(more.labels.begin(), {more.place, "and here"});
  }
  for (Label& label : more.labels) {
    if (joined.labels.insert(KeyOf(label)).second) {
      into.labels.push_back(std::move(label));
    }
  }
}

// Appends the names of each finding's members to its parameters. One parameter
// can be a member of several findings that were joined: an axis that three
// dimensions share is repeated twice. Each finding names it once.
std::vector<Finding> WithNames(FindingSink findings, const Texts& names) {
  std::vector<Finding> out;
  out.reserve(findings.size());
  // Element p is the position in `out`, counted from 1, of the last finding
  // that names parameter p, or 0 if none does.
  std::vector<size_t> last;
  for (LintFinding& one : findings) {
    Finding& finding = out.emplace_back(std::move(static_cast<Finding&>(one)));
    if (one.members.empty()) continue;
    if (last.empty()) last.resize(names.size());
    finding.params.reserve(finding.params.size() + one.members.size());
    for (const uint32_t member : one.members) {
      if (last[member] == out.size()) continue;
      last[member] = out.size();
      finding.params.emplace_back(names[member]);
    }
  }
  return out;
}

}  // namespace

std::vector<Finding> OnceEach(FindingSink findings, const Texts& names) {
  const std::vector<bool> stays = Untold(findings);
  FindingSink out;
  std::map<Key, Joined> seen;
  for (size_t i = 0; i < findings.size(); ++i) {
    if (!stays[i]) continue;
    LintFinding& one = findings[i];
    auto fresh = Cut(one);
    if (!fresh) {
      out.push_back(std::move(one));
      continue;
    }
    fresh->at = out.size();
    const auto [entry, first] = seen.try_emplace(KeyOf(one, *fresh), *fresh);
    if (first) {
      out.push_back(std::move(one));
    } else {
      Join(entry->second, out[entry->second.at], std::move(one));
    }
  }
  return WithNames(std::move(out), names);
}

}  // namespace shardc
