// Findings of lints, and their topics. A topic is a fact that a finding
// reports. lint/run.h removes a finding if other findings report the topics in
// its list `unless`, so that each cause is reported once.
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
  // Converts a finding that reports no topics. Most findings report none.
  LintFinding(Finding finding)  // NOLINT(google-explicit-constructor)
      : Finding(std::move(finding)) {}

  // Indices of affected parameters in the plan. OnceEach() appends their names
  // to `params`. Millions of indices are joined and compared much faster than
  // names.
  std::vector<uint32_t> members;
  std::vector<Topic> reports;
  // Topics that make this finding redundant. The finding is removed if other
  // findings report all of them. If empty, the finding is never removed.
  std::vector<Topic> unless;
  // The part of `message` that consists of the parameters' names; may be empty.
  std::string subject;
  // If `cause` is not empty, findings with the same code and cause are joined,
  // even if they are at different rules. The joined message is `before`, all
  // subjects, and `after`. If `cause` is empty, findings are joined only if
  // everything except their subjects is equal.
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
// Returns the topic "a parameter group is replicated". `name` is the name of
// one of its parameters (Facts::Example).
inline Topic ReplicatedTopic(const std::string& name) {
  return "whole " + name;
}
// Returns the topic "this number of shards does not divide this number of
// heads".
inline Topic HeadsTopic(int64_t heads, int64_t parts) {
  return "heads " + std::to_string(heads) + " over " + std::to_string(parts);
}
// Returns the topic "this axis rule for decode is null, so the standard axis
// rule applies".
inline Topic DecodeNullTopic(std::string_view rule) {
  return "null " + std::string(rule);
}
// Returns the topic "nothing uses this mesh axis".
inline Topic UnusedAxisTopic(std::string_view axis) {
  return "unused " + std::string(axis);
}
// Returns the topic "an error explains why the whole model is replicated".
inline Topic WholeModelTopic() { return "whole model"; }
// Returns the topic "the rules were written for other names".
inline Topic NamingTopic() { return "other naming"; }
// Returns the topic "this weight forces its activation to be resharded".
inline Topic ReshardTopic(const std::string& name) { return "reshard " + name; }
// Returns the topic "no rule matches this parameter".
inline Topic UnmatchedTopic(const std::string& name) {
  return "unmatched " + name;
}

// Bits of Lint::needs, the inputs that a lint needs. A lint is skipped if one
// of its inputs is missing.
enum Need : unsigned {
  kNeedsShapes = 1,
  kNeedsModel = 2,  // the model's configuration (config.json)
  kNeedsBatch = 4,
  kNeedsKvLen = 8,
  kNeedsMemory = 16,
  kNeedsHeads = 32,  // a config.json whose heads fit the shapes
};

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_TOPIC_H_
