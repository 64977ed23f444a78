// A case's tensors in [batch, length, heads, dim] order, whatever its layout.
#ifndef SHARDC_VERIFY_SHAPES_H_
#define SHARDC_VERIFY_SHAPES_H_

#include "exec/mesh_sim.h"
#include "exec/sharded.h"
#include "verify/case.h"

namespace shardc::verify {

// What key and value are stored in: kv_dtype where it is a real one (whole
// ones are another matter: values with scales), else the query's dtype.
Dtype KeyDtype(const Case& test);
// Pages that hold int8 with scales.
bool HasInt8Pages(const Case& test);
// What is computed in and given: runtime_dtype, else by JAX's promotion.
Dtype OutputDtype(const Case& test);

struct Laid {
  Shape shape;
  Spec spec;  // one entry per dimension
};

// Packed tokens are one row of batch x length.
Laid QueryOf(const Case& test);
Laid KeyOf(const Case& test);
Laid ValueOf(const Case& test);
Laid OutputOf(const Case& test);

// Elements that all devices together lack when a tensor goes from one layout
// to another: each device's target outside its source slice.
int64_t MovedElements(const exec::SimMesh& mesh, const Shape& shape,
                      const Spec& from, const Spec& to);

// Bytes that leave all devices over a case's program, by the closed formulas
// of exec/ledger.h and the layouts each operation states for itself; -1 where
// a case cannot be formed. Independent of the ledger.
int64_t ExpectedBytes(const Case& test, const exec::AttentionProblem& problem);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_SHAPES_H_
