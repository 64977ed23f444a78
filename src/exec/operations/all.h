// Declares every operation that table.h lists. The source of an operation does
// not include this file but declares only its own operation. Adding an
// operation therefore does not recompile the others.
#ifndef SHARDC_EXEC_OPERATIONS_ALL_H_
#define SHARDC_EXEC_OPERATIONS_ALL_H_

#include "exec/operations/operation.h"

namespace shardc::exec {

#define SHARDC_OPERATION(name) extern const Operation name;
#include "exec/operations/table.h"
#undef SHARDC_OPERATION

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_OPERATIONS_ALL_H_
