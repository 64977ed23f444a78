// Writes pickles of protocol 2 and archives of torch, valid and hostile.
#ifndef SHARDC_TESTS_STORED_PICKLE_BYTES_H_
#define SHARDC_TESTS_STORED_PICKLE_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardc::stored::test {

// Each function returns operations that push one value.
std::string Int(int64_t value);
std::string Text(std::string_view text);
std::string Global(std::string_view module, std::string_view name);
// Returns the global of a class in torch.distributed.checkpoint.metadata.
std::string OfModule(std::string_view name);
std::string List(const std::vector<std::string>& values);
std::string Tuple(const std::vector<std::string>& values);
std::string Dict(const std::vector<std::pair<std::string, std::string>>& pairs);
std::string Record(const std::string& type, const std::string& state);
std::string Call(const std::string& function,
                 const std::vector<std::string>& arguments);
std::string Sizes(const std::vector<int64_t>& sizes);  // a torch.Size
// Returns a complete pickle of one value.
std::string PickleOf(const std::string& value);

// The names and bytes of members.
using Members = std::vector<std::pair<std::string, std::string>>;
std::string ZipOf(const Members& members);
// Returns the archive of a float32 tensor whose storage holds 0, 1, 2 and so
// on.
std::string FloatArchive(const std::vector<int64_t>& shape,
                         const std::vector<int64_t>& strides, int64_t first,
                         int64_t stored);

struct Piece {
  std::vector<int64_t> offset;
  std::vector<int64_t> shape;
  std::string file;
  int64_t at = 0;
  int64_t bytes = 0;
};
// Returns the `.metadata` of a checkpoint with one float32 tensor `w`.
std::string MetadataOf(const std::vector<int64_t>& shape,
                       const std::vector<Piece>& pieces);

}  // namespace shardc::stored::test

#endif  // SHARDC_TESTS_STORED_PICKLE_BYTES_H_
