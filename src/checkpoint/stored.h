// A checkpoint as it is stored: whole tensors in safetensors files, or the
// pieces that an earlier split has made of them.
#ifndef SHARDC_CHECKPOINT_STORED_H_
#define SHARDC_CHECKPOINT_STORED_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/ownership.h"
#include "checkpoint/transfer.h"
#include "importers/safetensors_set.h"
#include "source/finding.h"

namespace shardc {

using Metadata = std::vector<std::pair<std::string, std::string>>;

struct StoredTensor {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::kF32;
  std::vector<SourcePiece> pieces;  // apart, together the whole tensor
};

struct Stored {
  std::vector<SourceFile> files;
  std::vector<StoredTensor> tensors;  // the checkpoint's order
  Metadata metadata;                  // of the first file that has a key
};

// A `.safetensors` file, a Hugging Face index or a directory of either. The
// files must be there.
std::optional<Stored> ReadStored(const std::string& path, Findings& findings);

// A directory that holds `shards.json`. Every file is checked against the
// index, and the pieces of every tensor must make it whole.
std::optional<Stored> ReadStoredPieces(const std::string& directory,
                                       Findings& findings);

// Reads the pieces whose checksums are recorded and compares them: of several
// processes each its share, so that together they read all. `verified` counts
// them. Findings: unreadable.
bool VerifyStored(const Stored& stored, const ProcessShare& share,
                  int64_t* verified, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_STORED_H_
