// Declares the program of the operation flash_decoding, for inputs that are
// already prepared (staging.h).
#ifndef SHARDC_EXEC_OPERATIONS_FLASH_DECODING_H_
#define SHARDC_EXEC_OPERATIONS_FLASH_DECODING_H_

#include "exec/attention/attention_problem.h"
#include "exec/attention/staging.h"
#include "exec/machine/machine.h"

namespace shardc::exec {

// Runs decoding on staged inputs. Keys and values are not copied, because they
// may be the buffers of a large cache.
OperationOutcome RunStagedDecoding(Machine& machine, Staged& staged,
                                   const OperationSettings& settings);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_OPERATIONS_FLASH_DECODING_H_
