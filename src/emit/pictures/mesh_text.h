// Draws a mesh for a terminal: the numbers of its devices, and the hosts that
// have them.
#ifndef SHARDC_EMIT_PICTURES_MESH_TEXT_H_
#define SHARDC_EMIT_PICTURES_MESH_TEXT_H_

#include <string>

#include "emit/pictures/line.h"
#include "picture/mesh.h"

namespace shardc {

std::string MeshPictureText(const picture::MeshPicture& mesh,
                            const PictureStyle& style);

}  // namespace shardc

#endif  // SHARDC_EMIT_PICTURES_MESH_TEXT_H_
