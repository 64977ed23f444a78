// Merges the metadata that several ranks wrote. A rank that saves without
// collectives lists only the pieces and values that it has saved. Several ranks
// therefore list a sharded tensor, each with its own pieces. A piece that
// several ranks hold is listed by each of these ranks:
//
//   rank 0   `w` [4, 2], pieces at [0, 0] and [2, 0]
//   rank 1   `w` [4, 2], piece at [2, 0], and a value `step`
//   merged   `w` with its two pieces, each read from rank 0, and `step`
#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "source/wording.h"
#include "stored/dcp_metadata.h"

namespace shardc::stored {
namespace {

// Adds those pieces of `more` to `into` that `into` does not contain yet. Both
// lists must be sorted by box, and `into` stays sorted.
void MergePieces(std::vector<DcpPiece> more, std::vector<DcpPiece>& into) {
  const auto before = [](const DcpPiece& a, const DcpPiece& b) {
    return a.box < b.box;
  };
  std::vector<DcpPiece> out;
  std::set_union(into.begin(), into.end(), more.begin(), more.end(),
                 std::back_inserter(out), before);
  into = std::move(out);
}

}  // namespace

bool MergeDcpMetadata(DcpMetadata more, const Place& place, DcpMetadata& into,
                      Findings& findings) {
  const auto first_file = static_cast<uint32_t>(into.files.size());
  into.files.insert(into.files.end(), more.files.begin(), more.files.end());
  std::unordered_map<std::string_view, size_t> known;
  for (size_t i = 0; i < into.tensors.size(); ++i) {
    known.emplace(into.tensors[i].name, i);
  }
  std::vector<DcpTensor> added;
  for (DcpTensor& tensor : more.tensors) {
    for (DcpPiece& piece : tensor.pieces) piece.file += first_file;
    const auto found = known.find(tensor.name);
    if (found == known.end()) {
      added.push_back(std::move(tensor));
      continue;
    }
    DcpTensor& other = into.tensors[found->second];
    if (other.shape != tensor.shape || other.dtype != tensor.dtype) {
      findings.Add(code::kSize, place,
                   "tensor " + ShortQuote(tensor.name) + " has shape " +
                       ShapeText(tensor.shape) + ", and " +
                       ShapeText(other.shape) +
                       " or another data type in the metadata of a rank "
                       "before it",
                   "remove the files that an earlier save has left");
      return false;
    }
    MergePieces(std::move(tensor.pieces), other.pieces);
  }
  known.clear();
  std::move(added.begin(), added.end(), std::back_inserter(into.tensors));
  for (DcpValue& other : more.others) {
    other.piece.file += first_file;
    into.others.push_back(std::move(other));
  }
  const auto by_name = [](const DcpValue& a, const DcpValue& b) {
    return a.name < b.name;
  };
  std::stable_sort(into.others.begin(), into.others.end(), by_name);
  into.others.erase(std::unique(into.others.begin(), into.others.end(),
                                [](const DcpValue& a, const DcpValue& b) {
                                  return a.name == b.name;
                                }),
                    into.others.end());
  return true;
}

}  // namespace shardc::stored
