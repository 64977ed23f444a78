#include "verify/judge/explain.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "exec/attention/staging.h"
#include "exec/operations/operation.h"
#include "verify/cases/grid.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {
namespace {

Case Sound() {
  Assignment axes;
  axes.batch = {"dp"};
  axes.query_length = axes.key_length = {"sp"};
  Case test;
  test.operation = &exec::kFlashAttention;
  test.mesh = MeshOf({{"dp", 2}, {"sp", 2}});
  test.sizes = {4, 16, 16, 8, 4, 16, 0};
  test.specs = SpecsFor(test.layout, axes, 0, false);
  return test;
}

// Returns the result of a case in which the outputs of some devices are doubled
// or, with `last`, only the last number of each is changed.
CaseResult Spoiled(const std::vector<size_t>& devices, bool last = false) {
  exec::SliceSeam seam;
  seam.join = [&devices, last](const exec::Machine& machine,
                               const exec::Staged&,
                               exec::ShardedTensor& output) {
    if (machine.devices() == 1) return;
    for (const size_t device : devices) {
      std::vector<float>& own = output.local[device].real;
      if (last) {
        own.back() += 1;
        continue;
      }
      for (float& x : own) x *= 2;
    }
  };
  RunOptions options;
  options.seams.Set(std::move(seam));
  return RunCase(Sound(), options);
}

TEST_CASE("wrong numbers are reported with their devices, place and axis") {
  const CaseResult one = Spoiled({3});
  REQUIRE(one.status == Status::kFail);
  CHECK(one.reason.starts_with("output differs by "));
  CHECK(one.reason.find(" is allowed, on 1 device from 3 (dp=1 sp=1); first at "
                        "batch 2, token 8, head 0") != std::string::npos);
  for (const size_t device : {size_t{0}, size_t{1}, size_t{2}, size_t{3}}) {
    const std::string at = std::to_string(device);
    CHECK(Spoiled({device}, true)
              .reason.find(", on 1 device from " + at +
                           " (dp=" + (device < 2 ? "0" : "1") +
                           " sp=" + (device % 2 == 0 ? "0" : "1") +
                           "); first at batch " + (device < 2 ? "1" : "3") +
                           ", token " + (device % 2 == 0 ? "7" : "15") +
                           ", head 7") != std::string::npos);
  }
  const CaseResult along = Spoiled({1, 3});
  CHECK(along.reason.find(", on 2 devices from 1 (dp=0 sp=1); first at batch "
                          "0, token 8, head 0") != std::string::npos);
  CHECK(along.axis == "sp");
  CHECK(Spoiled({2, 3}).axis == "dp");
  CHECK(Spoiled({2, 3}).help.starts_with("leave `dp` out of these tensors"));
  // If all devices are wrong, the reported axis is one that shards something.
  const CaseResult all = Spoiled({0, 1, 2, 3});
  CHECK(all.reason.find(", on 4 devices from 0 (dp=0 sp=0); first at batch 0, "
                        "token 0, head 0") != std::string::npos);
  CHECK_FALSE(all.axis.empty());
}

TEST_CASE("layouts that do not fit each other are both reported") {
  Case test = Sound();
  CHECK_FALSE(LayoutFault(test));
  test.specs.key[0] = {"sp"};
  test.specs.key[1] = {};
  auto fault = LayoutFault(test);
  REQUIRE(fault);
  CHECK(fault->message.starts_with(
      "the batch of the key is split over `sp` and the query's over `dp`"));
  test = Sound();
  test.specs.value[0] = {};
  fault = LayoutFault(test);
  REQUIRE(fault);
  CHECK(fault->axis == "dp");
  CHECK(fault->message.starts_with("the batch of the value is split over "));
  CHECK(fault->message.ends_with(" and the query's over `dp`"));
  test = Sound();
  test.specs.query = test.specs.output = {{"dp"}, {}, {}, {}};
  test.specs.key = test.specs.value = {{"dp"}, {}, {"sp"}, {}};
  fault = LayoutFault(test);
  REQUIRE(fault);
  CHECK(fault->axis == "sp");
  CHECK(
      fault->message.starts_with("key heads are split over `sp`, which the "
                                 "query's heads over "));
  // Query heads are sharded over sp, which divides the key heads in the first
  // case only.
  for (const auto& [key_heads, help] :
       {std::pair<int64_t, const char*>{4, "set kv_head to `sp`"},
        {1 + 2, "repeat key heads to the query's, or use vanilla"}}) {
    test = Sound();
    test.sizes.heads = 4 * key_heads;
    test.sizes.key_heads = key_heads;
    test.specs.query = test.specs.output = {{"dp"}, {}, {"sp"}, {}};
    test.specs.key = test.specs.value = {{"dp"}, {}, {}, {}};
    fault = LayoutFault(test);
    REQUIRE(fault);
    CHECK(fault->axis == "sp");
    CHECK(fault->help == help);
  }
}

}  // namespace
}  // namespace shardc::verify
