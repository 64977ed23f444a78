// Makes public manifests from the library's internal manifest. For
// MakeManifest, each tensor is checked by itself, and then the complete
// manifest is checked. For example, this tensor gets a finding:
//
//   {"a/b", {-1}, "F32"}  ->  SHD023, a dimension of size -1
#include "shardc/inside.h"
// inside.h comes first, because it defines SHARDC_V1 for the headers below.
#include <set>
#include <string_view>

#include "importers/manifest.h"
#include "model/block_types.h"
#include "model/name_fault.h"
#include "parse/manifest.h"
#include "parse/plain_manifest.h"
#include "shardc/manifest.h"
#include "source/checked.h"

namespace shardc::v1 {
namespace {

// Returns the shape and dtype of one tensor. Returns nullopt after a finding:
// the dtype is unknown, a size is negative, or the bytes do not fit in 64 bits.
std::optional<TensorType> TypeOf(const Tensor& tensor,
                                 shardc::Findings& findings) {
  TensorType type;
  type.shape = tensor.shape;
  if (!tensor.dtype.empty()) {
    type.dtype = ParseStoredDtype(tensor.dtype);
    if (!type.dtype) {
      findings.Add(code::kDtype, {},
                   "`" + tensor.name + "` has the dtype `" + tensor.dtype +
                       "`, which is unknown");
      return std::nullopt;
    }
  }
  if (!type.shape) return type;
  for (const int64_t size : *type.shape) {
    if (size >= 0) continue;
    findings.Add(code::kNumber, {},
                 "`" + tensor.name + "` has a dimension of size " +
                     std::to_string(size));
    return std::nullopt;
  }
  const auto elements = CheckedProduct(*type.shape);
  if (!elements || (type.dtype && !BytesOf(*elements, *type.dtype))) {
    findings.Add(code::kOverflow, {},
                 "the size of `" + tensor.name + "` does not fit in 64 bits");
    return std::nullopt;
  }
  return type;
}

std::optional<Manifest> Settled(shardc::Manifest manifest,
                                shardc::Findings& findings) {
  const size_t before = findings.errors();
  SettleSeparator(manifest, findings);
  if (findings.errors() > before) return std::nullopt;
  return Manifest(std::make_shared<const Manifest::Inside>(
      Manifest::Inside{std::move(manifest)}));
}

}  // namespace

Manifest::Manifest(std::shared_ptr<const Inside> inside)
    : inside_(std::move(inside)) {}

size_t Manifest::size() const { return inside_->manifest.tensors.size(); }
char Manifest::separator() const { return inside_->manifest.separator; }

Tensor Manifest::at(size_t index) const {
  const shardc::Tensor& from = inside_->manifest.tensors[index];
  const TensorType& type = inside_->manifest.TypeOf(from);
  return {std::string(from.name), type.shape,
          type.dtype ? std::string(DtypeName(*type.dtype)) : ""};
}

std::optional<Manifest> ReadManifest(const std::string& path,
                                     Findings& findings) {
  shardc::Findings& all = findings.inside().all;
  ManifestOptions options;
  options.plain = ReadPlainManifest;
  options.streamed = [](const InputFile& file) {
    return StreamPlainManifest(file);
  };
  auto manifest = shardc::ReadManifest(path, ParseManifest, options, all);
  if (!manifest) return std::nullopt;
  return Settled(std::move(*manifest), all);
}

std::optional<Manifest> MakeManifest(std::span<const Tensor> tensors,
                                     Findings& findings) {
  shardc::Findings& all = findings.inside().all;
  const size_t before = all.errors();
  ManifestBuilder builder;
  std::set<std::string_view> names;
  for (const Tensor& tensor : tensors) {
    if (tensor.name.empty()) {
      all.Add(code::kName, {}, "a parameter has no name");
    } else if (std::string fault = ParameterNameFault(tensor.name);
               !fault.empty()) {
      all.Add(code::kName, {}, std::move(fault));
    } else if (!names.insert(tensor.name).second) {
      all.Add(code::kDuplicateKey, {}, "`" + tensor.name + "` occurs twice");
    }
    auto type = TypeOf(tensor, all);
    if (type) builder.Add(tensor.name, std::move(*type));
  }
  if (all.errors() > before) return std::nullopt;
  shardc::Manifest manifest = builder.Take();
  manifest.source = MakeSource("manifest", "");
  return Settled(std::move(manifest), all);
}

}  // namespace shardc::v1
