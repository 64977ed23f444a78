// Decodes the three LZ77 formats that blosc chunks contain. The data of each
// format are literal bytes and matches. A match repeats `length` earlier bytes
// of the output, which begin `distance` bytes before its end. None of the
// formats has a checksum.
#ifndef SHARDC_STORED_LZ_BLOCKS_H_
#define SHARDC_STORED_LZ_BLOCKS_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace shardc::stored {

// Each function decodes `bytes` and appends the result, which must have `size`
// bytes, to `out`. Returns false if `bytes` is damaged, has a match that refers
// to bytes from before the call, or decodes to another number of bytes. The
// memory of `out` grows only as data is decoded.
bool AppendLz4(std::string_view bytes, size_t size, std::string& out);
bool AppendBloscLz(std::string_view bytes, size_t size, std::string& out);
bool AppendSnappy(std::string_view bytes, size_t size, std::string& out);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_LZ_BLOCKS_H_
