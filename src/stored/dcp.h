// Reads the `.metadata` file of a checkpoint of torch.distributed.checkpoint
// (DCP), which lists the tensors, the saved pieces, and the place of each
// piece.
#ifndef SHARDC_STORED_DCP_H_
#define SHARDC_STORED_DCP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/manifest.h"
#include "source/finding.h"
#include "source/source.h"
#include "stored/box.h"
#include "stored/torch_archive.h"

namespace shardc::stored {

struct DcpPiece {
  Box box;             // has at least one element
  uint32_t file = 0;   // index into DcpMetadata::files
  int64_t offset = 0;  // offset of the `torch.save` archive in the file
  int64_t bytes = 0;   // size of the `torch.save` archive
};

struct DcpTensor {
  std::string name;
  std::vector<std::string> path;  // keys from the root of the saved tree
  // Whether each key of `path` is the index of an element of a list or a tuple.
  std::vector<bool> in_sequence;
  Shape shape;
  const TorchDtype* dtype = nullptr;  // never null
  std::vector<DcpPiece> pieces;       // no two pieces have the same box
};

// A value that is not a tensor.
struct DcpValue {
  std::string name;
  std::vector<std::string> path;
  std::vector<bool> in_sequence;
  // The place of the `torch.save` archive of the value. `piece.box` is not
  // used. `piece.bytes` is -1 if the metadata states no place that shardc can
  // use.
  DcpPiece piece;
};

struct DcpMetadata {
  std::vector<DcpTensor> tensors;  // names are distinct
  std::vector<DcpValue> others;
  std::vector<std::string> files;  // names of files in the same folder
};

inline constexpr int64_t kDcpMetadataLimitBytes = int64_t{256} << 20;

// Parses a `.metadata` file. On failure, returns nullopt and adds a finding.
// Its code is header (the file is not a pickle of DCP, or a record in it is
// malformed), name, path, overflow, duplicate-key or inexpressible.
std::optional<DcpMetadata> ParseDcpMetadata(const SourceRef& source,
                                            Findings& findings);

// Adds to `into` the metadata `more` of another rank, which was read from the
// file at `place`. If both list the same piece, its place in `into` is kept.
// Returns false after a finding if a tensor has another shape or data type in
// `more`.
bool MergeDcpMetadata(DcpMetadata more, const Place& place, DcpMetadata& into,
                      Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_DCP_H_
