// The operations and what each does with a split dimension, to print.
#ifndef SHARDC_CLI_VERIFY_LIST_H_
#define SHARDC_CLI_VERIFY_LIST_H_

#include <string>

#include "source/sink.h"

namespace shardc::cli {

std::string OperationsText();
// {"operations": [{"name", "summary", "supports": {"batch",
// "query_length", "key_length", "heads", "dim"}}]}; null where a split is
// unsupported.
void WriteOperationsJson(Sink& out);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_LIST_H_
