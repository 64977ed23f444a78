#include "verify/judge/run_case.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "exec/operations/operation.h"
#include "verify/cases/grid.h"

namespace shardc::verify {
namespace {

using exec::Operation;
using exec::Traffic;

// Wrong formulas of bytes: fewer than are sent; more; as many, but by another
// collective; as many, but by other devices; and none at all.
void Less(Traffic& traffic) {
  exec::kFlashAttention.bytes(traffic);
  traffic.Add(Collective::kAllGather, -4);
}
void More(Traffic& traffic) {
  exec::kFlashAttention.bytes(traffic);
  traffic.Add(Collective::kAllGather, 4);
}
void Other(Traffic& traffic) {
  exec::kFlashAttention.bytes(traffic);
  traffic.Add(Collective::kAllGather, -4);
  traffic.Add(Collective::kAllToAll, 4);
}
// An all_reduce of five float32 over four devices sends 32, 28, 28 and 32
// bytes. The formula gives each device 30, which has the same total.
void Skewed(Traffic& traffic) {
  exec::kFlashAttention.bytes(traffic);
  const int64_t before = traffic.sent().Total();
  traffic.AllReduce({"dp", "sp"}, 5);
  traffic.Add(Collective::kAllReduce, -30);
  REQUIRE(traffic.sent().Total() == before);
}
constexpr exec::Supports kAnything = {"local", "local", "local", "local",
                                      "local"};
Operation With(std::string_view name, void (&bytes)(Traffic&)) {
  return {.name = name,
          .summary = "flash_attn2 with a wrong formula",
          .supports = kAnything,
          .bytes = bytes,
          .run = exec::kFlashAttention.run};
}
const Operation kLess = With("less", Less), kMore = With("more", More),
                kOther = With("other", Other), kSkewed = With("skewed", Skewed);
Case CaseOf(const Operation& operation) {
  Assignment axes;
  axes.batch = {"dp"};
  axes.query_length = axes.key_length = {"sp"};
  Case test;
  test.operation = &operation;
  test.mesh = MeshOf({{"dp", 2}, {"sp", 2}});
  test.sizes = {4, 16, 16, 8, 4, 16, 0};
  test.specs = SpecsFor(test.layout, axes, 0, false);
  return test;
}

TEST_CASE("bytes are compared with the operation's own formula") {
  const CaseResult right = RunCase(CaseOf(exec::kFlashAttention));
  CHECK(right.status == Status::kPass);
  CHECK(right.ledger.TotalSent() > 8);
  for (const Operation* wrong : {&kLess, &kMore, &kOther, &kSkewed}) {
    CAPTURE(wrong->name);
    const CaseResult result = RunCase(CaseOf(*wrong));
    CHECK(result.status == Status::kFail);
    CHECK(result.failed == Check::kLedger);
    const std::string kind = wrong == &kSkewed ? "all_reduce" : "all_gather";
    CHECK(result.reason.starts_with("device 0 (dp=0 sp=0) sent "));
    CHECK(result.reason.find(" bytes by " + kind + " where the closed") !=
          std::string::npos);
    RunOptions lenient;
    lenient.checks = Checks().Without(Check::kLedger);
    CHECK(RunCase(CaseOf(*wrong), lenient).status == Status::kPass);
  }
}

// The output already has the query's sharding and is resharded to its own
// specs.
// Changes one element on the last device, whose replicas keep theirs.
exec::OperationOutcome ChangedOnLast(exec::Machine& machine,
                                     const exec::AttentionProblem& problem,
                                     const exec::AttentionSpecs& specs,
                                     const exec::OperationSettings& settings) {
  exec::OperationOutcome out =
      exec::kFlashAttention.run(machine, problem, specs, settings);
  out.output.local.back().real.back() += 1;
  return out;
}
const Operation kChangedOnLast = {.name = "changed",
                                  .summary = "flash_attn2, then changed",
                                  .supports = kAnything,
                                  .bytes = exec::kFlashAttention.bytes,
                                  .run = ChangedOnLast};

TEST_CASE("the axis over which replicas differ is named") {
  for (const auto& [mesh, axis] :
       {std::pair{MeshOf({{"dp", 2}, {"sp", 2}, {"tp", 2}}), "tp"},
        std::pair{MeshOf({{"tp", 2}, {"dp", 2}, {"sp", 2}}), "tp"},
        std::pair{MeshOf({{"dp", 2}, {"ep", 3}, {"sp", 2}}), "ep"}}) {
    const auto& given_axis = axis;
    CAPTURE(given_axis);
    Case test = CaseOf(kChangedOnLast);
    test.mesh = mesh;
    const CaseResult result = RunCase(test);
    CHECK(result.status == Status::kFail);
    CHECK(result.failed == Check::kReplicas);
    CHECK(result.reason.starts_with("output: "));
    CHECK(result.axis == axis);
  }
}

TEST_CASE("resharding an output to its own specs is counted") {
  Assignment axes;
  axes.batch = {"dp"};
  axes.query_length = axes.key_length = {"sp"};
  axes.heads = axes.key_heads = {"tp"};
  for (const Operation* operation :
       {&exec::kRing, &exec::kVanilla, &exec::kSdpa, &exec::kUlysses,
        &exec::kFlashAttention, &exec::kBlockSparse}) {
    for (const Spec& output : {Spec{{}, {"sp"}, {"tp"}},
                               {{"dp"}, {}, {"tp"}},
                               {{"dp"}, {"sp"}, {}},
                               {{"sp"}, {"dp"}, {"tp"}},
                               {{"dp"}, {"tp"}, {"sp"}},
                               {}}) {
      CAPTURE(operation->name);
      CAPTURE(SpecText(output));
      Case test = CaseOf(*operation);
      test.mesh = MeshOf({{"dp", 2}, {"sp", 2}, {"tp", 2}});
      test.specs = SpecsFor(test.layout, axes, 0, false);
      test.specs.output = output;
      const CaseResult result = RunCase(test);
      CHECK_MESSAGE(result.status == Status::kPass, result.reason);
    }
  }
}

// Ids, bias and masks follow tokens that are exchanged over a ring, whatever
// their own specs are, and the formula must count their bytes.
TEST_CASE("inputs that follow exchanged tokens are counted") {
  for (const Spec& ids : {Spec{{"dp"}, {"r", "u"}},
                          {{"dp"}, {"u", "r"}},
                          {{"dp"}, {}},
                          {{}, {"dp"}}}) {
    CAPTURE(SpecText(ids));
    Assignment axes;
    axes.batch = {"dp"};
    axes.query_length = axes.key_length = {"u", "r"};
    Case test = CaseOf(exec::kUlysses);
    test.mesh = MeshOf({{"dp", 2}, {"u", 2}, {"r", 2}});
    test.specs = SpecsFor(test.layout, axes, 0, false);
    test.settings.ring_axes = {"r"};
    test.features.segments = true;
    test.specs.query_segments = test.specs.key_segments = ids;
    const CaseResult result = RunCase(test);
    CHECK_MESSAGE(result.status == Status::kPass, result.reason);
    CHECK(result.ledger.TotalSent(Collective::kAllGather) > 0);
  }
}

// Computes the tolerance of a case from the numbers that the result has.
TEST_CASE("the tolerance is twice the error on one device, and a little") {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kF16}) {
    Case test = CaseOf(exec::kFlashAttention);
    test.dtype = dtype;
    CaseTensors tensors;
    const CaseResult result = RunCase(test, {}, &tensors);
    REQUIRE(result.status == Status::kPass);
    double largest = 0;
    for (double x : tensors.reference.data) {
      largest = std::max(largest, std::abs(x));
    }
    const double unit = dtype == Dtype::kF32    ? 0
                        : dtype == Dtype::kBF16 ? 0x1p-8
                                                : 0x1p-11;
    CHECK(result.tolerance <= 2 * result.unsharded.max_abs + 0x1p-20 * largest +
                                  1.3 * unit * largest + 0x1p-24);
    CHECK(result.error.max_abs <= 0.8 * result.tolerance);
  }
}

// The output has an error of a few roundings, which is the same on all devices.
TEST_CASE("an error of some ulps is detected") {
  for (const double ulps : {40.0, 400.0}) {
    RunOptions options;
    exec::SliceSeam seam;
    seam.join = [ulps](const exec::Machine& machine, const exec::Staged&,
                       exec::ShardedTensor& output) {
      // The run on one device must stay correct, because the tolerance depends
      // on it.
      if (machine.devices() == 1) return;
      for (exec::Buffer& local : output.local) {
        for (float& x : local.real) {
          x *= 1 + static_cast<float>(ulps) * 0x1p-23f;
        }
      }
    };
    options.seams.Set(std::move(seam));
    Case test = CaseOf(exec::kFlashAttention);
    const CaseResult result = RunCase(test, options);
    CAPTURE(result.tolerance);
    CHECK(result.status == Status::kFail);
    CHECK(result.failed == Check::kError);
  }
}

}  // namespace
}  // namespace shardc::verify
