// Room: parse. Our own formats to model, one file per format. Knows source
// and model; the only room that sees yaml-cpp. Mesh files and mesh strings.
#ifndef SHARDC_PARSE_MESH_H_
#define SHARDC_PARSE_MESH_H_

#include <optional>
#include <string>

#include "model/mesh.h"
#include "model/project.h"
#include "source/finding.h"

namespace shardc {

// A file, or a string such as `dp:2,fsdp:-1,tp=4` (told apart by content: a
// text with `:` or `=` that is no existing file is a string). `devices` is
// the --devices flag. At most one size is -1.
std::optional<Mesh> ReadMesh(const std::string& file_or_text,
                             std::optional<int64_t> devices,
                             Findings& findings);
std::optional<Mesh> ReadMesh(const MeshInput& input,
                             std::optional<int64_t> devices,
                             Findings& findings);
std::optional<Mesh> ParseMesh(SourceRef source, std::optional<int64_t> devices,
                              Findings& findings);
std::optional<Mesh> ParseMeshString(SourceRef source,
                                    std::optional<int64_t> devices,
                                    Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MESH_H_
