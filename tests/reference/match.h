// Implements match_partition_rules of eformer and fjformer, and the
// weight-decay mask, exactly: patterns have the syntax of Python's `re`, and
// are compiled only when a name reaches them.
#ifndef SHARDC_TESTS_REFERENCE_MATCH_H_
#define SHARDC_TESTS_REFERENCE_MATCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reference/values.h"

namespace shardc::reference {

struct PartitionRule {
  std::string pattern;
  PartitionSpec spec;
};

// Specs by path. Matching returns them, or the first failure in the order of
// visiting: `rule_not_found`, `invalid_regex`, `leaf_without_shape` (fjformer),
// and `python_only_syntax` for patterns that Python accepts but RE2 cannot
// express.
using Specs = std::map<std::string, PartitionSpec>;

struct EformerOptions {
  int64_t min_size = 0;  // 16384 when given as None
  bool strict = true;
};
inline constexpr int64_t kMinShardingSize = 16384;

Result<Specs> MatchEformer(std::span<const PartitionRule> rules,
                           const Tree& tree, const EformerOptions& options);
Result<Specs> MatchFjformer(std::span<const PartitionRule> rules,
                            const Tree& tree);

// Returns, by path, whether weight decay applies: false if one of the patterns
// is found in the path.
Result<std::map<std::string, bool>> WeightDecayMask(
    std::span<const std::string> exclusions, const Tree& tree);

}  // namespace shardc::reference

#endif  // SHARDC_TESTS_REFERENCE_MATCH_H_
