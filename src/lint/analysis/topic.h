// What lints fill: findings that know what they tell, so that one cause gives
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

// A fact that several lints come upon, by a text of its own.
using Topic = std::string;

struct LintFinding : Finding {
  LintFinding() = default;
  // Most findings are told by one lint only.
  LintFinding(Finding finding)  // NOLINT(google-explicit-constructor)
      : Finding(std::move(finding)) {}

  std::vector<Topic> tells;
  // Left out where findings that stay tell all of these.
  std::vector<Topic> unless;
  // The words of `message` that name the parameters; empty: none.
  std::string subject;
  // What makes findings of one code one, whatever their rules; empty: only
  // their words. Then the message is `before`, all subjects and `after`.
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
// A parameter, by a name of its group, that lies whole on every device.
inline Topic WholeTopic(const std::string& name) { return "whole " + name; }
// Attention's heads do not divide by so many shards.
inline Topic HeadsTopic(int64_t heads, int64_t parts) {
  return "heads " + std::to_string(heads) + " over " + std::to_string(parts);
}
// A decode rule that is null, so that the standard one stays in force.
inline Topic DecodeNullTopic(std::string_view rule) {
  return "null " + std::string(rule);
}
// Nothing uses a mesh axis.
inline Topic UnusedAxisTopic(std::string_view axis) {
  return "unused " + std::string(axis);
}
// The rules were written for other names.
inline Topic NamingTopic() { return "other naming"; }
// A weight that does not meet its activation as that lies.
inline Topic ReshardTopic(const std::string& name) { return "reshard " + name; }
// A parameter that no rule matches.
inline Topic UnmatchedTopic(const std::string& name) {
  return "unmatched " + name;
}

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_TOPIC_H_
