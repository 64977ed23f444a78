#include "cost/setting_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "parse/keys.h"
#include "source/list.h"

namespace shardc::cost {
namespace {

// A value other than the default of each setting, and a wrong one.
const std::map<std::string_view, std::pair<std::string, std::string>> kSamples =
    {{"--batch", {"64", "0"}},
     {"--seq", {"4096", "4k"}},
     {"--kv-len", {"8192", "-1"}},
     {"--microbatches", {"4", "1099511627777"}},
     {"--reduce", {"each", "never"}},
     {"--optimizer", {"lion", "adam"}},
     {"--master-dtype", {"none", "int4"}},
     {"--moments-dtype", {"F32,BF16", "float32,f7"}},
     {"--grad-dtype", {"F32", "fp32"}},
     {"--offload-optimizer", {"true", ""}},
     {"--zero", {"3", "4"}},
     {"--remat", {"nothing_saveable", "something"}},
     {"--dtype", {"F32", "float8_e8m0"}},
     {"--logits-dtype", {"BF16", "float"}},
     {"--kv-dtype", {"I8", "I4"}},
     {"--operation", {"ring", "rings"}},
     {"--profile", {"h200-sxm", "h300"}},
     {"--stack", {"megatron", "megatrons"}},
     {"--loss", {"fused", "fuse"}},
     {"--loss-chunk", {"1024", "one"}},
     {"--overlap-tp", {"true", ""}},
     {"--matmul-dtype", {"mxfp8", "float8_e8m0"}},
     {"--dispatcher", {"deepep", "deep"}},
     {"--ep-overlap", {"true", ""}},
     {"--graphs", {"partial", "all"}},
     {"--routing", {"natural", "random"}},
     {"--capacity-factor", {"1.25", "65"}},
     {"--memory", {"80GiB", "80 apples"}}};

// What reports state apart from the settings.
constexpr std::string_view kUnstated[] = {"--memory"};

TEST_CASE("each setting is stated as it is read, and only in its modes") {
  for (const SettingRow& row : SettingRows()) {
    CAPTURE(row.flag);
    REQUIRE(kSamples.contains(row.flag));
    const auto& [text, wrong] = kSamples.at(row.flag);
    for (const Mode mode : {Mode::kTrain, Mode::kPrefill, Mode::kDecode}) {
      Findings findings;
      const std::vector<GivenSetting> given = {{row.flag, text}};
      const auto settings = ReadSettings(given, mode, Settings(), findings);
      REQUIRE(settings);
      std::string stated(row.flag);
      if (!row.value.empty()) stated += " " + text;
      for (const Stated which : {Stated::kAll, Stated::kChanges}) {
        const auto all = StatedSettings(*settings, mode, which);
        const bool states = HasEffect(row.modes, mode) &&
                            !IsAmong(row.flag, kUnstated) &&
                            (which == Stated::kAll || !row.always_stated);
        CHECK(std::count(all.begin(), all.end(), stated) == (states ? 1 : 0));
      }
    }
    if (wrong.empty()) continue;
    Findings findings;
    Settings to;
    CHECK_FALSE(ReadSetting(row.flag, wrong, to, findings));
    CHECK(findings.errors() == 1);
    // The place of the finding is the option's value.
    const Place& place = findings.all().front().place;
    REQUIRE(place.source != nullptr);
    CHECK(place.source->name() == row.flag);
  }
}

TEST_CASE("a wrong value is refused with what is right") {
  const std::vector<std::array<std::string, 3>> cases = {
      {"--zero", "4", "ZeRO has the stages 0 to 3"},
      {"--matmul-dtype", "float4_e2m1fn",
       "`float4_e2m1fn` has no scales, and no device multiplies such numbers "
       "without them"},
      {"--dtype", "float8_e8m0",
       "`float8_e8m0` is the dtype of the scales of blocks, and no matmul has "
       "operands of it"},
      {"--grad-dtype", "fp32",
       "`fp32` is not a dtype of at least one byte per element, such as "
       "bfloat16"},
      {"--batch", "1099511627777", "`--batch` is more than 2^40"},
      {"--capacity-factor", "0", "`0` is no number from 0.1 to 64"},
      {"--routing", "even", "`even` is none of: balanced, natural"},
      {"--loss", "", ""}};
  for (const auto& [flag, text, message] : cases) {
    const auto& given_flag = flag;
    CAPTURE(given_flag);
    Findings findings;
    Settings to;
    CHECK(ReadSetting(flag, text, to, findings) == message.empty());
    if (message.empty()) continue;
    CHECK(findings.all().back().message == message);
  }
}

TEST_CASE("settings that are not given have their defaults, and say nothing") {
  for (const Mode mode : {Mode::kTrain, Mode::kPrefill, Mode::kDecode}) {
    CHECK(StatedSettings(Settings(), mode, Stated::kChanges).empty());
  }
  Settings usual;
  Findings findings;
  CHECK(ReadSetting("--zero", "", usual, findings));
  CHECK(usual.zero == 0);
  CHECK(findings.empty());
}

TEST_CASE("only training divides its batch into micro-batches") {
  const std::vector<GivenSetting> given = {{"--microbatches", "4"}};
  for (const Mode mode : {Mode::kTrain, Mode::kPrefill, Mode::kDecode}) {
    Findings findings;
    const auto settings = ReadSettings(given, mode, Settings(), findings);
    REQUIRE(settings);
    CHECK(settings->microbatches == (mode == Mode::kTrain ? 4 : 1));
  }
}

TEST_CASE("one run reports all wrong values, each at its own place") {
  Findings findings;
  const Place place{MakeSource("shardc.yaml", "seq: many"), 5, 9};
  const std::vector<GivenSetting> given = {{"--seq", "many", place},
                                           {"--zero", "9"}};
  CHECK_FALSE(ReadSettings(given, Mode::kTrain, Settings(), findings));
  REQUIRE(findings.errors() == 2);
  CHECK(findings.all().front().place.source->name() == "shardc.yaml");
}

TEST_CASE("each key of a measured run is a setting, or one of an input") {
  const std::vector<std::string_view> others = {
      "schema",   "name",
      "mesh",     "rules",
      "manifest", "model",
      "stages",   "virtual",
      "schedule", "assign",
      "p2p",      "illegal",
      "step_s",   "tokens_per_second_per_device"};
  for (const std::string_view key : keys::kRun.keys) {
    if (std::count(others.begin(), others.end(), key) > 0) continue;
    std::string flag = "--" + std::string(key);
    std::replace(flag.begin(), flag.end(), '_', '-');
    CAPTURE(flag);
    CHECK(kSamples.contains(flag));
    CHECK(SettingRowOf(flag).flag == flag);
  }
}

}  // namespace
}  // namespace shardc::cost
