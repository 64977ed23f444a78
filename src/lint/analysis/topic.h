// Findings of lints, with the facts that they report. A fact is called a topic.
// lint/once.h uses topics to report each cause once, whichever lints are
// selected or ignored.
#ifndef SHARDC_LINT_ANALYSIS_TOPIC_H_
#define SHARDC_LINT_ANALYSIS_TOPIC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/finding.h"

namespace shardc {

// A fact that several lints may report, identified by a text.
using Topic = std::string;

struct LintFinding : Finding {
  LintFinding() = default;
  // Converts a finding that reports no fact of another lint, as most do.
  LintFinding(Finding finding)  // NOLINT(google-explicit-constructor)
      : Finding(std::move(finding)) {}

  std::vector<Topic> reports;
  // The facts that make this finding redundant: it is removed if other findings
  // report all of them. If empty, the finding always stays.
  std::vector<Topic> unless;
  // The part of `message` that names the parameters; may be empty.
  std::string subject;
  // If `cause` is not empty, findings with the same code and cause are joined,
  // even if they are at different rules; the message becomes `before`, all
  // subjects and `after`. If it is empty, only findings that are equal except
  // for their subjects are joined.
  struct Several {
    std::string cause, before, after;
  };
  Several several;
};

using FindingSink = std::vector<LintFinding>;

inline Topic DeadRuleTopic(size_t rule) {
  return "dead rule " + std::to_string(rule);
}
inline Topic CatchAllTopic(size_t rule) {
  return "catch-all " + std::to_string(rule);
}
// Returns the topic "a parameter group is replicated". `name` is its
// Facts::Example.
inline Topic ReplicatedTopic(const std::string& name) {
  return "whole " + name;
}
// Returns the topic "this number of shards does not divide this number of
// heads".
inline Topic HeadsTopic(int64_t heads, int64_t parts) {
  return "heads " + std::to_string(heads) + " over " + std::to_string(parts);
}
// Returns the topic "a decode rule is null, so it does not replace the standard
// rule".
inline Topic DecodeNullTopic(std::string_view rule) {
  return "null " + std::string(rule);
}
// Returns the topic "nothing uses this mesh axis".
inline Topic UnusedAxisTopic(std::string_view axis) {
  return "unused " + std::string(axis);
}
// Returns the topic "the rules were written for other names".
inline Topic NamingTopic() { return "other naming"; }
// Returns the topic "this weight forces its activation to be resharded".
inline Topic ReshardTopic(const std::string& name) { return "reshard " + name; }
// Returns the topic "no rule matches this parameter".
inline Topic UnmatchedTopic(const std::string& name) {
  return "unmatched " + name;
}

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_TOPIC_H_
