// Pieces of JSON that several outputs share.
#ifndef SHARDC_EMIT_JSON_TEXT_H_
#define SHARDC_EMIT_JSON_TEXT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/axis_rules.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/spec.h"

namespace shardc {

// Appends `"key": ` with no comma before it.
void AppendKey(std::string& out, std::string_view key);
void AppendInteger(std::string& out, const std::optional<int64_t>& value);
void AppendShape(std::string& out, const std::optional<Shape>& shape);
void AppendDtype(std::string& out, const std::optional<Dtype>& dtype);
void AppendModes(std::string& out, std::span<const Mode> modes);
// The plan's form: {"axes": [{"name", "size", "type"}], "devices": 64}, with
// processes, slices and dcn where there are several.
void AppendMesh(std::string& out, const Mesh& mesh);

}  // namespace shardc

#endif  // SHARDC_EMIT_JSON_TEXT_H_
