// Computes the default values of axis rules, for the axis rules that no file
// sets. Most defaults are the value of another axis rule, which may itself be a
// default. The five kinds of parallelism default to mesh axes, such as tp for
// tensor_parallel. The default of `batch` joins the values of two rules. All
// other defaults are null. For example:
//
//   decode_kv_head -> kv_head -> tensor_parallel -> tp
//   batch -> fully_sharded_data_parallel, data_parallel -> [fsdp, dp]
#include "model/axis_rules.h"

#include <algorithm>
#include <utility>

namespace shardc {
namespace {

using R = AxisRule;

struct ModeRow {
  std::string_view name;
  std::string_view long_name;
};
constexpr std::array<ModeRow, 4> kModes = {{
    {"train", "__train__"},
    {"prefill", "__prefill__"},
    {"decode", "__autoregressive__"},
    {"insert", "__insert__"},
}};

constexpr std::array<std::string_view, kAxisRuleCount> kRuleNames = {
    "data_parallel",
    "fully_sharded_data_parallel",
    "tensor_parallel",
    "sequence_parallel",
    "expert_parallel",
    "batch",
    "sequence",
    "query_sequence",
    "head",
    "key_sequence",
    "hidden_state",
    "mlp_intermediate",
    "vocab",
    "expert",
    "expert_gate",
    "attention_dim",
    "kv_head",
    "attention_kv_dim",
    "bias_head_sequence",
    "bias_key_sequence",
    "decode_batch",
    "decode_query_sequence",
    "decode_head",
    "decode_key_sequence",
    "decode_attention_dim",
    "decode_kv_head",
    "decode_attention_kv_dim",
};

// The end of the names of PartitionAxis's fields.
constexpr std::string_view kFieldSuffix = "_axis";

constexpr std::array<R, 5> kParallelism = {
    R::kDataParallel, R::kFullyShardedDataParallel, R::kTensorParallel,
    R::kSequenceParallel, R::kExpertParallel};

constexpr std::pair<R, R> kTwins[] = {
    {R::kBatch, R::kDecodeBatch},
    {R::kQuerySequence, R::kDecodeQuerySequence},
    {R::kHead, R::kDecodeHead},
    {R::kKeySequence, R::kDecodeKeySequence},
    {R::kAttentionDim, R::kDecodeAttentionDim},
    {R::kKvHead, R::kDecodeKvHead},
    {R::kAttentionKvDim, R::kDecodeAttentionKvDim},
};

constexpr Token kTokens[] = {
    {"_", "_", std::nullopt},
    {"BATCH", "__BATCH__", R::kBatch},
    {"LENGTH", "__LENGTH__", R::kSequence},
    {"QUERY_LENGTH", "__QUERY_LENGTH__", R::kQuerySequence},
    {"KV_LENGTH", "__KV_LENGTH__", R::kKeySequence},
    {"EMBED", "__EMBED__", R::kHiddenState},
    {"HEAD", "__HEAD__", R::kHead},
    {"KV_HEAD", "__KV_HEAD__", R::kKvHead},
    {"HEAD_DIM", "__HEAD_DIM__", R::kAttentionDim},
    {"KV_HEAD_DIM", "__KV_HEAD_DIM__", R::kAttentionKvDim},
    {"MLP_INTERMEDIATE", "__MLP_INTERMEDIATE__", R::kMlpIntermediate},
    {"VOCAB", "__VOCAB__", R::kVocab},
    {"EXPERT", "__EXPERT__", R::kExpert},
    {"EXPERT_GATE", "__EXPERT_GATE__", R::kExpertGate},
    {"BIAS_HEAD_SEQ", "__BIAS_HEAD_SEQ__", R::kBiasHeadSequence},
    {"BIAS_KV_SEQ", "__BIAS_KV_SEQ__", R::kBiasKeySequence},
    {"DP", "__DATA_PARALLEL__", R::kDataParallel},
    {"FSDP", "__FULLY_SHARDED_DATA_PARALLEL__", R::kFullyShardedDataParallel},
    {"TP", "__TENSOR_PARALLEL__", R::kTensorParallel},
    {"EP", "__EXPERT_PARALLEL__", R::kExpertParallel},
    {"SP", "__SEQUENCE_PARALLEL__", R::kSequenceParallel},
};

AxisValue One(std::string_view axis) {
  return {.is_null = false, .axes = {std::string(axis)}};
}

AxisValue DefaultBatch(const AxisRules& rules) {
  AxisValue batch = rules.Value(R::kFullyShardedDataParallel);
  const AxisValue dp = rules.Value(R::kDataParallel);
  batch.is_null = batch.is_null && dp.is_null;
  batch.axes.insert(batch.axes.end(), dp.axes.begin(), dp.axes.end());
  return batch;
}

}  // namespace

std::string_view ModeName(Mode mode) {
  return kModes[static_cast<size_t>(mode)].name;
}

std::string_view ModeLongName(Mode mode) {
  return kModes[static_cast<size_t>(mode)].long_name;
}

std::optional<Mode> ParseMode(std::string_view text) {
  for (Mode mode : kAllModes) {
    if (text == ModeName(mode) || text == ModeLongName(mode)) return mode;
  }
  return std::nullopt;
}

bool IsGeneration(Mode mode) {
  return mode == Mode::kDecode || mode == Mode::kInsert;
}

std::string_view AxisRuleName(AxisRule rule) {
  return kRuleNames[static_cast<size_t>(rule)];
}

std::string AxisFieldName(AxisRule rule) {
  return std::string(AxisRuleName(rule)) + std::string(kFieldSuffix);
}

std::optional<AxisRule> ParseAxisRule(std::string_view name) {
  if (name.ends_with(kFieldSuffix)) name.remove_suffix(kFieldSuffix.size());
  const auto* it = std::find(kRuleNames.begin(), kRuleNames.end(), name);
  if (it == kRuleNames.end()) return std::nullopt;
  return static_cast<AxisRule>(it - kRuleNames.begin());
}

std::optional<AxisRule> ParseAxisField(std::string_view name) {
  return name.ends_with(kFieldSuffix) ? ParseAxisRule(name) : std::nullopt;
}

std::optional<AxisRule> DecodeTwin(AxisRule rule) {
  for (const auto& [standard, decode] : kTwins) {
    if (standard == rule) return decode;
  }
  return std::nullopt;
}

std::span<const AxisRule> ParallelismRules() { return kParallelism; }

AxisValue AxisRules::Value(AxisRule rule) const {
  if (const auto& value = Given(rule)) return *value;
  switch (rule) {
    case R::kDataParallel:
      return One("dp");
    case R::kFullyShardedDataParallel:
      return One("fsdp");
    case R::kTensorParallel:
      return One("tp");
    case R::kSequenceParallel:
      return One("sp");
    case R::kExpertParallel:
      return One("ep");
    case R::kBatch:
      return DefaultBatch(*this);
    default:
      break;
  }
  auto from = DerivedFrom(rule);
  return from ? Value(*from) : AxisValue{};
}

std::optional<AxisRule> DerivedFrom(AxisRule rule) {
  switch (rule) {
    case R::kSequence:
    case R::kQuerySequence:
    case R::kKeySequence:
      return R::kSequenceParallel;
    case R::kHead:
    case R::kKvHead:
    case R::kHiddenState:
    case R::kMlpIntermediate:
    case R::kVocab:
      return R::kTensorParallel;
    case R::kExpert:
      return R::kExpertParallel;
    case R::kDecodeBatch:
      return R::kBatch;
    case R::kDecodeHead:
      return R::kHead;
    case R::kDecodeKvHead:
      return R::kKvHead;
    case R::kDecodeKeySequence:
      return R::kKeySequence;
    default:
      return std::nullopt;
  }
}

std::span<const Token> BuiltinTokens() { return kTokens; }

const Token* FindToken(std::string_view name) {
  constexpr std::string_view kUnsharded = "EMPTY";
  for (const Token& token : kTokens) {
    const std::string_view full = token.long_name;
    if (name == token.short_name || name == full) return &token;
    if (!token.rule) {
      if (name == kUnsharded) return &token;
    } else if (name == full.substr(2, full.size() - 4)) {
      return &token;
    }
  }
  return nullptr;
}

std::string_view LayoutName(Layout layout) {
  return kLayoutNames[static_cast<size_t>(layout)];
}

std::optional<Layout> ParseLayout(std::string_view text) {
  for (Layout layout : kAllLayouts) {
    if (text == LayoutName(layout)) return layout;
  }
  return std::nullopt;
}

}  // namespace shardc
