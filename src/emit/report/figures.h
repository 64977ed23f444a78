// Draws arrays and the mesh as SVG.
#ifndef SHARDC_EMIT_REPORT_FIGURES_H_
#define SHARDC_EMIT_REPORT_FIGURES_H_

#include "emit/report/page.h"
#include "picture/array.h"
#include "picture/mesh.h"

namespace shardc::report {

// WriteArrayCaption() writes the dimensions of an array as text. DrawArray()
// draws the array. It adds a table of the shards if the array is sharded, or if
// only the devices at one coordinate of an axis hold it. DrawMesh() draws a
// mesh.
void WriteArrayCaption(Page& page, const picture::ArrayPicture& array);
void DrawArray(Page& page, const picture::ArrayPicture& array);
void DrawMesh(Page& page, const picture::MeshPicture& mesh);

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_FIGURES_H_
