// Computes the shapes of a case's tensors, in the case's layout and as [batch,
// length, heads, dim]. Before tensors of different layouts are compared, they
// are converted to the second form. For example:
//
//   thd, batch 2, length 8  ->  [16, heads, dim] and [2, 8, heads, dim]
#include "verify/cases/case.h"

#include "exec/attention/narrow.h"

namespace shardc::verify {
namespace {

// Returns the sharding in the order [batch, length, heads, dim] of a tensor
// that has the spec `spec` in the case's layout.
exec::TensorSharding Canonical(const Case& test, int64_t length, int64_t heads,
                               int64_t dim, const Spec& spec) {
  return exec::InBthd(
      ShapeIn(test.layout, test.sizes.batch, length, heads, dim), spec,
      test.layout);
}

}  // namespace

Shape ShapeIn(Layout layout, int64_t batch, int64_t length, int64_t heads,
              int64_t dim) {
  switch (layout) {
    case Layout::kBhtd:
      return {batch, heads, length, dim};
    case Layout::kThd:
      return {batch * length, heads, dim};
    case Layout::kBthd:
      break;
  }
  return {batch, length, heads, dim};
}

Dtype KeyDtype(const Case& test) {
  return test.kv_dtype && exec::IsRealDtype(*test.kv_dtype) ? *test.kv_dtype
                                                            : test.dtype;
}

bool HasInt8Pages(const Case& test) {
  return test.kv_dtype == Dtype::kI8 && test.operation->pages;
}

Dtype OutputDtype(const Case& test) {
  if (test.settings.runtime_dtype) return *test.settings.runtime_dtype;
  // The two dtypes are floating-point, so they always have a common dtype.
  return exec::Promote(test.dtype, KeyDtype(test)).value_or(Dtype::kF32);
}

exec::TensorSharding QueryOf(const Case& test) {
  const Sizes& n = test.sizes;
  return Canonical(test, n.query_length, n.heads, n.head_dim, test.specs.query);
}

exec::TensorSharding KeyOf(const Case& test) {
  const Sizes& n = test.sizes;
  return Canonical(test, n.key_length, n.key_heads, n.head_dim, test.specs.key);
}

exec::TensorSharding ValueOf(const Case& test) {
  const Sizes& n = test.sizes;
  return Canonical(test, n.key_length, n.key_heads, n.ValueDim(),
                   test.specs.value);
}

exec::TensorSharding OutputOf(const Case& test) {
  const Sizes& n = test.sizes;
  return Canonical(test, n.query_length, n.heads, n.ValueDim(),
                   test.specs.output);
}

}  // namespace shardc::verify
