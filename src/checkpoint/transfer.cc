#include "checkpoint/transfer.h"

#include "checkpoint/grid.h"

namespace shardc {

int64_t PartBytes(const TransferTensor& tensor, const Box& box) {
  return box.Elements() * DtypeBits(tensor.to) / 8;
}

std::optional<std::string> CheckByteCuts(const TransferTensor& tensor) {
  std::string why;
  if (Grid::Make(tensor, &why)) return std::nullopt;
  return why;
}

}  // namespace shardc
