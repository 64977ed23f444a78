// A digest of a run. It covers the results of collectives and reshards,
// outputs, tables and caches. It also covers the bytes sent, and whether the
// run passed. If the digests of the correct run and of a run with an injected
// fault are equal, the fault had no effect.
#ifndef SHARDC_TESTS_VERIFY_FAULTS_EVIDENCE_H_
#define SHARDC_TESTS_VERIFY_FAULTS_EVIDENCE_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"

namespace shardc::verify {

// Not thread-safe: each run of a self-test has its own Evidence.
class Evidence {
 public:
  void Add(uint64_t number);
  void Add(std::string_view text);
  void Add(std::span<const int64_t> table);
  void Add(const exec::Buffer& buffer);
  void Add(std::span<const exec::Buffer> buffers);
  void Add(const exec::ShardedTensor& tensor);
  void Add(const exec::Ledger& ledger);

  bool operator==(const Evidence&) const = default;

 private:
  uint64_t digest_ = 14695981039346656037u;
};

// Returns seams (replaceable steps of a run) that behave like `seams` and also
// add the results of these steps to `evidence`.
exec::Seams Watched(const exec::Seams& seams, Evidence& evidence);

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_FAULTS_EVIDENCE_H_
