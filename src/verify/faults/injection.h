// What each fault of the catalogue does: decorators of the seams that programs
// go through (exec/machine/seams.h). All that is wrong is in this room.
#ifndef SHARDC_VERIFY_FAULTS_INJECTION_H_
#define SHARDC_VERIFY_FAULTS_INJECTION_H_

#include "exec/machine/fault.h"
#include "exec/machine/seams.h"

namespace shardc::verify {

struct Injection {
  exec::Seams seams;
  exec::Fault inside = exec::Fault::kNone;  // those within the arithmetic
};

Injection InjectionOf(exec::Fault fault);

// By seam; each leaves `seams` as they are where the fault is not its own.
void InjectIntoCollectives(exec::Fault fault, exec::Seams& seams);
void InjectIntoSlices(exec::Fault fault, exec::Seams& seams);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_FAULTS_INJECTION_H_
