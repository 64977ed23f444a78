// Directory: exec/machine. The simulated mesh: devices, buffers, collectives
// and the ledger of bytes sent.
// Its files include headers of these directories: source, model, floats, comm,
// exec/kernels.
//
// Simulates a mesh of devices as a bulk-synchronous machine: steps that every
// device runs on its own buffers alternate with collectives and reshards. Only
// collectives and reshards read the buffers of other devices.
#ifndef SHARDC_EXEC_MACHINE_MACHINE_H_
#define SHARDC_EXEC_MACHINE_MACHINE_H_

#include <functional>
#include <memory>

#include "exec/machine/ledger.h"
#include "exec/machine/mesh_sim.h"
#include "exec/machine/seams.h"
#include "source/thread_pool.h"

namespace shardc::exec {

class Machine {
 public:
  // `threads` is the number of host threads that simulate the devices. It never
  // changes a result.
  explicit Machine(const SimMesh& mesh, int threads = 1, Seams seams = {});

  const SimMesh& mesh() const { return *mesh_; }
  int devices() const { return mesh_->devices(); }
  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }
  // Runs `body(device)` for every device of this rank. `body` may write only to
  // that device's buffers.
  void Local(const std::function<void(int)>& body) const;
  // Returns the seam of type T (a replaceable step, see seams.h) that was
  // passed to the constructor, or the default seam.
  template <class T>
  const T& Seam() const {
    return seams_.Get<T>();
  }

 private:
  const SimMesh* mesh_;
  std::unique_ptr<ThreadPool> pool_;  // null if there is one thread
  Seams seams_;
  Ledger ledger_;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_MACHINE_H_
