// Prints what man/commands.json is to hold.
#include <cstdio>

#include "cli/describe.h"

int main() {
  return std::fputs(shardc::cli::DescribeCommands().c_str(), stdout) < 0;
}
