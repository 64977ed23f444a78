// Semantic (logical) axes such as HEAD, the axis rules that map them to mesh
// axes, and run-time modes.
#ifndef SHARDC_MODEL_AXIS_RULES_H_
#define SHARDC_MODEL_AXIS_RULES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"

namespace shardc {

enum class Mode : uint8_t { kTrain, kPrefill, kDecode, kInsert };
inline constexpr std::array<Mode, 4> kAllModes = {Mode::kTrain, Mode::kPrefill,
                                                  Mode::kDecode, Mode::kInsert};

std::string_view ModeName(Mode mode);                  // "decode"
std::string_view ModeLongName(Mode mode);              // "__autoregressive__"
std::optional<Mode> ParseMode(std::string_view text);  // accepts both names
bool IsGeneration(Mode mode);  // true for decode and insert

// The axis rules. The five parallelism axes come first, and the rules for
// decoding last.
enum class AxisRule : uint8_t {
  kDataParallel,
  kFullyShardedDataParallel,
  kTensorParallel,
  kSequenceParallel,
  kExpertParallel,
  kBatch,
  kSequence,
  kQuerySequence,
  kHead,
  kKeySequence,
  kHiddenState,
  kMlpIntermediate,
  kVocab,
  kExpert,
  kExpertGate,
  kAttentionDim,
  kKvHead,
  kAttentionKvDim,
  kBiasHeadSequence,
  kBiasKeySequence,
  kDecodeBatch,
  kDecodeQuerySequence,
  kDecodeHead,
  kDecodeKeySequence,
  kDecodeAttentionDim,
  kDecodeKvHead,
  kDecodeAttentionKvDim,
};
inline constexpr size_t kAxisRuleCount = 27;

std::string_view AxisRuleName(AxisRule rule);  // "kv_head"
std::optional<AxisRule> ParseAxisRule(std::string_view name);
// Returns the rule whose value is the default of `rule`, as in eformer:
// tensor_parallel for head. Returns nullopt if the default is not the value of
// a single rule. The default of `batch`, for example, joins two rules.
std::optional<AxisRule> DerivedFrom(AxisRule rule);
// Returns the rule that replaces `rule` in generation modes (decode_kv_head for
// kv_head), or nullopt if no rule does.
std::optional<AxisRule> DecodeTwin(AxisRule rule);
std::span<const AxisRule> ParallelismRules();  // the five parallelism axes

// The value of a rule: one or more mesh axes, or none. `null` and an empty list
// both mean no axes, except for decode rules: there, null keeps the value of
// the standard rule.
struct AxisValue {
  bool is_null = true;
  AxisGroup axes;
  bool operator==(const AxisValue&) const = default;
};

// The axis rules of a file. A rule that is absent has its default value.
struct AxisRules {
  std::array<std::optional<AxisValue>, kAxisRuleCount> given;

  const std::optional<AxisValue>& Given(AxisRule rule) const {
    return given[static_cast<size_t>(rule)];
  }
  void Set(AxisRule rule, AxisValue value) {
    given[static_cast<size_t>(rule)] = std::move(value);
  }
  // Returns the value that the file gives, else the default. A parallelism axis
  // defaults to the mesh axis of the same meaning, such as `dp`. `batch`
  // defaults to the axes of fully_sharded_data_parallel and data_parallel, such
  // as [fsdp, dp]. A rule for which DerivedFrom() returns another rule has the
  // value of that rule. The default of any other rule is null.
  AxisValue Value(AxisRule rule) const;
  bool operator==(const AxisRules&) const = default;
};

// A built-in logical axis: its short name, its long name, and the axis rule
// that maps it to mesh axes. `_` has no rule.
struct Token {
  std::string_view short_name;  // "KV_HEAD"
  std::string_view long_name;   // "__KV_HEAD__"
  std::optional<AxisRule> rule;
};
std::span<const Token> BuiltinTokens();
// Finds a logical axis by its short or long name; null if there is none.
const Token* FindToken(std::string_view name);

}  // namespace shardc

#endif  // SHARDC_MODEL_AXIS_RULES_H_
