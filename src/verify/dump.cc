#include "verify/dump.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "exec/half.h"
#include "source/wording.h"
#include "verify/settings.h"

namespace shardc::verify {
namespace {

// Little-endian bytes.
template <class T>
void Append(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) {
    for (size_t i = sizeof(T); i-- > 0;) out += bytes[i];
  } else {
    out.append(bytes, sizeof(T));
  }
}

std::string BytesOfBuffer(const exec::Buffer& buffer) {
  std::string out;
  for (float x : buffer.real) {
    if (buffer.dtype == Dtype::kBF16) {
      Append(out, exec::BFloat16Bits(x));
    } else if (buffer.dtype == Dtype::kF16) {
      Append(out, exec::Float16Bits(x));
    } else {
      Append(out, x);
    }
  }
  for (int32_t x : buffer.whole) {
    if (buffer.dtype == Dtype::kI32) {
      Append(out, x);
    } else {
      Append(out, static_cast<int8_t>(x));
    }
  }
  return out;
}

class Writer {
 public:
  void Add(std::string_view name, Dtype dtype, const Shape& shape,
           const std::string& bytes) {
    if (!header_.empty()) header_ += ',';
    header_ += JsonString(name) + ":{\"dtype\":\"" +
               std::string(DtypeName(dtype)) + "\",\"shape\":[";
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d > 0) header_ += ',';
      header_ += std::to_string(shape[d]);
    }
    header_ += "],\"data_offsets\":[" + std::to_string(data_.size()) + ',';
    data_ += bytes;
    header_ += std::to_string(data_.size()) + "]}";
  }

  void Add(std::string_view name, const exec::Buffer& buffer) {
    Add(name, buffer.dtype, buffer.shape, BytesOfBuffer(buffer));
  }
  void Add(std::string_view name, const std::optional<exec::Buffer>& buffer) {
    if (buffer) Add(name, *buffer);
  }

  std::string Take() {
    std::string header = '{' + header_ + '}';
    while (header.size() % 8 != 0) header += ' ';
    std::string out;
    Append(out, static_cast<uint64_t>(header.size()));
    return out + header + data_;
  }

 private:
  std::string header_, data_;
};

std::string Number(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end.ptr);
}

void Member(std::string& out, std::string_view key, std::string_view value) {
  if (!out.empty()) out += ", ";
  out += JsonString(key) + ": " + std::string(value);
}

std::string OptionalNumber(const std::optional<int64_t>& value) {
  return value ? std::to_string(*value) : "null";
}

}  // namespace

std::string DumpTensors(const CaseTensors& tensors) {
  Writer out;
  const exec::AttentionProblem& p = tensors.problem;
  out.Add("query", p.query);
  out.Add("key", p.key);
  out.Add("value", p.value);
  out.Add("output", tensors.output);
  std::string reference;
  for (double x : tensors.reference.data) Append(reference, x);
  out.Add("reference", Dtype::kF64, tensors.reference.shape, reference);
  out.Add("bias", p.bias);
  out.Add("mask", p.mask);
  out.Add("additive_mask", p.additive_mask);
  out.Add("softmax_aux", p.softmax_aux);
  out.Add("q_segment_ids", p.query_segments);
  out.Add("kv_segment_ids", p.key_segments);
  out.Add("q_positions", p.query_positions);
  out.Add("kv_positions", p.key_positions);
  out.Add("kv_lengths", p.key_lengths);
  out.Add("kv_starts", p.key_starts);
  out.Add("blocks", p.blocks);
  if (p.latent) {
    out.Add("latent", p.latent->latent);
    out.Add("rope_key", p.latent->rope_key);
    out.Add("up_key", p.latent->up_key);
    out.Add("up_value", p.latent->up_value);
  }
  return out.Take();
}

std::string DumpSettings(const Case& test, const CaseTensors& tensors) {
  const exec::AttentionOptions& o = tensors.problem.options;
  std::string out;
  Member(out, "scale", Number(o.ScaleFor(test.sizes.head_dim)));
  Member(out, "causal", o.causal ? "true" : "false");
  std::string window = "null";
  if (o.window) {
    window = "[" + OptionalNumber(o.window->left) + ", " +
             OptionalNumber(o.window->right) + "]";
  }
  Member(out, "window", window);
  Member(out, "mask_value", Number(exec::kMaskValue));
  Member(out, "padding_segment", OptionalNumber(o.padding_segment));
  Member(out, "masked_rows",
         o.masked_rows == exec::MaskedRows::kMean ? "\"mean\"" : "\"zero\"");
  // A string: JSON readers keep 53 bits only.
  Member(out, "dropout_seed", JsonString(std::to_string(o.dropout_seed)));
  out += ", " + SettingsMembers(test, true);
  std::string specs;
  Member(specs, "query", SpecText(test.specs.query));
  Member(specs, "key", SpecText(test.specs.key));
  Member(specs, "value", SpecText(test.specs.value));
  Member(specs, "output", SpecText(test.specs.output));
  Member(specs, "bias", SpecText(test.specs.bias));
  Member(specs, "mask", SpecText(test.specs.mask));
  Member(specs, "q_segment_ids", SpecText(test.specs.query_segments));
  Member(specs, "kv_segment_ids", SpecText(test.specs.key_segments));
  Member(specs, "softmax_aux", SpecText(test.specs.softmax_aux));
  Member(out, "specs", "{" + specs + "}");
  return out;
}

}  // namespace shardc::verify
