// Lists all commands in the order of `shardc --help`. A new command needs one
// line here, and its record (Command) in the file of its name.
#ifndef SHARDC_CLI_COMMANDS_H_
#define SHARDC_CLI_COMMANDS_H_

#include "cli/command.h"

#define SHARDC_COMMANDS(COMMAND) \
  COMMAND(kPlan)                 \
  COMMAND(kCheck)                \
  COMMAND(kExplain)              \
  COMMAND(kResolve)              \
  COMMAND(kAttention)            \
  COMMAND(kSplit)                \
  COMMAND(kMerge)                \
  COMMAND(kReshard)              \
  COMMAND(kVerify)               \
  COMMAND(kVerifyStep)           \
  COMMAND(kMesh)                 \
  COMMAND(kManifest)             \
  COMMAND(kRules)                \
  COMMAND(kCost)                 \
  COMMAND(kFit)                  \
  COMMAND(kSchedule)             \
  COMMAND(kSearch)               \
  COMMAND(kCalibrate)            \
  COMMAND(kAudit)                \
  COMMAND(kDiff)                 \
  COMMAND(kShow)                 \
  COMMAND(kReport)               \
  COMMAND(kSuggest)              \
  COMMAND(kInit)                 \
  COMMAND(kExport)               \
  COMMAND(kImport)               \
  COMMAND(kLsp)                  \
  COMMAND(kEval)                 \
  COMMAND(kSchema)               \
  COMMAND(kCompletion)

namespace shardc::cli {

#define SHARDC_DECLARE(name) extern const Command name;
SHARDC_COMMANDS(SHARDC_DECLARE)
#undef SHARDC_DECLARE

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMANDS_H_
