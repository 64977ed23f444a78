// Draws the sharding of an array on the mesh for a terminal: a box for each
// shard, with the devices that hold it.
#ifndef SHARDC_EMIT_PICTURES_ARRAY_TEXT_H_
#define SHARDC_EMIT_PICTURES_ARRAY_TEXT_H_

#include <string>
#include <vector>

#include "emit/pictures/line.h"
#include "picture/array.h"

namespace shardc {

// Returns the drawing: the title, a line for each dimension, and the grid of
// shards. `title` is the name of the array and remarks on it.
std::string ArrayText(const picture::ArrayPicture& array,
                      const std::vector<std::string>& title,
                      const PictureStyle& style);

}  // namespace shardc

#endif  // SHARDC_EMIT_PICTURES_ARRAY_TEXT_H_
