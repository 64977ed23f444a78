// Lists the accelerators that shardc has profiles of, with the source of each
// figure.
#ifndef SHARDC_EMIT_COSTS_PROFILE_LIST_H_
#define SHARDC_EMIT_COSTS_PROFILE_LIST_H_

#include <string>

#include "source/sink.h"

namespace shardc {

std::string ProfileListText();
void WriteProfileListJson(Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_PROFILE_LIST_H_
