// Prints the attention operations that `shardc verify` can run, and how each
// operation supports the sharding of each dimension.
#ifndef SHARDC_CLI_VERIFY_LIST_H_
#define SHARDC_CLI_VERIFY_LIST_H_

#include <string>

#include "source/sink.h"

namespace shardc::cli {

std::string OperationsText();
// Writes {"operations": [{"name", "summary", "supports": {"batch",
// "query_length", "key_length", "heads", "dim"}}]}. A value of `supports` is
// null if the operation does not support a split of that dimension.
void WriteOperationsJson(Sink& out);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_LIST_H_
