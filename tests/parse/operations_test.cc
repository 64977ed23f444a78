#include "parse/operations.h"

#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parse/render.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

// The operations that the tests pass to the reader; they need not exist.
constexpr SettingSet kBlocks = {Setting::kBlocksizeQ, Setting::kBlocksizeK,
                                Setting::kBlocksizeB};
constexpr std::array<KnownOperation, 5> kKnown = {{
    {"vanilla", kCommonSettings | SettingSet{Setting::kDropout}},
    {"ring", kCommonSettings | kBlocks |
                 SettingSet{Setting::kDropout, Setting::kOrder,
                            Setting::kSequenceAxis, Setting::kScanRing}},
    {"flash_attn2", kCommonSettings | kBlocks | SettingSet{Setting::kDropout}},
    {"one_row", kCommonSettings | SettingSet{Setting::kMerge}},
    {"pages", kCommonSettings | SettingSet{Setting::kPageSize}},
}};

struct Read {
  explicit Read(std::string_view text) {
    const TemporaryFolder folder;
    file =
        ReadOperations(folder.Write("settings.yaml", text), kKnown, findings);
  }
  Findings findings;
  std::optional<OperationsFile> file;
};

TEST_CASE("a file with every setting") {
  Read read(R"(version: 1
defaults:
  runtime_dtype: bfloat16
  softmax_dtype: F32
  softmax_scale: 0.125
  soft_cap: 30
  dropout: 1e-1
  blocksize_q: 128
  blocksize_k: 64
  blocksize_b: 2
  page_size: 32
  sequence_axis: sp
  ring_axes: [sp, dp]
  scan_ring_attention: false
  order: striped
  merge: all_gather
  block_mask: global
  global_blocks: 0
  dot_bits: 8
operations:
  ring: {order: zig_zag, softmax_dtype: <f2, soft_cap: 0}
  vanilla:
)");
  CHECK(Render(read.findings) == "");
  REQUIRE(read.file);
  const SettingsRecord& all = read.file->defaults;
  CHECK(all.runtime_dtype == Dtype::kBF16);
  CHECK(all.softmax_dtype == Dtype::kF32);
  CHECK(all.softmax_scale == 0.125);
  CHECK(all.soft_cap == 30);
  CHECK(all.dropout == 0.1);
  CHECK(all.blocksize_q == 128);
  CHECK(all.blocksize_k == 64);
  CHECK(all.blocksize_b == 2);
  CHECK(all.page_size == 32);
  CHECK(all.sequence_axis == "sp");
  CHECK(all.ring_axes == std::vector<std::string>{"sp", "dp"});
  CHECK(all.sequence_axis_place.HasPosition());
  CHECK(all.scan_ring_attention == false);
  CHECK(all.order == SequenceOrder::kStriped);
  CHECK(all.merge == DecodeMerge::kAllGather);
  CHECK(all.block_mask == BlockMask::kGlobal);
  CHECK(all.global_blocks == 0);
  CHECK(all.dot_bits == 8);
  for (size_t i = 0; i < kSettingNames.size(); ++i) {
    CAPTURE(kSettingNames[i]);
    CHECK(all.Has(static_cast<Setting>(i)));
  }
  REQUIRE(read.file->operations.size() == 2);
  CHECK(read.file->Find("flash_attn2") == nullptr);
  REQUIRE(read.file->Find("ring") != nullptr);

  // A record wins over the defaults.
  SettingsRecord ring = all;
  ring.Override(*read.file->Find("ring"));
  CHECK(ring.order == SequenceOrder::kZigZag);
  CHECK(ring.softmax_dtype == Dtype::kF16);
  CHECK(ring.soft_cap == 0);
  CHECK(ring.blocksize_q == 128);
  ring.Drop(Setting::kOrder);
  CHECK_FALSE(ring.Has(Setting::kOrder));
  CHECK(ring.Has(Setting::kMerge));
}

TEST_CASE("files that say nothing") {
  for (std::string_view text :
       {"{}", "version: 1", "defaults:\noperations:", "operations: {}",
        "operations: {ring: {}, vanilla:}", "defaults: {}"}) {
    CAPTURE(text);
    Read read(text);
    CHECK(Render(read.findings) == "");
    REQUIRE(read.file);
    for (size_t i = 0; i < kSettingNames.size(); ++i) {
      CHECK_FALSE(read.file->defaults.Has(static_cast<Setting>(i)));
    }
  }
}

struct Message {
  std::string_view text, said;
};

