// Connects the processes that a launcher (mpirun, srun) started for one
// command, and lets them agree on an exit status.
#ifndef SHARDC_CLI_RANKS_H_
#define SHARDC_CLI_RANKS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "exec/machine/machine.h"
#include "source/finding.h"
#include "source/process.h"

namespace shardc::cli {

// What the launcher's environment variables state about this process. Without a
// launcher, there is one process with rank 0.
struct Launched {
  int64_t rank = 0, ranks = 1;
  // The name of the environment variable that gives `ranks`.
  std::string_view by = {};
};
Launched LaunchedAs(const Variable& variable);

class Ranks {
 public:
  // Initialises MPI if the launcher has started several processes. Returns
  // nullopt, with a finding on the first rank, if this build has no MPI, or if
  // MPI reports another number of processes than the launcher.
  static std::optional<Ranks> Join(Findings& findings);

  // Returns the transport between the processes; null if there is only one.
  exec::Transport* transport() const { return transport_.get(); }
  bool Leads() const {
    return transport_ == nullptr || transport_->rank() == 0;
  }
  int count() const { return transport_ == nullptr ? 1 : transport_->ranks(); }
  // Returns the number of threads for this rank: `wanted` or, if `wanted` is 0,
  // this rank's share of the machine's processors.
  int Threads(int wanted) const;

  // Returns a line that reports three numbers of bytes: `recorded`, the bytes
  // that the simulated mesh recorded for its collectives; `moved`, the bytes
  // that devices sent to each other; and `crossed`, the part of `moved` that
  // was sent to another rank.
  std::string MovedText(int64_t recorded, int64_t moved, int64_t crossed) const;

  // Returns true on every rank if `fine` is true on all ranks. Otherwise
  // returns false on every rank. Of the ranks on which `fine` is false, only
  // the first keeps its findings.
  bool All(bool fine, Findings& findings) const;
  // Returns, on every rank, the minimum of the values of `own` on all ranks.
  int64_t Least(int64_t own) const;
  // Returns the number of ranks on this machine.
  int on_machine() const { return on_machine_; }
  // Returns the exit status of this process. On the first rank it is `status`.
  // The other ranks return 0 and drop their findings. A launcher that sees a
  // failure of another rank could end the first rank before it has printed its
  // findings.
  int End(int status, Findings& findings) const;

 private:
  std::unique_ptr<exec::Transport> transport_;
  int on_machine_ = 1;
};

}  // namespace shardc::cli

#endif  // SHARDC_CLI_RANKS_H_
