#include "exec/machine/machine.h"

#include <algorithm>
#include <utility>

namespace shardc::exec {

Machine::Machine(const SimMesh& mesh, int threads, Seams seams)
    : mesh_(&mesh), seams_(std::move(seams)) {
  const int workers = std::min(threads, mesh.end_held() - mesh.first_held());
  if (workers > 1) pool_ = std::make_unique<ThreadPool>(workers);
}

void Machine::Local(const std::function<void(int)>& body) const {
  const int first = mesh_->first_held(), end = mesh_->end_held();
  if (pool_ == nullptr) {
    for (int device = first; device < end; ++device) body(device);
    return;
  }
  pool_->Run(end - first,
             [&](int64_t held, int) { body(first + static_cast<int>(held)); });
}

}  // namespace shardc::exec
