// Copies the arrays of a stored tree. Every needed chunk is decoded once, and
// the overlapping parts of outputs are written from memory.
#ifndef SHARDC_CHECKPOINT_TREE_COPY_H_
#define SHARDC_CHECKPOINT_TREE_COPY_H_

#include <cstdint>
#include <vector>

#include "checkpoint/copy.h"
#include "checkpoint/transfer.h"
#include "source/finding.h"
#include "stored/tree.h"

namespace shardc {

// Returns the largest number of bytes of memory that copying one chunk of the
// array needs.
int64_t ChunkMemory(const stored::Array& array);

// Returns false after a finding if the size or the modification time of a
// source has changed since the transfer was planned.
bool CheckPathsUnchanged(const Transfer& transfer, Findings& findings);

// Writes the pieces and sets their checksums as CopyPieces does, for a transfer
// whose `tree` is set.
bool CopyTree(const Transfer& transfer, const std::vector<CopyTarget>& files,
              Checksums& checksums, const CopyOptions& options,
              Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_TREE_COPY_H_
