// Every operation, one file each; table.h lists them. An operation declares its
// own name, so that adding one recompiles no other.
#ifndef SHARDC_EXEC_OPERATIONS_ALL_H_
#define SHARDC_EXEC_OPERATIONS_ALL_H_

#include "exec/operations/operation.h"

namespace shardc::exec {

#define SHARDC_OPERATION(name) extern const Operation name;
#include "exec/operations/table.h"
#undef SHARDC_OPERATION

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_OPERATIONS_ALL_H_
