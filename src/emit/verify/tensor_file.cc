// Writes tensors to a safetensors file, as little-endian bytes:
//
//   1.0 in BF16  ->  80 3F     1.0 in F64, as in references  ->  00 ... F0 3F
#include "emit/verify/tensor_file.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "floats/half.h"

namespace shardc {
namespace {

template <class T>
void Append(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) {
    for (size_t i = sizeof(T); i > 0;) {
      --i;
      out += bytes[i];
    }
  } else {
    out.append(bytes, sizeof(T));
  }
}

std::string BytesOf(const std::vector<double>& data) {
  std::string out;
  out.reserve(data.size() * sizeof(double));
  for (double x : data) Append(out, x);
  return out;
}

std::string BytesOfBuffer(const exec::Buffer& buffer) {
  std::string out = BytesOf(buffer.wide);
  for (float x : buffer.real) {
    if (buffer.dtype == Dtype::kBF16) {
      Append(out, BFloat16Bits(x));
    } else if (buffer.dtype == Dtype::kF16) {
      Append(out, Float16Bits(x));
    } else {
      Append(out, x);
    }
  }
  for (int32_t x : buffer.integers) {
    if (buffer.dtype == Dtype::kI32) {
      Append(out, x);
    } else {
      Append(out, static_cast<int8_t>(x));
    }
  }
  return out;
}

}  // namespace

std::string DumpNumber(size_t index) {
  std::string out = std::to_string(index);
  out.insert(0, out.size() < 4 ? 4 - out.size() : 0, '0');
  return out;
}

void TensorFile::Add(std::string_view name, Dtype dtype, const Shape& shape,
                     const std::string& bytes) {
  entries_.push_back(
      {std::string(name), dtype, shape, static_cast<int64_t>(bytes.size())});
  data_ += bytes;
}

void TensorFile::Add(std::string_view name, const exec::Buffer& buffer) {
  Add(name, buffer.dtype, buffer.shape, BytesOfBuffer(buffer));
}

void TensorFile::Add(std::string_view name,
                     const std::optional<exec::Buffer>& buffer) {
  if (buffer) Add(name, *buffer);
}

void TensorFile::Add(std::string_view name, const Shape& shape,
                     const std::vector<double>& data) {
  Add(name, Dtype::kF64, shape, BytesOf(data));
}

std::string TensorFile::Take() {
  return SafetensorsHeaderText(entries_, {}) + data_;
}

}  // namespace shardc
