// The processes that a launcher (mpirun, srun) started together for one
// command, and how they end alike.
#ifndef SHARDC_CLI_RANKS_H_
#define SHARDC_CLI_RANKS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "exec/machine/transport.h"
#include "source/finding.h"
#include "source/launcher.h"

namespace shardc::cli {

// What a launcher says of this process; one process where there is none.
struct Launched {
  int64_t rank = 0, ranks = 1;
  std::string_view by = {};  // the variable that says so
};
Launched LaunchedAs(const Variable& variable);

class Ranks {
 public:
  // Meets the others. Nothing, and a finding on the first rank, where this
  // build cannot, or MPI knows of fewer processes than the launcher.
  static std::optional<Ranks> Join(Findings& findings);

  // Null where there is one process.
  exec::Transport* transport() const { return transport_.get(); }
  bool Leads() const {
    return transport_ == nullptr || transport_->rank() == 0;
  }
  int count() const { return transport_ == nullptr ? 1 : transport_->ranks(); }
  // Threads of this rank, where its machine is shared with others.
  int Threads(int wanted) const;

  // Of bytes between devices, by the ledger and as they went.
  std::string MovedText(int64_t recorded, int64_t moved, int64_t crossed) const;

  // True on every rank if it is on all. Where it is not, findings stay on the
  // first rank that has some.
  bool All(bool fine, Findings& findings) const;
  // The least of all ranks' numbers, on all.
  int64_t Least(int64_t own) const;
  // Ranks that share this one's machine.
  int on_machine() const { return on_machine_; }
  // The first rank's status is the command's. The others end well: a launcher
  // that sees one fail ends the first before it has said why.
  int End(int status, Findings& findings) const;

 private:
  std::unique_ptr<exec::Transport> transport_;
  int on_machine_ = 1;
};

}  // namespace shardc::cli

#endif  // SHARDC_CLI_RANKS_H_
