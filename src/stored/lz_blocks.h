// Decodes the three LZ77 formats that blosc chunks contain. Each stores literal
// bytes and matches. A match repeats `length` bytes, which begin `distance`
// bytes before the end of the output. None of the formats has a checksum.
#ifndef SHARDC_STORED_LZ_BLOCKS_H_
#define SHARDC_STORED_LZ_BLOCKS_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace shardc::stored {

// Each function appends the `size` bytes to which `bytes` decodes. Returns
// false if `bytes` is damaged, has a match that refers to bytes from before the
// call, or decodes to another number of bytes. `out` grows only as data is
// decoded.
bool AppendLz4(std::string_view bytes, size_t size, std::string& out);
bool AppendBloscLz(std::string_view bytes, size_t size, std::string& out);
bool AppendSnappy(std::string_view bytes, size_t size, std::string& out);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_LZ_BLOCKS_H_
