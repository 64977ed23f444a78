#include "exec/machine.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace shardc::exec {

void Machine::Local(const std::function<void(int)>& body) const {
  const int count = devices();
  const int workers = std::min(threads_, count);
  if (workers <= 1) {
    for (int device = 0; device < count; ++device) body(device);
    return;
  }
  std::vector<std::thread> pool;
  for (int worker = 0; worker < workers; ++worker) {
    pool.emplace_back([&, worker] {
      for (int d = worker; d < count; d += workers) body(d);
    });
  }
  for (std::thread& thread : pool) thread.join();
}

}  // namespace shardc::exec
