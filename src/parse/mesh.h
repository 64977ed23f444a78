// Room: parse. Our own formats to model, one file per format. Knows source
// and model; the only room that sees yaml-cpp. Mesh files and mesh strings.
#ifndef SHARDC_PARSE_MESH_H_
#define SHARDC_PARSE_MESH_H_

#include <optional>
#include <string>

#include <string>
#include <string_view>

#include "model/mesh.h"
#include "model/project.h"
#include "source/file_texts.h"
#include "source/finding.h"

namespace shardc {

// Whether a text that names no existing file is a mesh: axes such as
// `dp:2,fsdp:-1,tp=4`, or sizes alone, `1,-1,1,1`.
bool IsMeshText(std::string_view text);

// A file, or such a text where there is no file of its name. Four sizes alone
// are those of dp, fsdp, tp and sp; five, of dp, fsdp, ep, tp and sp.
// `devices` is the --devices flag. At most one size is -1. `texts` stand in for
// what files hold; may be null.
std::optional<Mesh> ReadMesh(const std::string& file_or_text,
                             std::optional<int64_t> devices, Findings& findings,
                             const FileTexts* texts = nullptr);
std::optional<Mesh> ReadMesh(const MeshInput& input,
                             std::optional<int64_t> devices, Findings& findings,
                             const FileTexts* texts = nullptr);
std::optional<Mesh> ParseMesh(SourceRef source, std::optional<int64_t> devices,
                              Findings& findings);
std::optional<Mesh> ParseMeshString(SourceRef source,
                                    std::optional<int64_t> devices,
                                    Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MESH_H_
