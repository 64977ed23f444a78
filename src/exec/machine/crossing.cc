// Sends blocks of elements between devices, also between devices of different
// ranks (processes). All blocks for one rank are concatenated to one message.
// Each block has a header with its sending and its receiving device. All ranks
// exchange their messages in one call.
//
// Elements are sent with the width of their dtype. If the dtype cannot
// represent an element of a block exactly, the block is sent with the width
// that the array has in host memory. Its bytes are then counted with this
// width. For example:
//
//   device 0 on rank 0 sends BF16 [3] to devices 1 and 2 on rank 1
//     ->  rank 1 receives two headers and 2 * 6 bytes
#include "exec/machine/crossing.h"

#include <cstring>
#include <string>

#include "exec/machine/packet.h"
#include "floats/convert.h"
#include "source/index.h"

namespace shardc::exec {
namespace {

struct Line {
  int32_t from = 0, to = 0;
  // The dtype of the elements, and the bytes of each element in the message.
  int32_t dtype = 0, width = 0;
  int64_t elements = 0;
};

// Sets `out` to the elements of `x` as F16 or BF16. Returns false if that
// changes the bits of an element.
bool Halves(Dtype dtype, const std::vector<float>& x,
            std::vector<uint16_t>& out) {
  out.resize(x.size());
  std::vector<float> back(x.size());
  if (dtype == Dtype::kF16) {
    F32ToF16(x, out);
    F16ToF32(out, back);
  } else {
    F32ToBf16(x, out);
    Bf16ToF32(out, back);
  }
  return x.empty() ||
         std::memcmp(x.data(), back.data(), x.size() * sizeof(float)) == 0;
}

// Appends the elements of `x` as int8, for I8 and BOOL. Returns false if an
// element does not fit in 8 bits.
bool Eighths(const std::vector<int32_t>& x, std::vector<int8_t>& out) {
  for (const int32_t value : x) {
    if (value != static_cast<int8_t>(value)) return false;
    out.push_back(static_cast<int8_t>(value));
  }
  return true;
}

template <class T>
int PutWidth(const std::vector<T>& all, Packet& out) {
  PutAll(all, out);
  return sizeof(T);
}

// Appends the elements of a block. Returns the number of bytes per element.
int PutElements(const Buffer& block, Packet& out) {
  if (block.IsWide()) return PutWidth(block.wide, out);
  if (block.IsReal()) {
    std::vector<uint16_t> halves;
    if (block.dtype != Dtype::kF32 && Halves(block.dtype, block.real, halves)) {
      return PutWidth(halves, out);
    }
    return PutWidth(block.real, out);
  }
  std::vector<int8_t> eighths;
  if (DtypeBits(block.dtype) == 8 && Eighths(block.integers, eighths)) {
    return PutWidth(eighths, out);
  }
  return PutWidth(block.integers, out);
}

template <class T>
void GetAll(std::span<const std::byte> bytes, std::vector<T>& all) {
  if (!all.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
}

void GetElements(std::span<const std::byte> bytes, int width, Buffer& out) {
  if (out.IsWide()) return GetAll(bytes, out.wide);
  if (out.IsReal()) {
    if (width == sizeof(float)) return GetAll(bytes, out.real);
    std::vector<uint16_t> halves(out.real.size());
    GetAll(bytes, halves);
    if (out.dtype == Dtype::kF16) {
      F16ToF32(halves, out.real);
    } else {
      Bf16ToF32(halves, out.real);
    }
    return;
  }
  if (width == sizeof(int32_t)) return GetAll(bytes, out.integers);
  std::vector<int8_t> eighths(out.integers.size());
  GetAll(bytes, eighths);
  out.integers.assign(eighths.begin(), eighths.end());
}

}  // namespace

void PutParcel(int from, int to, const Buffer& block, Packet& out) {
  Line line;
  line.from = from;
  line.to = to;
  line.dtype = static_cast<int32_t>(block.dtype);
  line.elements = block.Elements();
  const size_t at = out.size();
  PutAll(std::span(&line, 1), out);
  line.width = PutElements(block, out);
  std::memcpy(out.data() + at, &line, sizeof(line));
}

bool TakeParcels(std::span<const std::byte> bytes, std::vector<Parcel>& out) {
  while (!bytes.empty()) {
    Line line;
    if (!TakeAll(bytes, std::span(&line, 1))) return false;
    const size_t size = AsIndex(line.elements) * AsIndex(line.width);
    if (bytes.size() < size) return false;
    Parcel parcel;
    parcel.from = line.from;
    parcel.to = line.to;
    parcel.block =
        Buffer::Zeros({line.elements}, static_cast<Dtype>(line.dtype));
    GetElements(bytes.first(size), line.width, parcel.block);
    bytes = bytes.subspan(size);
    out.push_back(std::move(parcel));
  }
  return true;
}

Crossing::Crossing(const SimMesh& mesh)
    : mesh_(mesh),
      out_(AsIndex(mesh.transport()->ranks())),
      sent_(AsIndex(mesh.devices()), 0) {}

void Crossing::Send(int from, int to, const Buffer& block) {
  if (mesh_.Holds(to)) {
    sent_[AsIndex(from)] += block.Bytes();
    return;
  }
  Packet& out = out_[AsIndex(mesh_.RankOf(to))];
  const size_t before = out.size();
  PutParcel(from, to, block, out);
  const auto bytes = static_cast<int64_t>(out.size() - before - sizeof(Line));
  sent_[AsIndex(from)] += bytes;
  crossed_ += bytes;
}

void Crossing::Deliver() {
  Transport& transport = *mesh_.transport();
  std::vector<Packet> in = transport.Exchange(std::move(out_));
  out_.assign(in.size(), {});
  for (Packet& bytes : in) {
    std::vector<Parcel> parcels;
    if (!TakeParcels(bytes, parcels)) transport.Stop("a parcel is cut short");
    bytes = {};
    for (Parcel& parcel : parcels) {
      arrived_[{parcel.from, parcel.to}] = std::move(parcel.block);
    }
  }
}

Buffer Crossing::Take(int from, int to, Shape shape) {
  const auto found = arrived_.find({from, to});
  if (found == arrived_.end() ||
      found->second.Elements() != ElementsOf(shape)) {
    mesh_.transport()->Stop("device " + std::to_string(to) +
                            " was not sent what device " +
                            std::to_string(from) + " owes it");
  }
  Buffer out = std::move(found->second);
  arrived_.erase(found);
  out.shape = std::move(shape);
  return out;
}

}  // namespace shardc::exec
