// Draws bars for a terminal. One kind of bar shows the memory of a device, in
// each mode or on each rank of a pipeline. The other kind shows, for each rule,
// the bytes of the parameters that the rule is the first to match.
#ifndef SHARDC_EMIT_PICTURES_TEXT_PICTURES_H_
#define SHARDC_EMIT_PICTURES_TEXT_PICTURES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emit/pictures/line.h"
#include "picture/array.h"
#include "picture/fold.h"
#include "picture/mesh.h"

namespace shardc {

struct MemoryBar {
  std::string name;  // such as "train"
  // The bytes of each part, in the order of MemoryBars::parts.
  std::vector<int64_t> parts;
  // The bytes of the emptiest device; absent if they equal those of the fullest
  // device.
  std::optional<int64_t> least;
  // Whether the sum of the parts is a lower bound, so that its share of the
  // budget is not known.
  bool at_least = false;
};

struct MemoryPart {
  char letter = 'P';
  std::string name;  // "parameters"
};

struct MemoryBars {
  int64_t devices = 1;
  // True if each bar is of a pipeline rank, false if each bar is of a mode.
  bool of_ranks = false;
  std::vector<MemoryPart> parts;
  std::vector<MemoryBar> bars;
  std::optional<int64_t> budget;  // bytes of memory of a device
  // The parts that the bars do not include, each with the reason.
  std::vector<std::string> unknown;
};

std::string MemoryText(const MemoryBars& memory, const PictureStyle& style);
std::string CoverageText(const picture::Coverage& coverage,
                         const PictureStyle& style);

// Returns the drawing: the title, a line for each dimension, and the grid of
// shards. `title` is the name of the array and remarks on it.
std::string ArrayText(const picture::ArrayPicture& array,
                      const std::vector<std::string>& title,
                      const PictureStyle& style);

std::string MeshPictureText(const picture::MeshPicture& mesh,
                            const PictureStyle& style);

// What the drawings show, each as one JSON value. The shards of an array have a
// range of each dimension (null if its size is unknown) and their devices.
std::string MemoryJson(const MemoryBars& memory);
std::string CoverageJson(const picture::Coverage& coverage);
std::string ArrayJson(const picture::ArrayPicture& array,
                      const std::vector<std::string>& title);

}  // namespace shardc

#endif  // SHARDC_EMIT_PICTURES_TEXT_PICTURES_H_
