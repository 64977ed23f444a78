// One record per command, each declared by the file of its name.
#ifndef SHARDC_CLI_COMMANDS_H_
#define SHARDC_CLI_COMMANDS_H_

#include "cli/command.h"

namespace shardc::cli {

Run DeclareAttention(CLI::App& app);
Run DeclareCompletion(CLI::App& app);
Run DeclareCheck(CLI::App& app);
Run DeclareExplain(CLI::App& app);
Run DeclareImport(CLI::App& app);
Run DeclareManifest(CLI::App& app);
Run DeclareMerge(CLI::App& app);
Run DeclareMesh(CLI::App& app);
Run DeclarePlan(CLI::App& app);
Run DeclareReshard(CLI::App& app);
Run DeclareResolve(CLI::App& app);
Run DeclareRules(CLI::App& app);
Run DeclareSchema(CLI::App& app);
Run DeclareSplit(CLI::App& app);
Run DeclareVerify(CLI::App& app);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMANDS_H_
