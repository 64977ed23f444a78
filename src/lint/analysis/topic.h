// Findings of lints, with the facts that they report, so that one cause gives
// one finding (lint/once.h), whichever lints were selected or ignored.
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
  // Most facts are reported by one lint only.
  LintFinding(Finding finding)  // NOLINT(google-explicit-constructor)
      : Finding(std::move(finding)) {}

  std::vector<Topic> reports;
  // The finding is removed if the remaining findings report all of these.
  std::vector<Topic> unless;
  // The part of `message` that names the parameters; may be empty.
  std::string subject;
  // If `cause` is not empty, findings of one code with the same cause are
  // joined, even at different rules; the message becomes `before`, all subjects
  // and `after`. If it is empty, findings are joined that differ only in their
  // subjects.
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
// A parameter, by a name of its group, that is replicated.
inline Topic ReplicatedTopic(const std::string& name) {
  return "whole " + name;
}
// This number of heads does not divide by this number of shards.
inline Topic HeadsTopic(int64_t heads, int64_t parts) {
  return "heads " + std::to_string(heads) + " over " + std::to_string(parts);
}
// A null decode rule, which does not replace the standard rule.
inline Topic DecodeNullTopic(std::string_view rule) {
  return "null " + std::string(rule);
}
// Nothing uses a mesh axis.
inline Topic UnusedAxisTopic(std::string_view axis) {
  return "unused " + std::string(axis);
}
// The rules were written for other names.
inline Topic NamingTopic() { return "other naming"; }
// A weight whose activation has to be resharded.
inline Topic ReshardTopic(const std::string& name) { return "reshard " + name; }
// A parameter that no rule matches.
inline Topic UnmatchedTopic(const std::string& name) {
  return "unmatched " + name;
}

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_TOPIC_H_
