// Tests records of settings: looking up, dropping or replacing a setting must
// not affect the others.
#include "model/operation_settings.h"

#include <doctest/doctest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace shardc {
namespace {

// A setting and a function that gives it a value in a record.
struct Member {
  Setting setting;
  std::function<void(SettingsRecord&)> set;
};

std::vector<Member> Members() {
  using R = SettingsRecord;
  return {
      {Setting::kRuntimeDtype, [](R& r) { r.runtime_dtype = Dtype::kBF16; }},
      {Setting::kSoftmaxDtype, [](R& r) { r.softmax_dtype = Dtype::kF32; }},
      {Setting::kSoftmaxScale, [](R& r) { r.softmax_scale = 0.5; }},
      {Setting::kSoftCap, [](R& r) { r.soft_cap = 0; }},
      {Setting::kDropout, [](R& r) { r.dropout = 0; }},
      {Setting::kBlocksizeQ, [](R& r) { r.blocksize_q = 1; }},
      {Setting::kBlocksizeK, [](R& r) { r.blocksize_k = 2; }},
      {Setting::kBlocksizeB, [](R& r) { r.blocksize_b = 3; }},
      {Setting::kPageSize, [](R& r) { r.page_size = 4; }},
      {Setting::kSequenceAxis, [](R& r) { r.sequence_axis = "sp"; }},
      {Setting::kRingAxes,
       [](R& r) { r.ring_axes = std::vector<std::string>(); }},
      {Setting::kScanRing, [](R& r) { r.scan_ring_attention = false; }},
      {Setting::kOrder, [](R& r) { r.order = SequenceOrder::kContiguous; }},
      {Setting::kMerge, [](R& r) { r.merge = DecodeMerge::kAllReduce; }},
      {Setting::kBlockMask, [](R& r) { r.block_mask = BlockMask::kCausal; }},
      {Setting::kGlobalBlocks, [](R& r) { r.global_blocks = 0; }},
      {Setting::kDotBits, [](R& r) { r.dot_bits = 0; }},
  };
}

// The names of the settings that a record has.
std::vector<std::string_view> NamesOf(const SettingsRecord& record) {
  std::vector<std::string_view> out;
  for (size_t i = 0; i < kSettingNames.size(); ++i) {
    const auto setting = static_cast<Setting>(i);
    if (record.Has(setting)) out.push_back(SettingName(setting));
  }
  return out;
}

TEST_CASE("a record has, lays over and drops each setting alone") {
  const std::vector<Member> members = Members();
  REQUIRE(members.size() == kSettingNames.size());
  SettingsRecord all;
  for (const Member& member : members) member.set(all);
  CHECK(NamesOf(SettingsRecord()).empty());
  CHECK(NamesOf(all).size() == members.size());
  for (const Member& member : members) {
    CAPTURE(SettingName(member.setting));
    const std::vector<std::string_view> own = {SettingName(member.setting)};
    SettingsRecord one, under;
    member.set(one);
    CHECK(NamesOf(one) == own);
    under.Override(one);
    CHECK(NamesOf(under) == own);
    // Settings that the overriding record lacks are kept.
    under.Override(SettingsRecord());
    CHECK(NamesOf(under) == own);
    SettingsRecord rest = all;
    rest.Drop(member.setting);
    CHECK_FALSE(rest.Has(member.setting));
    CHECK(NamesOf(rest).size() == members.size() - 1);
    one.Drop(member.setting);
    CHECK(NamesOf(one).empty());
  }
}

TEST_CASE("the upper record's values win, with their places") {
  const auto at = [](size_t begin) {
    Place place;
    place.begin = begin;
    return place;
  };
  SettingsRecord under, over;
  under.page_size = 16;
  under.soft_cap = 30;
  under.ring_axes = {"sp"};
  under.ring_axes_place = at(1);
  under.sequence_axis = "sp";
  under.sequence_axis_place = at(2);
  over.page_size = 8;
  over.ring_axes = {"cp", "sp"};
  over.ring_axes_place = at(3);
  over.sequence_axis_place = at(4);
  SettingsRecord out = under;
  out.Override(over);
  CHECK(out.page_size == 8);
  CHECK(out.soft_cap == 30.0);
  CHECK(*out.ring_axes == std::vector<std::string>{"cp", "sp"});
  CHECK(out.ring_axes_place.begin == 3);
  // If the overriding record lacks a setting, its place is not taken from it.
  CHECK(*out.sequence_axis == "sp");
  CHECK(out.sequence_axis_place.begin == 2);
  over.sequence_axis = "cp";
  out.Override(over);
  CHECK(*out.sequence_axis == "cp");
  CHECK(out.sequence_axis_place.begin == 4);
}

TEST_CASE("operations are found by their name, and by what they take") {
  OperationsFile file;
  file.operations.emplace_back("ring", SettingsRecord());
  file.operations.emplace_back("sdpa", SettingsRecord());
  file.operations[1].second.page_size = 4;
  // Returns the index of the record that Find returns; -1 if it returns null.
  const auto found = [&](std::string_view name) {
    for (size_t i = 0; i < file.operations.size(); ++i) {
      if (file.Find(name) == &file.operations[i].second) {
        return static_cast<int>(i);
      }
    }
    return file.Find(name) == nullptr ? -1 : -2;
  };
  CHECK(found("ring") == 0);
  CHECK(found("sdpa") == 1);
  CHECK(found("rin") == -1);
  CHECK(found("") == -1);

  const std::vector<KnownOperation> operations = {
      {"a", {Setting::kDropout, Setting::kSoftCap}},
      {"b", {Setting::kSoftCap}},
      {"c", {}}};
  using Names = std::vector<std::string_view>;
  CHECK(TakenBy(Setting::kSoftCap, operations) == Names{"a", "b"});
  CHECK(TakenBy(Setting::kDropout, operations) == Names{"a"});
  CHECK(TakenBy(Setting::kOrder, operations) == Names{});
}

TEST_CASE("every setting has a name of its own") {
  const std::set<std::string_view> names(kSettingNames.begin(),
                                         kSettingNames.end());
  CHECK(names.size() == kSettingNames.size());
  CHECK(SettingName(Setting::kRuntimeDtype) == "runtime_dtype");
  CHECK(SettingName(Setting::kScanRing) == "scan_ring_attention");
  CHECK(SettingName(Setting::kDotBits) == "dot_bits");
}

}  // namespace
}  // namespace shardc
