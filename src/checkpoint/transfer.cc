// Computes the bytes that a run will read and write. A part that several files
// contain is written to each of these files, but read only once.
//
//   w of 32 bytes, replicated on 2 devices  ->  32 read, 64 written and headers
#include "checkpoint/transfer.h"

#include "checkpoint/grid.h"

namespace shardc {

int64_t PartBytes(const TransferTensor& tensor, const Box& box) {
  return box.Elements() * DtypeBits(tensor.to) / 8;
}

std::optional<std::string> CheckByteBoundaries(const TransferTensor& tensor) {
  std::string why;
  if (Grid::Make(tensor, &why)) return std::nullopt;
  return why;
}

TransferSize MeasureTransfer(const Transfer& transfer,
                             const std::vector<bool>& outputs) {
  TransferSize size;
  std::vector<std::vector<bool>> read(transfer.tensors.size());
  for (size_t i = 0; i < transfer.tensors.size(); ++i) {
    read[i].resize(transfer.tensors[i].parts.size());
  }
  for (size_t i = 0; i < transfer.outputs.size(); ++i) {
    if (!outputs[i]) continue;
    const OutputFile& output = transfer.outputs[i];
    ++size.files;
    size.bytes_written += output.size;
    size.pieces += static_cast<int64_t>(output.pieces.size());
    for (const OutputPiece& piece : output.pieces) {
      if (read[piece.tensor][piece.part]) continue;
      read[piece.tensor][piece.part] = true;
      const TransferTensor& tensor = transfer.tensors[piece.tensor];
      size.bytes_read +=
          tensor.parts[piece.part].Elements() * DtypeBits(tensor.from) / 8;
    }
  }
  return size;
}

}  // namespace shardc
