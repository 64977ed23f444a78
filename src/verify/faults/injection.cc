#include "verify/faults/injection.h"

namespace shardc::verify {

Injection InjectionOf(exec::Fault fault) {
  Injection out;
  out.inside = fault;
  InjectIntoCollectives(fault, out.seams);
  InjectIntoSlices(fault, out.seams);
  return out;
}

}  // namespace shardc::verify
