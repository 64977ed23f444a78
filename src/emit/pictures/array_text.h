// How an array lies on the mesh, drawn for a terminal: a box for each piece
// with the devices that hold it.
#ifndef SHARDC_EMIT_PICTURES_ARRAY_TEXT_H_
#define SHARDC_EMIT_PICTURES_ARRAY_TEXT_H_

#include <string>
#include <vector>

#include "emit/pictures/line.h"
#include "picture/array.h"

namespace shardc {

// The lines above the grid say each dimension in words; `title` is theirs: a
// name, and what is said of it.
std::string ArrayText(const picture::ArrayPicture& array,
                      const std::vector<std::string>& title,
                      const PictureStyle& style);

}  // namespace shardc

#endif  // SHARDC_EMIT_PICTURES_ARRAY_TEXT_H_
