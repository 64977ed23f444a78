// Directory: parse. Reads shardc's own file formats into the structs of model,
// one file per format. This header reads mesh files and mesh strings.
// Its files include headers of these directories: source, model, yaml, devices.
#ifndef SHARDC_PARSE_MESH_H_
#define SHARDC_PARSE_MESH_H_

#include <optional>
#include <string>
#include <string_view>

#include "model/mesh.h"
#include "model/project.h"
#include "source/file.h"
#include "source/finding.h"

namespace shardc {

// Returns whether `text` is a mesh string, assuming that no file has this name.
// A mesh string has axes such as `dp:2,fsdp:-1,tp=4`, or only sizes, such as
// `1,-1,1,1`.
bool IsMeshText(std::string_view text);

// Reads the mesh file of this name, or parses a mesh string if there is no such
// file. A list of four sizes has the axes dp, fsdp, tp and sp. A list of five
// sizes has dp, fsdp, ep, tp and sp. One size may be -1, and is then computed
// from the number of devices. `devices` is the value of the flag --devices.
// `texts`, if not null, has texts that replace the content of files, such as an
// editor's unsaved buffers. Returns nullopt after a finding.
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
