// A digest of what a run did: every buffer that a collective or the program
// produced, tables, ledger and verdict. An injected fault changes it; a fault
// that leaves it equal to the clean run's had no effect.
#ifndef SHARDC_VERIFY_FAULTS_EVIDENCE_H_
#define SHARDC_VERIFY_FAULTS_EVIDENCE_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "exec/machine/ledger.h"
#include "exec/machine/seams.h"
#include "exec/machine/sharded.h"

namespace shardc::verify {

// Written by one thread: a run of a self-test has one.
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

// Returns the same seams with a recorder around them.
exec::Seams Watched(const exec::Seams& seams, Evidence& evidence);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_FAULTS_EVIDENCE_H_
