// The faults of pages and of latent attention. Each has the smallest cases that
// reveal it. For example, a case with int8 pages reveals a kernel that reads a
// neighbour's scale.
#include <utility>

#include "verify/cases/grid.h"
#include "verify/faults/fault_injection.h"

namespace shardc::verify {
namespace {

Probe PagedProbe(std::string_view operation, const Sizes& sizes,
                 const Assignment& axes) {
  Probe out;
  Case& test = out.test;
  test.operation = exec::FindOperation(operation);
  test.mesh = MeshOf({{"dp", 2}, {"tp", 2}});
  test.sizes = sizes;
  test.features.causal = true;
  test.settings.page_size = 4;
  test.specs = SpecsFor(test.layout, axes, 0, false);
  test.seed = 11;
  return out;
}

// Returns a probe (a case that should reveal a fault) whose requests are
// sharded over dp and whose heads are sharded over tp.
Probe SplitProbe(std::string_view operation) {
  Assignment axes;
  axes.batch = {"dp"};
  axes.heads = axes.key_heads = {"tp"};
  return PagedProbe(operation, {4, 2, 11, 4, 2, 8, 0}, axes);
}

// Adds the faults of pages, each with a case of an operation whose result the
// fault changes.
void AddPages(std::vector<InjectedFault>& out) {
  const auto add = [&](std::string_view name, std::string_view operation,
                       Fault fault) {
    out.push_back({name, "pages", InjectionOf(fault), {SplitProbe(operation)}});
  };
  add("cumulative-length-off-by-one", "ragged_page_attention_v2",
      Fault::kPagedCumulativeOff);
  add("page-table-transposed", "ragged_page_attention_v2",
      Fault::kPagedTableTransposed);
  add("keys-taken-for-values", "ragged_page_attention_v3",
      Fault::kPagedKeysAsValues);
  add("page-id-not-made-local", "unified_attention", Fault::kPagedIdNotLocal);
  add("foreign-page-clipped", "paged_flash_attention",
      Fault::kPagedForeignClipped);
  add("request-rows-by-modulo", "ragged_page_attention_v2",
      Fault::kPagedRowsByModulo);
}

// Adds faults in the scales and in the rounding of int8 pages.
void AddInt8Pages(std::vector<InjectedFault>& out) {
  const auto add = [&](std::string_view name, std::string_view operation,
                       Fault fault) {
    Probe probe = SplitProbe(operation);
    probe.test.kv_dtype = Dtype::kI8;
    out.push_back({name, "pages", InjectionOf(fault), {std::move(probe)}});
  };
  add("pages-neighbours-scale", "ragged_page_attention_v2",
      Fault::kPagedNeighbourScale);
  add("pages-first-scale-for-all", "ragged_page_attention_v3",
      Fault::kPagedFirstScale);
  add("pages-127-on-one-side", "unified_attention", Fault::kPagedUneven127);
  add("pages-largest-wraps", "paged_flash_attention",
      Fault::kPagedPositiveWraps);
}

// Adds the fault of a kernel that runs one request too many as a decoding
// request.
void AddDistribution(std::vector<InjectedFault>& out) {
  out.push_back({"distribution-one-off",
                 "pages",
                 InjectionOf(Fault::kPagedDistributionOff),
                 {SplitProbe("ragged_page_attention_v3")}});
}

void AddLatent(std::vector<InjectedFault>& out) {
  Assignment axes;
  axes.batch = {"dp"};
  axes.dim = axes.value_dim = {"tp"};
  const Probe probe = PagedProbe("multi_latent_ragged_page_attention_v1",
                                 {2, 1, 12, 4, 4, 16, 8}, axes);
  out.push_back({"latent-scale-by-rank",
                 "latent",
                 InjectionOf(Fault::kLatentScale),
                 {probe}});
  out.push_back({"rotated-part-on-each",
                 "latent",
                 InjectionOf(Fault::kLatentRopeOnEach),
                 {probe}});
}

void AddSharedPages(std::vector<InjectedFault>& out) {
  const auto add = [&](std::string_view name, Fault fault, Dtype dtype) {
    Probe probe;
    PagedTrace trace;
    trace.mesh = MeshOf({{"dp", 2}, {"tp", 2}});
    trace.page_axes = {"dp"};
    trace.head_axes = {"tp"};
    trace.dtype = dtype;
    probe.paged = std::move(trace);
    out.push_back({name, "pages", InjectionOf(fault), {std::move(probe)}});
  };
  add("shared-page-written", Fault::kPagedSharedWritten, Dtype::kF32);
  add("copied-without-scales", Fault::kPagedScaleNotCopied, Dtype::kI8);
  add("pages-zero-row-divides", Fault::kPagedZeroRowDivides, Dtype::kI8);
}

}  // namespace

std::vector<InjectedFault> PagedFaults() {
  std::vector<InjectedFault> out;
  AddPages(out);
  AddInt8Pages(out);
  AddDistribution(out);
  AddLatent(out);
  AddSharedPages(out);
  return out;
}

}  // namespace shardc::verify
