// What a run did: a digest of every buffer that a collective or the program
// handed on, of tables, ledger and verdict. A fault that was injected changes
// it; one that leaves it as the clean run's has changed nothing.
#ifndef SHARDC_VERIFY_FAULTS_EVIDENCE_H_
#define SHARDC_VERIFY_FAULTS_EVIDENCE_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "exec/machine/ledger.h"
#include "exec/machine/seams.h"
#include "exec/machine/sharded.h"

namespace shardc::verify {

// Fed by one thread: a run of a self-test has no more.
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

// The same seams, through which all that comes is taken down as well.
exec::Seams Watched(const exec::Seams& seams, Evidence& evidence);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_FAULTS_EVIDENCE_H_