TEST_CASE("what is wrong with a file") {
  constexpr Message kMessages[] = {
      {"[]",
       "1:1: error: a settings file is a list, not a mapping [schema]\n"
       "    its keys are `version`, `defaults` and `operations`\n"},
      {"version: 2",
       "1:10: error: version 2 of this format is not known [schema]\n"
       "    this program reads version 1\n"},
      {"default: {}",
       "1:1: error: unknown key `default` in a settings file [unknown-key]\n"
       "    did you mean `defaults`?\n"},
      {"operations: [ring]",
       "1:13: error: `operations` is a list, not a mapping of operations to "
       "settings [schema]\n"
       "    write `operations: {ring: {order: zig_zag}}`\n"},
      {"operations: {rign: {order: zig_zag}}",
       "1:14: error: no operation is called `rign` [unknown-key]\n"
       "    did you mean `ring`?\n"},
      {"operations: {zebra: {}}",
       "1:14: error: no operation is called `zebra` [unknown-key]\n"
       "    there are `vanilla`, `ring`, `flash_attn2`, `one_row` and "
       "`pages`\n"},
      {"operations: {ring: [order]}",
       "1:20: error: a record of settings is a list, not a mapping "
       "[schema]\n"
       "    its keys are `runtime_dtype`, `softmax_dtype`, `softmax_scale`, "
       "`soft_cap`, `dropout`, `blocksize_q`, `blocksize_k`, `blocksize_b`, "
       "`page_size`, `sequence_axis`, `ring_axes`, `scan_ring_attention`, "
       "`order`, `merge`, `block_mask`, `global_blocks` and `dot_bits`\n"},
      {"defaults: {blocksize: 3}",
       "1:12: error: unknown key `blocksize` in a record of settings "
       "[unknown-key]\n"
       "    did you mean `blocksize_q`?\n"},
      {"operations:\n  vanilla:\n    order: zig_zag\n",
       "3:5: error: `order` has no meaning for `vanilla` [schema]\n"
       "    it is a setting of `ring`\n"},
      {"operations: {flash_attn2: {page_size: 0}}",
       "1:28: error: `page_size` has no meaning for `flash_attn2` [schema]\n"
       "    it is a setting of `pages`\n"},
      {"operations: {ring: {order: zigzag}}",
       "1:28: error: `order` is the string `zigzag` [schema]\n"
       "    it can be `contiguous`, `zig_zag` or `striped`\n"},
      {"defaults: {order: zig_zag, order: zig_zag}",
       "1:28: error: key `order` is given twice [duplicate-key]\n"
       "    1:12: first given here\n"
       "    remove one of the two\n"},
      // All errors of a file are reported at once.
      {"defaults: {dropout: 1, blocksize_q: 0}\n"
       "operations: {ring: {merge: all_reduce}, rings: {}}",
       "1:21: error: `dropout` is `1`, not below 1 [number]\n"
       "1:37: error: `blocksize_q` is `0`, less than 1 [number]\n"
       "2:21: error: `merge` has no meaning for `ring` [schema]\n"
       "    it is a setting of `one_row`\n"
       "2:41: error: no operation is called `rings` [unknown-key]\n"
       "    did you mean `ring`?\n"},
  };
  for (const Message& message : kMessages) {
    CAPTURE(message.text);
    Read read(message.text);
    CHECK_FALSE(read.file);
    CHECK(Render(read.findings) == message.said);
  }
}

