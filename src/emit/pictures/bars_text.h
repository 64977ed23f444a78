// Draws bars for a terminal: the memory of a device by mode, and the parameters
// that each rule won.
#ifndef SHARDC_EMIT_PICTURES_BARS_TEXT_H_
#define SHARDC_EMIT_PICTURES_BARS_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emit/pictures/line.h"
#include "picture/coverage.h"

namespace shardc {

struct MemoryBar {
  std::string name;              // "train"
  std::vector<int64_t> parts;    // bytes, in the order of MemoryBars::parts
  std::optional<int64_t> least;  // bytes of the emptiest device, if it differs
};

struct MemoryPart {
  char letter = 'P';
  std::string name;  // "parameters"
};

struct MemoryBars {
  int64_t devices = 1;
  bool of_ranks = false;  // each bar is of a pipeline's rank, not of a mode
  std::vector<MemoryPart> parts;
  std::vector<MemoryBar> bars;
  std::optional<int64_t> budget;     // bytes of memory of a device
  std::vector<std::string> unknown;  // parts that are left out, and why
};

std::string MemoryText(const MemoryBars& memory, const PictureStyle& style);
std::string CoverageText(const picture::Coverage& coverage,
                         const PictureStyle& style);

}  // namespace shardc

#endif  // SHARDC_EMIT_PICTURES_BARS_TEXT_H_
