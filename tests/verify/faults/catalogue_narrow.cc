// The faults of dtypes, of quantised matmuls and of softmax in 16 bits. Each
// has the smallest case that reveals it. For example, a matmul with 3 bits in
// place of 4 is revealed by a case with 4 bits.
#include <utility>

#include "verify/cases/grid.h"
#include "verify/faults/fault_injection.h"

namespace shardc::verify {
namespace {

Probe ProbeOf(std::string_view operation, const Assignment& axes) {
  Probe out;
  Case& test = out.test;
  test.operation = exec::FindOperation(operation);
  test.mesh = MeshOf({{"dp", 2}, {"sp", 2}, {"tp", 2}});
  test.sizes = {4, 16, 16, 8, 4, 16, 0};
  test.settings.blocksize_q = 4;
  test.settings.blocksize_k = 4;
  test.seed = 11;
  test.specs = SpecsFor(test.layout, axes, 0, false);
  return out;
}

}  // namespace

std::vector<InjectedFault> NarrowFaults() {
  std::vector<InjectedFault> out;
  const auto add = [&](std::string_view name, Fault fault, Probe probe) {
    out.push_back({name, "narrow", InjectionOf(fault), {std::move(probe)}});
  };
  Assignment heads;
  heads.batch = {"dp"};
  heads.query_length = heads.key_length = {"sp"};
  heads.heads = heads.key_heads = {"tp"};
  Assignment dim;
  dim.batch = {"dp"};
  dim.dim = {"tp"};

  Probe mixed = ProbeOf("flash_attn2", heads);
  mixed.test.dtype = Dtype::kBF16;
  mixed.test.kv_dtype = Dtype::kF32;
  add("narrower-dtype-for-both", Fault::kNarrowerDtype, mixed);

  Probe cut = ProbeOf("flash_attn2", heads);
  cut.test.settings.dot_bits = 8;
  add("quantised-with-the-neighbours-scale", Fault::kDotNeighbourScale, cut);
  add("quantised-with-one-scale-forgotten", Fault::kDotScaleForgotten, cut);
  add("quantised-with-half-a-rows-maximum", Fault::kDotMaximumOfHalf, cut);
  add("quantised-to-7-bits-for-8", Fault::kDotFewerBits, cut);
  Probe coarse = cut;
  coarse.test.settings.dot_bits = 4;
  add("quantised-to-3-bits-for-4", Fault::kDotFewerBits, coarse);
  Probe parts = ProbeOf("vanilla", dim);
  parts.test.settings.dot_bits = 8;
  add("quantised-with-a-parts-scale", Fault::kDotScaleOfPart, parts);

  Probe unseen = ProbeOf("vanilla", heads);
  unseen.test.features.masked_row = true;
  unseen.test.settings.softmax_dtype = Dtype::kF16;
  add("mask-overflows-a-narrow-softmax", Fault::kMaskOverflowsSoftmax, unseen);
  return out;
}

}  // namespace shardc::verify
