#include "model/axis_rules.h"

#include <doctest/doctest.h>

#include <set>

namespace shardc {
namespace {

using R = AxisRule;

AxisGroup Axes(const AxisRules& rules, AxisRule rule) {
  return rules.Value(rule).axes;
}

TEST_CASE("modes have two spellings") {
  for (Mode mode : kAllModes) {
    CHECK(ParseMode(ModeName(mode)) == mode);
    CHECK(ParseMode(ModeLongName(mode)) == mode);
  }
  CHECK(ParseMode("__autoregressive__") == Mode::kDecode);
  CHECK(ParseMode("decode") == Mode::kDecode);
  CHECK_FALSE(ParseMode("Train"));
  CHECK_FALSE(ParseMode("autoregressive"));
  CHECK_FALSE(ParseMode(""));
}

TEST_CASE("only decode and insert generate") {
  CHECK_FALSE(IsGeneration(Mode::kTrain));
  CHECK_FALSE(IsGeneration(Mode::kPrefill));
  CHECK(IsGeneration(Mode::kDecode));
  CHECK(IsGeneration(Mode::kInsert));
}

TEST_CASE("every axis rule has a name of its own") {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    auto rule = static_cast<AxisRule>(i);
    CHECK(names.insert(AxisRuleName(rule)).second);
    CHECK(ParseAxisRule(AxisRuleName(rule)) == rule);
  }
  CHECK(AxisRuleName(R::kDecodeAttentionKvDim) == "decode_attention_kv_dim");
  CHECK(ParseAxisRule("head_axis") == AxisRule::kHead);
}

TEST_CASE("defaults come from the parallelism axes") {
  const AxisRules rules;
  CHECK(Axes(rules, R::kBatch) == AxisGroup{"fsdp", "dp"});
  CHECK(Axes(rules, R::kDecodeBatch) == AxisGroup{"fsdp", "dp"});
  for (R rule : {R::kSequence, R::kQuerySequence, R::kKeySequence,
                 R::kDecodeKeySequence}) {
    CHECK(Axes(rules, rule) == AxisGroup{"sp"});
  }
  for (R rule : {R::kHead, R::kKvHead, R::kHiddenState, R::kMlpIntermediate,
                 R::kVocab, R::kDecodeHead, R::kDecodeKvHead}) {
    CHECK(Axes(rules, rule) == AxisGroup{"tp"});
  }
  CHECK(Axes(rules, R::kExpert) == AxisGroup{"ep"});
  for (R rule :
       {R::kExpertGate, R::kAttentionDim, R::kAttentionKvDim,
        R::kBiasHeadSequence, R::kBiasKeySequence, R::kDecodeQuerySequence,
        R::kDecodeAttentionDim, R::kDecodeAttentionKvDim}) {
    CHECK(rules.Value(rule) == AxisValue{});
  }
}

TEST_CASE("a given rule moves what derives from it") {
  AxisRules rules;
  rules.Set(R::kTensorParallel, {.is_null = false, .axes = {"model"}});
  rules.Set(R::kHead, {.is_null = false, .axes = {"h"}});
  rules.Set(R::kDataParallel, {.is_null = true, .axes = {}});
  CHECK(Axes(rules, R::kVocab) == AxisGroup{"model"});
  CHECK(Axes(rules, R::kDecodeHead) == AxisGroup{"h"});
  CHECK(Axes(rules, R::kDecodeKvHead) == AxisGroup{"model"});
  CHECK(Axes(rules, R::kBatch) == AxisGroup{"fsdp"});
  CHECK_FALSE(rules.Value(R::kBatch).is_null);
}

TEST_CASE("null and an empty list stay apart") {
  AxisRules rules;
  rules.Set(R::kDecodeHead, {.is_null = false, .axes = {}});
  CHECK_FALSE(rules.Value(R::kDecodeHead).is_null);
  CHECK(rules.Value(R::kDecodeHead).axes.empty());
}

TEST_CASE("seven rules have a decode twin") {
  int twins = 0;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    auto rule = static_cast<AxisRule>(i);
    auto twin = DecodeTwin(rule);
    if (!twin) continue;
    ++twins;
    CHECK(AxisRuleName(*twin) == "decode_" + std::string(AxisRuleName(rule)));
  }
  CHECK(twins == 7);
  CHECK_FALSE(DecodeTwin(R::kSequence));
}

TEST_CASE("tokens are found by either name") {
  CHECK(BuiltinTokens().size() == 21);
  const std::span<const Token> tokens = BuiltinTokens();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    // Compare positions in the list, because a failed check can print them.
    for (const std::string_view name : {token.short_name, token.long_name}) {
      const Token* found = FindToken(name);
      REQUIRE(found != nullptr);
      CHECK(static_cast<size_t>(found - tokens.data()) == i);
    }
    CHECK(token.rule.has_value() == (token.short_name != "_"));
  }
  REQUIRE(FindToken("__FULLY_SHARDED_DATA_PARALLEL__") != nullptr);
  CHECK(FindToken("__FULLY_SHARDED_DATA_PARALLEL__")->short_name == "FSDP");
  CHECK(FindToken("__FSDP__") == nullptr);
  CHECK(FindToken("head") == nullptr);
}

}  // namespace
}  // namespace shardc
