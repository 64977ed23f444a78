// A case's tensors in [batch, length, heads, dim] order, whatever its layout.
#ifndef SHARDC_VERIFY_CASES_SHAPES_H_
#define SHARDC_VERIFY_CASES_SHAPES_H_

#include "exec/attention/traffic.h"
#include "model/layout.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Of a layout.
Shape ShapeIn(Layout layout, int64_t batch, int64_t length, int64_t heads,
              int64_t dim);

// What key and value are stored in: kv_dtype where it is a real one (whole
// ones are another matter: values with scales), else the query's dtype.
Dtype KeyDtype(const Case& test);
// Pages that hold int8 with scales.
bool HasInt8Pages(const Case& test);
// What is computed in and given: runtime_dtype, else by JAX's promotion.
Dtype OutputDtype(const Case& test);

// Packed tokens are one row of batch x length.
exec::Laid QueryOf(const Case& test);
exec::Laid KeyOf(const Case& test);
exec::Laid ValueOf(const Case& test);
exec::Laid OutputOf(const Case& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_SHAPES_H_