// Values that are refused, each with its message.
TEST_CASE("values out of place") {
  struct Value {
    Setting setting;
    std::string_view text, said;
  };
  const Value kValues[] = {
      {Setting::kDropout, "-0.5", "`dropout` is `-0.5`, less than 0"},
      {Setting::kDropout, "1.0", "`dropout` is `1.0`, not below 1"},
      {Setting::kDropout, ".nan",
       "`dropout` is the number `.nan`, not a decimal number"},
      {Setting::kDropout, "nan",
       "`dropout` is the string `nan`, not a decimal number"},
      {Setting::kDropout, "'0.1'",
       "`dropout` is the string `0.1`, not a decimal number"},
      {Setting::kDropout, "0,1",
       "`dropout` is the string `0,1`, not a decimal number"},
      {Setting::kDropout, "true",
       "`dropout` is the boolean `true`, not a decimal number"},
      {Setting::kDropout, "[0.1]", "`dropout` is a list, not a decimal number"},
      {Setting::kSoftmaxScale, "0", "`softmax_scale` is `0`, less than 1e-06"},
      {Setting::kSoftmaxScale, "1e400",
       "`softmax_scale` is the number `1e400`, not a decimal number"},
      {Setting::kSoftmaxScale, "-1",
       "`softmax_scale` is `-1`, less than 1e-06"},
      {Setting::kSoftmaxScale, "1e7",
       "`softmax_scale` is `1e7`, more than 1e+06"},
      {Setting::kSoftmaxScale, "0x1",
       "`softmax_scale` is the number `0x1`, not a decimal number"},
      {Setting::kSoftCap, "1e-9", "`soft_cap` is `1e-9`, less than 0.001"},
      {Setting::kSoftCap, "-1", "`soft_cap` is `-1`, less than 0"},
      {Setting::kBlocksizeQ, "1048577",
       "`blocksize_q` is `1048577`, more than 1048576"},
      {Setting::kBlocksizeK, "18446744073709551616",
       "`blocksize_k` is `18446744073709551616`, which does not fit in 64 "
       "bits"},
      {Setting::kBlocksizeB, "-1", "`blocksize_b` is `-1`, less than 1"},
      {Setting::kBlocksizeB, "2.0",
       "`blocksize_b` is `2.0`, which is not a decimal integer"},
      {Setting::kPageSize, "5000", "`page_size` is `5000`, more than 4096"},
      {Setting::kGlobalBlocks, "-1", "`global_blocks` is `-1`, less than 0"},
      {Setting::kDotBits, "16", "`dot_bits` is the number `16`"},
      {Setting::kSequenceAxis, "'s p'",
       "`sequence_axis` is `s p`, which holds something else than letters, "
       "digits, `_`, `-` and `.`"},
      {Setting::kSequenceAxis, "3",
       "`sequence_axis` is the number `3`, not a string"},
      {Setting::kRingAxes, "[sp, sp]",
       "`ring_axes` names `sp`, which is named twice"},
      {Setting::kRingAxes, "[sp, '']", "`ring_axes` names ``, which is empty"},
      {Setting::kRingAxes, "[sp, 3]",
       "an entry of `ring_axes` is the number `3`, not a string"},
      {Setting::kRingAxes, "{sp: 1}",
       "`ring_axes` is a mapping, not a list of strings"},
      {Setting::kScanRing, "no",
       "`scan_ring_attention` is the string `no`, not a boolean"},
      {Setting::kRuntimeDtype, "int8", "`runtime_dtype` is the string `int8`"},
      {Setting::kSoftmaxDtype, "float64",
       "`softmax_dtype` is the string `float64`"},
      {Setting::kMerge, "gather", "`merge` is the string `gather`"},
      {Setting::kBlockMask, "~", "`block_mask` is null"},
  };
  for (const Value& value : kValues) {
    CAPTURE(value.text);
    SettingsRecord record;
    Findings findings;
    CHECK_FALSE(ReadSetting("--flag", value.setting, std::string(value.text),
                            record, findings));
    REQUIRE(findings.errors() == 1);
    CHECK(findings.all()[0].message == value.said);
    CHECK(findings.all()[0].place.source->name() == "--flag");
    CHECK_FALSE(record.Has(value.setting));
  }
}

// Inserts, removes and changes single bytes of a valid file. Each result must
// be read, or have findings whose places are inside of the file.
TEST_CASE("every small change to a file is read or explained") {
  const std::string good =
      "version: 1\ndefaults: {soft_cap: 30.5, order: zig_zag}\n"
      "operations:\n  ring: {sequence_axis: a}\n  vanilla: {dropout: .1}\n";
  constexpr std::string_view kBytes = "\n :,{}[]&*!|>'\"%@`#-?0e.\x01\xff";
  const auto check = [](std::string text) {
    CAPTURE(text);
    Findings findings;
    const auto source = MakeSource("s.yaml", std::move(text));
    const auto file = ParseOperations(source, kKnown, findings);
    CHECK(file.has_value() != findings.HasErrors());
    for (const Finding& finding : findings.all()) {
      if (!finding.place.HasPosition()) continue;
      CHECK(finding.place.begin <= finding.place.end);
      CHECK(finding.place.end <= source->text().size());
    }
    return file.has_value();
  };
  REQUIRE(check(good));
  size_t read = 0, refused = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    std::string less = good;
    less.erase(at, 1);
    (check(less) ? read : refused)++;
    for (const char byte : kBytes) {
      std::string other = good, more = good;
      other[at] = byte;
      more.insert(at, 1, byte);
      (check(other) ? read : refused)++;
      (check(more) ? read : refused)++;
    }
  }
  CHECK(read > 100);
  CHECK(refused > 1000);
}

TEST_CASE("texts that are no value at all") {
  for (std::string_view text :
       {"", " ", "[1", "a: b: c", "'", "# 3", "1\n---\n2"}) {
    CAPTURE(text);
    SettingsRecord record;
    Findings findings;
    CHECK_FALSE(ReadSetting("--block-q", Setting::kBlocksizeQ,
                            std::string(text), record, findings));
    CHECK(findings.errors() > 0);
    CHECK_FALSE(record.blocksize_q);
  }
}

}  // namespace
}  // namespace shardc
