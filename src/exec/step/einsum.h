// Products of two parts, summed over what the result lacks.
#ifndef SHARDC_EXEC_STEP_EINSUM_H_
#define SHARDC_EXEC_STEP_EINSUM_H_

#include "exec/step/local_op.h"

namespace shardc::exec {

void RunEinsum(const LocalOp& local);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_EINSUM_H_
