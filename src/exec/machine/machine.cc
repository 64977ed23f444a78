#include "exec/machine/machine.h"

#include <algorithm>
#include <utility>

namespace shardc::exec {

Machine::Machine(const SimMesh& mesh, int threads, Seams seams)
    : mesh_(&mesh), seams_(std::move(seams)) {
  const int workers = std::min(threads, mesh.devices());
  if (workers > 1) pool_ = std::make_unique<ThreadPool>(workers);
}

void Machine::Local(const std::function<void(int)>& body) const {
  if (pool_ == nullptr) {
    for (int device = 0; device < devices(); ++device) body(device);
    return;
  }
  pool_->Run(devices(),
             [&](int64_t device, int) { body(static_cast<int>(device)); });
}

}  // namespace shardc::exec
