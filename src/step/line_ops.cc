// Translates lines of a model's description into ops of the step's program,
// with one function for each function that a line can call. line_attention.cc
// has those for rotary embeddings, attention and experts. If the dimensions of
// the operands do not match, an error at the line is reported. The second of
// these lines is an error:
//
//   q = linear(y, q)   y [b, t, d], weight [(n h), d]  ->  [b, t, n, h]
//   q = linear(y, q)   y [b, t, d], weight [v, e]      ->  no common dimension
#include "step/line_ops.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "step/functions.h"

namespace shardc::step {
namespace {

// Returns whether a value and a weight have a dimension in common. A dimension
// of the weight is also common if the value has all of its factors.
bool Shares(BuildContext& c, ValueId x, ValueId weight) {
  for (const LabelId label : c.write.LabelsOf(weight)) {
    if (c.write.Has(x, label)) return true;
    const auto& factors = c.labels[label].factors;
    const bool all = !factors.empty() &&
                     std::all_of(factors.begin(), factors.end(),
                                 [&](LabelId f) { return c.write.Has(x, f); });
    if (all) return true;
  }
  return false;
}

// Returns the dimension that a line names, and the exponent to which its size
// is raised: 1/2, or the exponent that the line gives.
std::pair<LabelId, double> PowerOf(BuildContext& c, const Line& line) {
  const int32_t dim = line.arguments[1].dims[0];
  const bool given = line.arguments.size() > 2;
  return {c.labels.Dim(dim), given ? line.arguments[2].number : 0.5};
}

int64_t OffsetOf(BuildContext& c, const Line& line) {
  if (line.arguments.size() < 3) return 0;
  return static_cast<int64_t>(c.Constant(line.arguments[2]).value_or(0));
}
ValueId Rows(BuildContext& c, const Line& line, ValueId table) {
  if (c.write.LabelsOf(table).size() == 2) {
    return c.write.Lookup(table, c.Value(line, 1), OffsetOf(c, line));
  }
  c.Fail(line, "`" + line.name + "` needs a table of two dimensions");
  return kNoValue;
}

// Writes a convolution whose windows do not overlap (patches), as a matrix
// product. The product is summed over all dimensions of the weight except one.
ValueId Patches(BuildContext& c, const Line& line) {
  const ValueId weight = c.RoleValue(line, 0);
  const LabelId left = c.labels.Dim(line.arguments[1].dims[0]);
  const CommonLabels& common = c.graph().common;
  if (!c.write.Has(weight, left)) {
    c.Fail(line, "`" + line.name + "` leaves a dimension that is not there");
    return kNoValue;
  }
  const LabelId tokens = c.stream().query;
  Labels labels = {common.batch, tokens};
  for (const LabelId label : c.write.LabelsOf(weight)) {
    if (label != left) labels.push_back(label);
  }
  const ValueId patches = c.streams.NewData(DataKind::kPatches, "patches",
                                            std::move(labels), false, "tokens");
  const ValueId y =
      c.write.Einsum(patches, weight, {c.graph().common.batch, tokens, left});
  const ValueId bias = c.BiasOf(line, 0);
  return bias == kNoValue ? y : c.write.Add({y, bias});
}

// Writes the input of an audio model, in which each token has several frames
// and each frame is a vector.
ValueId Frames(BuildContext& c, const Line& line) {
  const auto several = static_cast<int64_t>(line.arguments[1].number);
  if (several < 1 || c.frames != kNoLabel) {
    c.Fail(line, "a model has one input of frames, of one or more a token");
    return kNoValue;
  }
  c.frames = c.labels.New("frames", "", several);
  const LabelId all = c.labels.OfFactors({c.stream().query, c.frames});
  c.labels[all].semantic = "QUERY_LENGTH";
  const LabelId numbers = c.labels.Dim(line.arguments[0].dims[0]);
  return c.streams.NewData(DataKind::kPatches, "frames",
                           {c.graph().common.batch, all, numbers}, false,
                           "tokens");
}

// Returns the label (t frames) of an audio value, whose factors are the tokens
// and the frames of a token. Returns kNoLabel if the value has no such label.
LabelId TokensOf(BuildContext& c, ValueId x) {
  for (const LabelId label : c.write.LabelsOf(x)) {
    const auto& factors = c.labels[label].factors;
    if (!factors.empty() && factors[0] == c.stream().query) return label;
  }
  return kNoLabel;
}

ValueId Convolve(BuildContext& c, const Line& line, ValueId x) {
  const ValueId weight = c.RoleValue(line, 1);
  Convolution settings;
  settings.kernel = c.labels.Dim(line.arguments[2].dims[0]);
  settings.width = c.labels.SizeOf(settings.kernel);
  settings.tokens = c.stream().query;
  if (!c.write.Has(x, c.stream().query)) settings.tokens = TokensOf(c, x);
  const bool thins = line.arguments.size() > 3 && line.arguments[3].number != 1;
  if (thins) settings.frames = c.frames;
  const bool fits =
      !thins || (c.frames != kNoLabel && settings.tokens != c.stream().query &&
                 static_cast<double>(c.labels.SizeOf(c.frames)) ==
                     line.arguments[3].number);
  if (settings.tokens == kNoLabel || !fits || settings.width % 2 == 0 ||
      !c.write.Has(weight, settings.kernel) || !Shares(c, x, weight)) {
    c.Fail(line, "`" + line.name +
                     "` needs tokens, an odd kernel, and as many frames a token"
                     " as it passes over");
    return kNoValue;
  }
  return Convolved(c.write, x, weight, c.BiasOf(line, 1), settings);
}
ValueId Norm(BuildContext& c, const Line& line, ValueId x) {
  const ValueId weight = c.RoleValue(line, 1);
  const LabelId label = weight == kNoValue ? c.write.LabelsOf(x).back()
                                           : c.write.LabelsOf(weight).back();
  if (weight != kNoValue && !Shares(c, x, weight)) {
    c.Fail(line, "`" + line.name + "` norms a dimension that is not there");
    return kNoValue;
  }
  if (line.op == LineOp::kRmsNorm) {
    return RmsNorm(c.write, x, label, weight, c.settings.norm);
  }
  return LayerNorm(c.write, x, label, weight, c.BiasOf(line, 1),
                   c.settings.norm);
}

ValueId GatedBy(BuildContext& c, const Line& line, ValueId x,
                const Activation& activation) {
  const ValueId gate = CheckedLinear(c, line, x, 1);
  const ValueId up = CheckedLinear(c, line, x, 2);
  if (c.failed) return kNoValue;
  return Gated(c.write, gate, up, activation);
}

ValueId GatedFused(BuildContext& c, const Line& line, ValueId x) {
  const ValueId both = CheckedLinear(c, line, x, 1);
  if (c.failed) return kNoValue;
  const LabelId half = c.labels.Dim(line.arguments[2].dims[0]);
  if (!c.write.Has(both, half) || c.labels.SizeOf(half) != 2) {
    c.Fail(line, "`" + line.name + "` has no such halves");
    return kNoValue;
  }
  const ValueId gate = c.write.Index(both, half, 0);
  return Gated(c.write, gate, c.write.Index(both, half, 1),
               c.settings.activation);
}

ValueId ApplyFunction(BuildContext& c, const Line& line, ValueId x) {
  const std::string& fn = line.arguments[1].word;
  if (FindFunction(fn) == nullptr) {
    c.Fail(line, "there is no function `" + fn + "`");
    return kNoValue;
  }
  if (line.arguments.size() < 3) return c.write.Fn(fn, x);
  const auto by = c.Constant(line.arguments[2]);
  return by ? c.write.Fn(fn, x, *by) : x;
}

// Returns the elementwise product. The operand with fewer labels becomes the
// second one, because the second operand is broadcast.
ValueId Multiply(BuildContext& c, ValueId a, ValueId b) {
  const bool swap = c.write.LabelsOf(a).size() < c.write.LabelsOf(b).size();
  return swap ? c.write.Times(b, a) : c.write.Times(a, b);
}

// Scales, divides or caps x by the line's constant. Returns x unchanged if the
// configuration lacks the constant or if the constant is 0.
ValueId Times(BuildContext& c, const Line& line, ValueId x) {
  const auto number = c.Constant(line.arguments[1]);
  if (!number || *number == 0) return x;
  if (line.op == LineOp::kCap) return c.write.Fn("cap", x, *number);
  const double factor = line.op == LineOp::kScale ? *number : 1 / *number;
  return c.write.Scaled(x, {factor, {}});
}

std::vector<ValueId> Parts(BuildContext& c, const Line& line, ValueId x) {
  std::vector<LabelId> parts;
  for (const int32_t dim : line.arguments[1].dims) {
    parts.push_back(c.labels.Dim(dim));
  }
  const LabelId whole = c.labels.OfParts(parts);
  std::vector<ValueId> out;
  if (!c.write.Has(x, whole)) {
    c.Fail(line, "`" + line.name + "` has no such parts");
    return {};
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    out.push_back(c.write.Part(x, whole, i));
  }
  return out;
}

// Returns x with a dimension renamed to another dimension of the same size.
ValueId Renamed(BuildContext& c, const Line& line, ValueId x) {
  const LabelId from = c.labels.Dim(line.arguments[1].dims[0]);
  const LabelId to = c.labels.Dim(line.arguments[2].dims[0]);
  const bool same = c.labels.SizeOf(from) == c.labels.SizeOf(to);
  if (!same || !c.write.Has(x, from) || c.write.Has(x, to)) {
    c.Fail(line, "`" + line.name + "` needs a dimension and one of its size");
    return kNoValue;
  }
  return c.write.Rename(x, from, to);
}

}  // namespace

ValueId CheckedLinear(BuildContext& c, const Line& line, ValueId x,
                      size_t role) {
  const ValueId weight = c.RoleValue(line, role);
  const ValueId bias = c.BiasOf(line, role);
  if (!Shares(c, x, weight)) {
    c.Fail(line, "`" + line.name + "` has nothing to contract");
    return kNoValue;
  }
  return Linear(c.write, x, weight, bias);
}

std::vector<ValueId> WriteLine(BuildContext& c, const Line& line) {
  const ValueId x =
      line.arguments[0].variables.empty() ? kNoValue : c.Value(line, 0);
  switch (line.op) {
    case LineOp::kLookup:
      return {c.write.Lookup(c.RoleValue(line, 0), c.Value(line, 1),
                             OffsetOf(c, line))};
    case LineOp::kRows:
      return {Rows(c, line, x)};
    case LineOp::kPatches:
      return {Patches(c, line)};
    case LineOp::kToken:
      return {c.write.Index(x, c.stream().query,
                            static_cast<int64_t>(line.arguments[1].number))};
    case LineOp::kFrames:
      return {Frames(c, line)};
    case LineOp::kConvolve:
      return {Convolve(c, line, x)};
    case LineOp::kLinear:
      return {CheckedLinear(c, line, x, 1)};
    case LineOp::kRmsNorm:
    case LineOp::kLayerNorm:
      return {Norm(c, line, x)};
    case LineOp::kGated:
      return {GatedBy(c, line, x, c.settings.activation)};
    case LineOp::kSwiglu:
      return {GatedBy(c, line, x, {.fn = "silu"})};
    case LineOp::kGeglu:
      return {GatedBy(c, line, x, {.fn = "gelu_tanh"})};
    case LineOp::kGatedFused:
      return {GatedFused(c, line, x)};
    case LineOp::kActivation:
      return {Activated(c.write, x, c.settings.activation)};
    case LineOp::kFunction:
      return {ApplyFunction(c, line, x)};
    case LineOp::kTake:
      return {c.RoleValue(line, 0)};
    case LineOp::kMultiply:
      return {Multiply(c, x, c.Value(line, 1))};
    case LineOp::kScale:
    case LineOp::kDivide:
    case LineOp::kCap:
      return {Times(c, line, x)};
    case LineOp::kRoot:
      return {c.write.Scaled(x, {1, {PowerOf(c, line)}})};
    case LineOp::kPart:
      return Parts(c, line, x);
    case LineOp::kIndex:
      return {c.write.Index(x, c.labels.Dim(line.arguments[1].dims[0]),
                            static_cast<int64_t>(line.arguments[2].number))};
    case LineOp::kRename:
      return {Renamed(c, line, x)};
    case LineOp::kRope:
      return {c.layer_settings.rotates ? WriteRope(c, x) : x};
    case LineOp::kAttention:
    case LineOp::kAttentionNear:
      return {WriteAttention(c, line)};
    case LineOp::kMoe:
    case LineOp::kMoeFused:
      return {WriteExperts(c, line, x)};
    case LineOp::kAdd:
      break;
  }
  return {};
}

}  // namespace shardc::step
