// Defines the semantic (logical) axes such as HEAD, the axis rules that map
// them to mesh axes, and the run-time modes such as train and decode.
#ifndef SHARDC_MODEL_AXIS_RULES_H_
#define SHARDC_MODEL_AXIS_RULES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/mesh.h"

namespace shardc {

enum class Mode : uint8_t { kTrain, kPrefill, kDecode, kInsert };
inline constexpr std::array<Mode, 4> kAllModes = {Mode::kTrain, Mode::kPrefill,
                                                  Mode::kDecode, Mode::kInsert};

// Returns the short name of a mode, such as "decode".
std::string_view ModeName(Mode mode);
// Returns the long name of a mode, such as "__autoregressive__".
std::string_view ModeLongName(Mode mode);
// Parses the short or the long name of a mode; nullopt for any other text.
std::optional<Mode> ParseMode(std::string_view text);
bool IsGeneration(Mode mode);  // Returns true for the modes decode and insert.

// The axis rules. Each maps a logical axis, or a kind of parallelism, to mesh
// axes. The five kinds of parallelism come first, and the rules for decoding
// last.
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

// Returns the name of a rule, such as "kv_head".
std::string_view AxisRuleName(AxisRule rule);
// Returns the name of the rule's field in eformer's class PartitionAxis, such
// as "kv_head_axis".
std::string AxisFieldName(AxisRule rule);
// Returns the rule with this name or this field name: "kv_head" and
// "kv_head_axis" are the same rule.
std::optional<AxisRule> ParseAxisRule(std::string_view name);
// Returns the rule with this field name. Returns nullopt for "kv_head".
std::optional<AxisRule> ParseAxisField(std::string_view name);
// Returns the rule whose value is the default of `rule`, as in the library
// eformer. For example, `head` has the value of tensor_parallel by default.
// Returns nullopt if the default is not the value of a single rule. The default
// of `batch`, for example, joins the values of two rules.
std::optional<AxisRule> DerivedFrom(AxisRule rule);
// Returns the rule that replaces `rule` in generation modes (decode_kv_head for
// kv_head), or nullopt if no rule does.
std::optional<AxisRule> DecodeTwin(AxisRule rule);
// Returns the rules of the five kinds of parallelism.
std::span<const AxisRule> ParallelismRules();

// The value of an axis rule: one or more mesh axes, or no axes. `null` and an
// empty list both mean no axes, except in the rules for decoding. There, an
// empty list means no axes, and null means that the rule of the other modes
// applies (`kv_head` for `decode_kv_head`).
struct AxisValue {
  bool is_null = true;
  AxisGroup axes;
  bool operator==(const AxisValue&) const = default;
};

// The axis rules that a file gives. A rule that the file leaves out is nullopt
// in `given`, and Value() returns its default.
struct AxisRules {
  std::array<std::optional<AxisValue>, kAxisRuleCount> given;

  const std::optional<AxisValue>& Given(AxisRule rule) const {
    return given[static_cast<size_t>(rule)];
  }
  void Set(AxisRule rule, AxisValue value) {
    given[static_cast<size_t>(rule)] = std::move(value);
  }
  // Returns the value that the file gives for a rule, or else the rule's
  // default. A kind of parallelism defaults to the mesh axis of the same
  // meaning, such as `dp`. `batch` defaults to the axes of
  // fully_sharded_data_parallel and data_parallel, such as [fsdp, dp]. A rule
  // for which DerivedFrom() returns another rule has the value of that rule.
  // The default of any other rule is null.
  AxisValue Value(AxisRule rule) const;
  bool operator==(const AxisRules&) const = default;
};

// A built-in logical axis: its names, and the axis rule that maps it to mesh
// axes. Only the logical axis `_`, an unsharded dimension, has no rule.
struct Token {
  std::string_view short_name;  // The short name, such as KV_HEAD or TP.
  std::string_view long_name;   // The long name, such as __KV_HEAD__.
  std::optional<AxisRule> rule;
};
std::span<const Token> BuiltinTokens();
// Returns the built-in logical axis that has this name, or null. The name is
// the short name, the long name, or the long name without its underscores. The
// last is the name of eformer's constant: TENSOR_PARALLEL is TP, and EMPTY is
// `_`.
const Token* FindToken(std::string_view name);

enum class Layout : uint8_t {
  kBthd,  // [batch, length, heads, dim]
  kBhtd,  // [batch, heads, length, dim]
  // [tokens of all sequences, heads, dim], with the cumulative lengths of the
  // sequences. eformer does not have this order. The token dimension is sharded
  // like the batch dimension.
  kThd,
};

inline constexpr std::array<Layout, 3> kAllLayouts = {
    Layout::kBthd, Layout::kBhtd, Layout::kThd};
// The names of the dimension orders, in the order of the enumeration.
inline constexpr std::array<std::string_view, 3> kLayoutNames = {"bthd", "bhtd",
                                                                 "thd"};

std::string_view LayoutName(Layout layout);
std::optional<Layout> ParseLayout(std::string_view text);

}  // namespace shardc

#endif  // SHARDC_MODEL_AXIS_RULES_H_
