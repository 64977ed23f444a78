// The shapes and shardings of a case's tensors as [batch, length, heads, dim],
// for every layout.
#ifndef SHARDC_VERIFY_CASES_SHAPES_H_
#define SHARDC_VERIFY_CASES_SHAPES_H_

#include "exec/attention/traffic.h"
#include "model/layout.h"
#include "verify/cases/case.h"

namespace shardc::verify {

Shape ShapeIn(Layout layout, int64_t batch, int64_t length, int64_t heads,
              int64_t dim);

// Returns the dtype in which key and value are stored: kv_dtype if it is a
// float type, else the query's dtype. Keys of an int8 kv_dtype are also in the
// query's dtype here; the operation quantises them.
Dtype KeyDtype(const Case& test);
bool HasInt8Pages(const Case& test);
// Returns the dtype of computation and output: runtime_dtype if it is set, else
// the common dtype of query, key and value by JAX's promotion.
Dtype OutputDtype(const Case& test);

// Return the shape and sharding of a tensor in the order [batch, length, heads,
// dim]. Packed tokens are one row of batch x length tokens.
exec::TensorSharding QueryOf(const Case& test);
exec::TensorSharding KeyOf(const Case& test);
exec::TensorSharding ValueOf(const Case& test);
exec::TensorSharding OutputOf(const Case& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_SHAPES_H_
