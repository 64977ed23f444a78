// The accelerators that figures are known of, each figure with its source.
#ifndef SHARDC_EMIT_COSTS_PROFILE_LIST_H_
#define SHARDC_EMIT_COSTS_PROFILE_LIST_H_

#include <string>

#include "source/sink.h"

namespace shardc {

std::string ProfileListText();
void WriteProfileListJson(Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_PROFILE_LIST_H_
