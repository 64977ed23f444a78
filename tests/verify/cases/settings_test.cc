#include "verify/cases/case.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "emit/verify/verify_json.h"
#include "source/json.h"
#include "verify/cases/grid.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {
namespace {

Case CaseOf(std::string_view operation, int64_t rows, int64_t keys) {
  Case out;
  out.operation = exec::FindOperation(operation);
  out.sizes.query_length = rows;
  out.sizes.key_length = keys;
  return out;
}

std::string MembersOf(const Case& test, bool all) {
  return TextOf([&](Sink& out) {
    JsonWriter json = JsonWriter::OfMembers(out);
    WriteSettingsMembers(json, test, all);
  });
}

TEST_CASE("blocks shrink with reduced sizes") {
  struct Fit {
    std::optional<int64_t> asked;
    int64_t given, length;  // of keys
    int64_t want;
    bool said;
  };
  constexpr Fit kFits[] = {
      // Without a requested block size, blocks have the usual size or, at a
      // shorter length, there are two and a shorter last one.
      {{}, 4096, 16, 6, false},
      {{}, 4096, 4096, 512, false},
      {{}, 4, 4, 2, false},
      // A requested block that is shorter than the reduced length is kept.
      {8, 4096, 16, 8, false},
      {1, 4096, 16, 1, false},
      {15, 4096, 16, 15, false},
      // If a requested block contained all keys, it is kept and still contains
      // all.
      {4096, 4096, 16, 4096, false},
      {1 << 20, 4096, 16, 1 << 20, false},
      // If a requested block was one of several but would contain all keys at
      // the reduced length, it is reduced.
      {16, 4096, 16, 6, true},
      {128, 4096, 16, 6, true},
      {4095, 4096, 16, 6, true},
      // The length was not reduced, so the block is kept.
      {512, 512, 512, 512, false},
  };
  for (const Fit& fit : kFits) {
    CAPTURE(fit.asked.value_or(-1));
    CAPTURE(fit.length);
    Case test = CaseOf("flash_attn2", 8, fit.length);
    SettingsRecord record;
    record.blocksize_k = fit.asked;
    ApplySettings(record, test);
    Sizes given = test.sizes;
    given.key_length = fit.given;
    FitBlocks(record, given, test);
    CHECK(test.settings.blocksize_k == fit.want);
    REQUIRE(test.remarks.size() == (fit.said ? 1 : 0));
    if (fit.said) {
      CHECK(test.remarks[0].find("`blocksize_k` " + std::to_string(*fit.asked) +
                                 " is " + std::to_string(fit.want)) == 0);
    }
    // The size of the other block was not requested and is unchanged.
    CHECK(test.settings.blocksize_q == 3);
  }
}

SettingsRecord Everything() {
  SettingsRecord out;
  out.runtime_dtype = Dtype::kBF16;
  out.softmax_dtype = Dtype::kF16;
  out.softmax_scale = 0.5;
  out.soft_cap = 20;
  out.dropout = 0.25;
  out.blocksize_q = 3;
  out.blocksize_k = 5;
  out.blocksize_b = 7;
  out.page_size = 9;
  out.sequence_axis = "sp";
  out.ring_axes = AxisGroup{"sp"};
  out.scan_ring_attention = false;
  out.order = SequenceOrder::kStriped;
  out.merge = DecodeMerge::kAllGather;
  out.block_mask = BlockMask::kCustom;
  out.global_blocks = 4;
  out.dot_bits = 8;
  return out;
}

TEST_CASE("each setting of a record reaches the case, and is shown") {
  const std::string whole =
      "\"runtime_dtype\": \"BF16\", \"softmax_dtype\": \"F16\", "
      "\"softmax_scale\": 0.5, \"soft_cap\": 20, \"dropout\": 0.25, "
      "\"blocksize_q\": 3, \"blocksize_k\": 5, \"blocksize_b\": 7, "
      "\"page_size\": 9, \"sequence_axis\": \"sp\", \"ring_axes\": [\"sp\"], "
      "\"scan_ring_attention\": false, \"order\": \"striped\", "
      "\"merge\": \"all_gather\", \"block_mask\": \"custom\", "
      "\"global_blocks\": 4, \"dot_bits\": 8";
  Case test = CaseOf("blocksparse", 8, 8);
  ApplySettings(Everything(), test);
  CHECK(MembersOf(test, true) == whole);
  CHECK(test.features.custom_blocks);
  CHECK(test.settings.runtime_dtype == Dtype::kBF16);
  CHECK_FALSE(test.settings.scan_ring);

  // An empty record changes nothing.
  Case other = test;
  ApplySettings({}, other);
  CHECK(MembersOf(other, true) == whole);
  CHECK(other.features.custom_blocks);
}

TEST_CASE(
    "operations that take quantised matmuls are those that implement them") {
  for (const exec::Operation* operation : exec::Operations()) {
    CAPTURE(operation->name);
    Case test = CaseOf(operation->name, 1, 8);
    test.mesh = MeshOf({{"dp", 1}});
    test.features.causal = true;
    test.settings.dot_bits = 8;
    const CaseResult result = RunCase(test);
    CHECK(operation->Takes(Setting::kDotBits) ==
          (result.status == Status::kPass));
    if (result.status != Status::kPass) {
      CHECK(result.reason.find("quantised to 8 bits") != std::string::npos);
    }
  }
}

TEST_CASE("a case shows the settings that its operation takes") {
  for (const exec::Operation* operation : exec::Operations()) {
    CAPTURE(operation->name);
    Case test = CaseOf(operation->name, 8, 8);
    Findings findings;
    const auto document = JsonDocument::Parse(
        MakeSource("settings", '{' + MembersOf(test, false) + '}'), findings);
    REQUIRE(document != nullptr);
    for (size_t i = 0; i < kSettingNames.size(); ++i) {
      CHECK(document->root().Find(kSettingNames[i]).has_value() ==
            operation->Takes(static_cast<Setting>(i)));
    }
    // 1/sqrt(16), the default.
    CHECK(document->root().Find("softmax_scale")->real() == 0.25);
  }
}

}  // namespace
}  // namespace shardc::verify
